package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
)

// readyz answers 200 once a verified epoch is in force.
func (s *service) readyz(*http.Request) (any, error) {
	if st := s.Backend.Status(); !st.Ready {
		return nil, api.Errorf(api.CodeNotReady, "no verified epoch is in force: the controller is in state %s", st.State)
	}
	return map[string]string{"status": "ready"}, nil
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

// maxTimes is how many bytes the times of an exchange may have.
const maxTimes = 8 << 20

// ofTimes returns what answers POST …/times?epoch=N: the backend measures the fabric by an exchange
// that ranks have timed.
func ofTimes(b Backend) func(http.ResponseWriter, *http.Request, *published.Plans) error {
	return func(w http.ResponseWriter, r *http.Request, plans *published.Plans) error {
		p, err := exactly(plans, "epoch", r.URL.Query().Get("epoch"))
		if err == nil && p == nil {
			err = published.ErrEnded
		}
		if err != nil {
			return err
		}
		return work(func(r *http.Request) (any, error) {
			body, err := ReadBody(r, maxTimes)
			if err != nil {
				return nil, err
			}
			return b.Measure(r.Context(), p.Table, body)
		})(w, r)
	}
}

// changes answers GET /v1/plan/changes: what the plan in force, or that of the epoch that
// the request names, changes since another one.
func (s *service) changes(w http.ResponseWriter, r *http.Request) error {
	plans, err := s.byLIDs(r)
	if err != nil {
		return err
	}
	p, err := requestedPlan(r, plans)
	if err != nil {
		return err
	}
	if p == nil {
		return api.Errorf(api.CodeNoPlan, "no plan is in force yet")
	}
	since, old, err := earlier(plans, r.URL.Query().Get("since"))
	if err != nil {
		return err
	}
	return writeMade(w, r, func() (any, error) {
		return api.PlanChanges{Since: since, Epoch: p.Epoch, Pairs: append([]phasetable.PairChange{}, phasetable.Changes(old, p.Table)...)}, nil
	})
}

// earlier returns the plan of the epoch that text names, from memory or from where epochs
// are kept.
func earlier(plans *published.Plans, text string) (epoch uint64, old *phasetable.View, err error) {
	p, err := exactly(plans, "since", text)
	if err == nil && p == nil {
		err = api.Errorf(api.CodeNoPlan, "no plan is in force yet")
	}
	if err == nil {
		return p.Epoch, p.Table, nil
	}
	if epoch, bad := strconv.ParseUint(text, 10, 64); bad == nil && plans.Stored != nil {
		if old, missing := plans.Stored(epoch); missing == nil {
			return epoch, old, nil
		}
	}
	return 0, nil, err
}

// phase answers GET /v1/plan/phase?phase=N.
func (s *service) phase(w http.ResponseWriter, r *http.Request) error {
	plans, err := s.byLIDs(r)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(r.URL.Query().Get("phase"))
	if err != nil || n < 0 {
		return api.BadRequest("phase=%.40s: want a number from 0 on", r.URL.Query().Get("phase"))
	}
	p, err := fresh(w, r, plans)
	if p == nil {
		return err
	}
	t := p.Table
	if n >= t.Phases() {
		return api.NotFound("phase %d: the plan has %d phases, from 0 on", n, t.Phases())
	}
	out := api.PlanPhase{Epoch: t.Epoch(), Phases: t.Phases(), Phase: n, Transfers: []api.Transfer{}}
	for i := range t.Servers() {
		if x := t.At(i, n); x.SendTo != phasetable.Idle {
			out.Transfers = append(out.Transfers, api.Transfer{Src: t.Server(i).GUID, Dst: t.Server(x.SendTo).GUID, Lane: x.Lane, DLID: x.DLID})
		}
	}
	return WriteJSON(w, r, out)
}

// Past serves past events: see Config.
type Past interface {
	// History returns a page of past events. The error is one of the API.
	History(ctx context.Context, q api.HistoryQuery) (*api.HistoryPage, error)
}

// history answers GET /v1/history.
func (s *service) history(r *http.Request) (any, error) {
	q, err := historyQuery(r.URL.Query())
	if err != nil {
		return nil, err
	}
	return s.Past.History(r.Context(), q)
}

// historyQuery reads the parameters of a request.
func historyQuery(v url.Values) (q api.HistoryQuery, err error) {
	for name := range v {
		switch name {
		case "kind", "about", "by", "since", "until", "order", "limit", "cursor":
		default:
			return q, api.BadRequest("%.40s is not a parameter of the history: there are kind, about, by, since, until, order, limit and cursor", name)
		}
	}
	for _, k := range v["kind"] {
		for kind := range strings.SplitSeq(k, ",") {
			if kind = strings.TrimSpace(kind); kind != "" {
				q.Kinds = append(q.Kinds, kind)
			}
		}
	}
	if len(q.Kinds) > 32 {
		return q, api.BadRequest("%d kinds: want 32 at most", len(q.Kinds))
	}
	q.About, q.By, q.Cursor = v.Get("about"), v.Get("by"), v.Get("cursor")
	for name, into := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := v.Get(name); text != "" {
			if *into, err = time.Parse(time.RFC3339, text); err != nil {
				return q, api.BadRequest("%s=%.40s: want a time such as 2026-07-01T08:00:00Z", name, text)
			}
		}
	}
	switch order := v.Get("order"); order {
	case "", "newest":
	case "oldest":
		q.Oldest = true
	default:
		return q, api.BadRequest("order=%.40s: want newest or oldest", order)
	}
	if text := v.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > api.MostHistory {
			return q, api.BadRequest("limit=%.40s: want 1 to %d", text, api.MostHistory)
		}
	}
	return q, nil
}
