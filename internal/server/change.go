package server

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
)

// unhurried gives a request time to be worked on: the connection's deadline for
// writing is for clients that do not read. The one for reading stands until the
// request has been read, and net/http lifts it then.
func unhurried(w http.ResponseWriter, r *http.Request, most time.Duration) (context.Context, context.CancelFunc) {
	// A recorder in tests has no deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(most + writeWithin))
	return context.WithTimeout(r.Context(), most)
}

// reroute answers POST /v1/reroute. A body is allowed as long as it is {}.
func (s *service) reroute(r *http.Request) (any, error) {
	if r.ContentLength != 0 {
		if err := ReadJSON(r, &struct{}{}); err != nil {
			return nil, err
		}
	}
	return s.Backend.Reroute(r.Context())
}

// The forms of a forecast: JSON, or its plan's phases.
var forecastForms = append([]form{{"json", api.MediaJSON, api.MediaJSON}}, phaseForms...)

// whatIf answers POST /v1/whatif, as JSON or with the phases of the plan.
func (s *service) whatIf(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	f, err := chooseForm(r, forecastForms)
	if err != nil {
		return err
	}
	var q api.WhatIf
	if err := ReadJSON(r, &q); err != nil {
		return err
	}
	switch {
	case len(q.Fail) == 0 && q.Done == nil && !q.AsIs:
		return api.BadRequest(`nothing to fail: want {"fail": ["Spine012", "Leaf007/31"]}, and {"done": 120} or {"done": "33%%"} for what remains of an exchange`)
	case q.Job != "" && q.Done == nil:
		return api.BadRequest(`job %.100q without done: say how far its exchange has come, {"job": %.100q, "done": 12}`, q.Job, q.Job)
	case q.Epoch != 0 && q.Done == nil:
		return api.BadRequest(`epoch %d without done: say how far its exchange has come, {"epoch": %d, "done": 120}`, q.Epoch, q.Epoch)
	}
	ctx, cancel := unhurried(w, r, maxChange)
	defer cancel()
	forecast, err := s.Backend.WhatIf(ctx, q)
	if err != nil {
		return err
	}
	if f.name == "json" {
		return WriteJSON(w, r, forecast)
	}
	return sendTable(w, forecast.Table, f)
}

// sendTable answers with a phase table in one of its forms.
func sendTable(w http.ResponseWriter, table *phasetable.View, f form) error {
	if table == nil {
		return api.Refused("there is no table of this plan")
	}
	body := table.Bytes()
	if f.name == "csv" {
		var out bytes.Buffer
		if err := phasetable.WriteCSV(&out, table.Table()); err != nil {
			return err
		}
		body = out.Bytes()
	}
	w.Header().Set("Content-Type", f.content)
	return send(w, body)
}

// rollback answers POST /v1/rollback.
func (s *service) rollback(r *http.Request) (any, error) {
	var q api.RollbackRequest
	if err := ReadJSON(r, &q); err != nil {
		return nil, err
	}
	if q.Epoch == 0 {
		return nil, api.BadRequest(`no epoch to go back to: want {"epoch": 41}`)
	}
	return s.Backend.Rollback(r.Context(), q.Epoch)
}
