package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
)

// healthz answers as long as the daemon runs.
func healthz(w http.ResponseWriter, r *http.Request) error {
	return WriteJSON(w, r, map[string]string{"status": "ok"})
}

// readyz answers 200 once a verified epoch is in force.
func (s *service) readyz(w http.ResponseWriter, r *http.Request) error {
	if st := s.Backend.Status(); !st.Ready {
		return api.Errorf(api.CodeNotReady, "no verified epoch is in force: the controller is in state %s", st.State)
	}
	return WriteJSON(w, r, map[string]string{"status": "ready"})
}

func (s *service) status(w http.ResponseWriter, r *http.Request) error {
	return writeMade(w, r, func() (any, error) { return s.Backend.Status(), nil })
}

func (s *service) topology(w http.ResponseWriter, _ *http.Request) error {
	t := s.Backend.Topology()
	if t == nil {
		return api.Errorf(api.CodeNoTopology, "no fabric has been seen yet: is OpenSM running, and does it write its dump?")
	}
	body, err := s.shown.of(t)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", api.MediaJSON)
	return send(w, body)
}

// shown is the topology as JSON, made once for all who ask.
type shown struct {
	mu   sync.Mutex // guards what follows
	t    *api.Topology
	body []byte
}

func (s *shown) of(t *api.Topology) (body []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.t != t {
		if body, err = json.Marshal(t); err != nil {
			return nil, err
		}
		body = append(body, '\n')
		s.t, s.body = t, body
	}
	return s.body, nil
}

func (s *service) epochs(w http.ResponseWriter, r *http.Request) error {
	return writeMade(w, r, func() (any, error) {
		epochs, err := s.Backend.Epochs()
		return api.EpochList{Epochs: append([]api.Epoch{}, epochs...)}, err
	})
}

// ofPlan returns an endpoint that passes the plans that a request is for to send.
func ofPlan(of func(*http.Request) (*published.Plans, error), send func(http.ResponseWriter, *http.Request, *published.Plans) error) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		plans, err := of(r)
		if err != nil {
			return err
		}
		return send(w, r, plans)
	}
}

// sendPlan answers with plan.json, epoch and published_at of the plan in force of plans.
func sendPlan(w http.ResponseWriter, r *http.Request, plans *published.Plans) error {
	p, err := fresh(w, r, plans)
	if p == nil {
		return err
	}
	w.Header().Set("Content-Type", api.MediaJSON)
	return send(w, p.Document())
}

// The forms of a plan's phases.
var phaseForms = []form{
	{"csv", "text/csv", "text/csv; charset=utf-8"},
	{"binary", phasetable.MediaType, phasetable.MediaType},
	{"binary", "application/octet-stream", "application/octet-stream"},
}

// byLIDs returns the plans that the request is for, by the LIDs that they send to.
func (s *service) byLIDs(r *http.Request) (*published.Plans, error) {
	base, err := forBaseLIDs(r)
	if err != nil || !base {
		return s.Plans, err
	}
	if s.Bases == nil {
		return nil, api.Errorf(api.CodeNoPlan, "this service has no plans for base LIDs")
	}
	return s.Bases, nil
}

// forBaseLIDs reports whether a request is for plans that only use base LIDs.
func forBaseLIDs(r *http.Request) (bool, error) {
	switch lids := r.URL.Query().Get("lids"); lids {
	case "", "pinned":
		return false, nil
	case "base":
		return true, nil
	default:
		return false, api.Errorf(api.CodeBadRequest, "lids=%.40s: want base or pinned", lids)
	}
}

// sendPhases answers with the phases of the plan in force of plans, as CSV or as the binary
// table.
func sendPhases(w http.ResponseWriter, r *http.Request, plans *published.Plans) error {
	w.Header().Set("Vary", "Accept")
	f, err := chooseForm(r, phaseForms)
	if err != nil {
		return err
	}
	p, err := fresh(w, r, plans)
	if p == nil {
		return err
	}
	w.Header().Set("Content-Type", f.content)
	if f.name == "csv" {
		return p.SendCSV(w)
	}
	return send(w, p.Table.Bytes())
}

// send answers with a whole body; its length makes HEAD useful.
func send(w http.ResponseWriter, body []byte) error {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client is gone if this fails
	return nil
}

// sendServer answers with the row of the path's server in the plan in force.
func sendServer(w http.ResponseWriter, r *http.Request, plans *published.Plans) error {
	p, err := fresh(w, r, plans)
	if p == nil {
		return err
	}
	n, err := p.Table.Find(r.PathValue("server"))
	if errors.Is(err, phasetable.ErrAmbiguous) {
		return api.Errorf(api.CodeAmbiguous, "%v", err)
	} else if err != nil {
		return api.NotFound("%v", err)
	}
	return WriteJSON(w, r, serverPlan(p.Table, n))
}

func serverPlan(t *phasetable.View, n int) api.ServerPlan {
	guids := make([]ib.GUID, t.Servers()+1) // the last one is unused
	for i := range t.Servers() {
		guids[i] = t.Server(i).GUID
	}
	nobody := t.Servers()
	e, row := t.Server(n), t.Row(n)
	out := api.ServerPlan{Epoch: t.Epoch(), Server: api.ServerRef{GUID: e.GUID, LID: e.LID, LMC: e.LMC, Leaf: e.Leaf, Name: e.Name, Number: n}, Rows: make([]api.ServerPhase, row.Len())}
	for p := range out.Rows {
		x := row.At(p)
		if x.SendTo == phasetable.Idle {
			x.SendTo = nobody
		}
		if x.RecvFrom == phasetable.Idle {
			x.RecvFrom = nobody
		}
		out.Rows[p] = api.ServerPhase{Phase: p, SendTo: guids[x.SendTo], RecvFrom: guids[x.RecvFrom], Lane: x.Lane, DLID: x.DLID}
	}
	return out
}
