package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/tiers"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// listen binds the API and returns what serves it.
func (d *Daemon) listen() (func(context.Context) error, error) {
	s, err := api.Listen(d.interfaces(), api.Listeners{Socket: d.cfg.API.Socket, Mode: d.cfg.API.SocketMode, TCP: d.cfg.API.Listen, Log: zap.NewStdLog(d.log)})
	if err != nil {
		return nil, err
	}
	return s.Serve, nil
}

// interfaces is what the API serves.
func (d *Daemon) interfaces() api.Config {
	c := api.Config{Backend: backend{d}, Jobs: jobsBackend{d}, Plans: d.board.Plans, Bases: d.board.Bases, Events: d.board.Events, Metrics: d.metrics.handler(), ReadOverTCP: d.cfg.API.ReadOverTCP,
		Mount: map[string]http.Handler{
			"GET /v1/explain":  answer(d.explain),
			"GET /v1/baseline": answer(d.showBaseline),
			"GET /v1/tables":   answer(d.showTables()),
			"GET /v1/replica":  answer(d.peer.desk.Answer),
		},
		Local: map[string]http.Handler{
			"POST /v1/baseline/accept": answer(d.acceptBaseline),
		}}
	maps.Copy(c.Mount, tiers.Handlers(d.workers, d.routesInForce))
	return c
}

// answer turns a function of a request into a handler: []byte is sent as it is,
// everything else as JSON.
func answer(f func(r *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err != nil {
			api.WriteError(w, err)
			return
		}
		if raw, ok := v.([]byte); ok {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write(raw) // the client has gone; nobody is left to tell
			return
		}
		if err := api.WriteJSON(w, r, v); err != nil {
			api.WriteError(w, err)
		}
	})
}

// explain answers /v1/explain?src=…&dst=…: the phase, the lane and every hop of
// a pair, walked through the tables that were read back.
func (d *Daemon) explain(r *http.Request) (any, error) {
	e, v, tables := d.board.Current(), d.board.Latest(), d.desk.InSwitches()
	if e == nil || v == nil || tables == nil {
		return nil, api.Errorf(http.StatusServiceUnavailable, api.CodeNoPlan, "no verified plan is in force yet")
	}
	if v.Kind == controller.OwnRoutes {
		return nil, v.NoTree("a transfer has no lane to explain")
	}
	var ends [2]int
	for i, name := range []string{"src", "dst"} {
		s, err := e.Plan.Find(r.FormValue(name))
		if err != nil {
			return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "%s: %v", name, err)
		}
		ends[i] = s
	}
	x, err := planner.Explain(v.Tree, tables, e.Plan, ends[0], ends[1])
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	return x, nil
}

// showBaseline answers /v1/baseline with the file's content.
func (d *Daemon) showBaseline(*http.Request) (any, error) {
	base := d.board.Baseline()
	if base == nil {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "no fabric has been accepted yet: there is no baseline")
	}
	return base, nil
}

// showTables answers /v1/tables with the tables that were read back last, by one text
// for all who ask.
func (d *Daemon) showTables() func(*http.Request) (any, error) {
	var mu sync.Mutex
	var of *lft.Tables
	var text []byte
	return func(*http.Request) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		tables := d.desk.InSwitches()
		if tables == nil {
			return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "no tables have been read back yet")
		}
		if tables != of {
			var out bytes.Buffer
			if err := tables.Write(&out, nil); err != nil {
				return nil, err
			}
			of, text = tables, out.Bytes()
		}
		return text, nil
	}
}

// acceptBaseline answers POST /v1/baseline/accept: the fabric as it is becomes
// what it is meant to be, with lanes and indices numbered afresh.
func (d *Daemon) acceptBaseline(r *http.Request) (any, error) {
	var err error
	cerr := d.call(r.Context(), func() { err = d.accept() })
	if cerr != nil {
		return nil, cerr
	}
	if err != nil {
		return nil, api.Refused("the baseline stays: %v", err)
	}
	return api.Change{Epoch: d.board.EpochNumber(), Text: "the fabric as it is now is the baseline; plan and tables follow"}, nil
}

// accept runs between two events.
func (d *Daemon) accept() error {
	if err := d.mustLead(); err != nil {
		return err
	}
	v := d.board.Latest()
	if v == nil {
		return errors.New("OpenSM has not written a usable dump yet")
	}
	// What is under way was planned for the old numbers and would store them; what
	// is not believed is no measure for anything.
	if s := d.core.State(); d.core.Busy() || s == controller.Suspect {
		return fmt.Errorf("a change is being worked on (%s): try again when it has settled", s)
	}
	base, err := topology.NewBaseline(v.Fabric)
	if err != nil {
		return err
	}
	fresh, err := view.New(v.Fabric, base, d.cfg.Planning.Exclude)
	if err != nil {
		return err
	}
	if err := d.store.SaveBaseline(fresh.Tree.Baseline); err != nil {
		return err
	}
	d.board.TakeUp(fresh.Tree.Baseline, false, false)
	d.store.BaselineFound()
	fresh.SeenAt, fresh.Complete, fresh.Why = time.Now(), v.Complete, "the fabric was accepted as the baseline"
	d.take(d.life, fresh, true)
	return nil
}
