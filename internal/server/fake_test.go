package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
)

var started = time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)

// fake is a backend with fixed answers.
type fake struct {
	ready bool
	fails error // of every change
	calls []string
}

func (f *fake) Status() api.Status {
	return api.Status{Version: "1.2.3", Started: started, State: "idle", Ready: f.ready, Epoch: 42, PublishedAt: started.Add(time.Minute),
		TopologyHash: "feed", Summary: phasetable.Summarize("algorithm", 361, 359),
		Size: phasetable.Size{Servers: 360, Leaves: 18, Spines: 20, Lanes: 20, LMC: 5},
		OpenSM: api.OpenSM{Running: true, PID: 77, RoutingEngine: "fors,file,updn", TablesFile: "/var/lib/forsd/opensm/lfts.dump", TablesMatch: true,
			Source: api.SourcePlugin, Plugin: &api.Plugin{Since: started, Version: "OpenSM 3.3.23", State: "master", DeadlineSeconds: 0.05}},
		LastEvent: &api.LastEvent{What: []string{"Leaf007 port 31 – Spine010 port 8 went down"}, SeenAt: started,
			PlannedSeconds: 0.0065, VerifiedSeconds: 0.009, PublishedSeconds: 0.012, ProgrammedSeconds: 0.64, ReadBackSeconds: 0.91},
		Warnings: []api.Warning{{Code: "cable-down", Severity: string(health.Degraded), Title: "A cable is down", Text: "Leaf007 port 31 – Spine010 port 8", Since: started, Advice: health.Advice("cable-down"), Runbook: health.Runbook("cable-down")}},
		Baseline: []string{"Leaf007 port 31 – Spine010 port 8 is missing"}}
}

func (f *fake) Topology() *api.Topology {
	if !f.ready {
		return nil
	}
	return &api.Topology{Hash: "feed", SeenAt: started, Lanes: 2, Servers: 1, Leaves: []api.Leaf{{GUID: 0x200000, Name: "Leaf000", Present: true, LID: 1, Servers: 1, LanesUp: 1, Cables: []string{"full", "missing"}}},
		Spines: []api.Spine{{GUID: 0x300000, Name: "Spine000", Present: true, LID: 3, FirstLane: 0, Lanes: 1}},
		Hosts:  []api.Host{{GUID: 0x100001, Name: "Hca0000 mlx5_0", LID: 64, LMC: 5, Leaf: "Leaf000", Server: true, Role: "unknown"}}, Findings: []api.Finding{{Code: "cable-down", Text: "Leaf000 port 22 – Spine001 port 1 is missing"}}}
}

func (f *fake) Epochs() ([]api.Epoch, error) {
	if f.fails != nil {
		return nil, f.fails
	}
	return []api.Epoch{{Epoch: 41, PublishedAt: started, Length: phasetable.Summarize("shift", 3, 3).Length, TopologyHash: "feed"}}, nil
}

// History returns one order for any query.
func (f *fake) History(_ context.Context, q api.HistoryQuery) (*api.HistoryPage, error) {
	f.calls = append(f.calls, fmt.Sprintf("history %+v", q))
	return &api.HistoryPage{Entries: []api.HistoryEntry{{At: started.Add(2 * time.Minute), Event: api.Event{ID: "djn2r17k1kw0-7", Kind: api.KindOrder,
		Data: json.RawMessage(`{"what":"rollback to epoch 41","by":{"uid":1000,"user":"anna","pid":4711,"process":"forsctl"},"result":"the plan of epoch 41 is in force again","before":43,"after":44}`)}}}}, f.fails
}

func (f *fake) Reroute(context.Context) (api.Change, error) {
	f.calls = append(f.calls, "reroute")
	return api.Change{Epoch: 43, Changed: true, Text: "planned afresh"}, f.fails
}

func (f *fake) WhatIf(_ context.Context, q api.WhatIf) (*api.Forecast, error) {
	f.calls = append(f.calls, "whatif "+strings.Join(q.Fail, " "))
	table, err := phasetable.New(shift(42))
	if err != nil {
		return nil, err
	}
	forecast := &api.Forecast{What: append([]string{}, q.Fail...), Plan: json.RawMessage(`{"phases":361}`), Table: table}
	if q.Done != nil {
		f.calls = append(f.calls, fmt.Sprintf("done %s of epoch %d", q.Done, q.Epoch))
		forecast.Remaining = &api.Remaining{Epoch: 42, Done: q.Done.Of(360), Summary: phasetable.Summarize("exact", 240, 240), Proof: phasetable.Proof{Certificate: "servers"},
			Kept: 82690, Moved: 3710, PlanSeconds: 0.0031}
	}
	return forecast, f.fails
}

func (f *fake) Rollback(_ context.Context, epoch uint64) (api.Change, error) {
	f.calls = append(f.calls, fmt.Sprint("rollback ", epoch))
	return api.Change{Epoch: 44, Changed: true, Text: "as epoch 41"}, f.fails
}

func (f *fake) Measure(_ context.Context, plan *phasetable.View, times []byte) (*api.Measured, error) {
	f.calls = append(f.calls, fmt.Sprintf("measure epoch %d, %d bytes", plan.Epoch(), len(times)))
	return &api.Measured{At: started, Epoch: plan.Epoch(), Slow: []api.SlowPart{}, Cables: []api.MeasuredCable{}}, f.fails
}

// shift is a table of four servers on two leaves; two of them share a name.
func shift(epoch uint64) *phasetable.Table {
	t := &phasetable.Table{Epoch: epoch, Phases: 3, Lanes: 2}
	for s := range 4 {
		t.Servers = append(t.Servers, phasetable.ServerEntry{GUID: ib.GUID(0x10 - s), LID: ib.LID(100 + 2*s), LMC: 1, Leaf: s / 2,
			Name: []string{"node/0;mlx5_0", "2", "twin", "twin"}[s]})
	}
	for p := range 3 {
		for s := range 4 {
			d := (s + p + 1) % 4
			lane, dlid := int16(-1), ib.LID(100+2*d)
			if s/2 != d/2 {
				lane, dlid = int16(s%2), dlid+ib.LID(s%2)
			}
			t.To, t.Lane, t.DLID = append(t.To, int32(d)), append(t.Lane, lane), append(t.DLID, dlid)
		}
	}
	// Server 3 neither sends nor receives in the last phase.
	for s := range 4 {
		if i := 8 + s; s == 3 || t.To[i] == 3 {
			t.To[i], t.Lane[i], t.DLID[i] = -1, -1, 0
		}
	}
	return t
}

func publish(t testing.TB, epoch uint64) *published.Plan {
	t.Helper()
	data, err := phasetable.Encode(shift(epoch))
	if err != nil {
		t.Fatal(err)
	}
	view, err := phasetable.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	p, err := published.NewPlan(view, json.RawMessage(`{ "version": 1, "phases": 3 }`), started.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// site is everything that a handler serves, ready at epoch 42.
type site struct {
	fake
	Config
}

func newSite(t testing.TB) *site {
	s := &site{fake: fake{ready: true}}
	s.Config = Config{Backend: &s.fake, Jobs: newFakeJobs(t, &s.fake), Plans: &published.Plans{}, Events: published.NewEvents(8, started), Past: &s.fake, ReadOverTCP: true,
		Names:   []string{"example.com"}, // where httptest asks
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "forsd_epoch 42") }),
		Mount: map[api.Role]map[string]http.Handler{api.Viewer: {"POST /v1/gpu/lanes": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, `{"frames":1}`)
		})},
			api.Operator: {"POST /v1/baseline/accept": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				s.calls = append(s.calls, "accept")
				WriteError(w, api.Refused("the baseline stays"))
			})}}}
	s.Plans.Publish(publish(t, 42))
	return s
}

// request sends a request to a handler; header holds pairs of name and value.
func request(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", api.MediaJSON)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// pipes is a listener in memory: deadlines on its connections run on the
// bubble's clock in a synctest. It can be closed and opened again.
type pipes struct {
	conns chan net.Conn
	mu    sync.Mutex
	done  chan struct{} // closed while the listener is down
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) closed() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

func (p *pipes) reopen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = make(chan struct{})
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed()); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.conns <- b:
		return a, nil
	case <-p.closed():
		return nil, errors.New("nobody listens")
	}
}

// client asks over the pipes.
func (p *pipes) client(t *testing.T) *api.Client {
	t.Helper()
	c, err := api.DialAs("/pipe", api.Credentials{Connect: p.dial})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// askStream reads the event stream until ctx ends.
func askStream(ctx context.Context, s *site, last string) string {
	r := httptest.NewRequestWithContext(ctx, "GET", "/v1/events", nil)
	r.Header.Set("Last-Event-ID", last)
	w := httptest.NewRecorder()
	Handler(s.Config, true).ServeHTTP(w, r)
	return w.Body.String()
}
