package backend

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/delivery/desk"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/history"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/internal/webhook"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
)

func TestMain(m *testing.M) {
	worker.Main(worker.Tasks())
	os.Exit(m.Run())
}

func ok(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// loop is a loop at rest, which notes what is asked of it.
type loop struct {
	state  *state.Shared
	calls  []string
	drains []exclusions.Event
	fails  error
}

func (l *loop) call(what string) error { l.calls = append(l.calls, what); return l.fails }

func (l *loop) Reroute(context.Context) (<-chan struct{}, error) {
	done := make(chan struct{})
	close(done)
	return done, l.call("reroute")
}
func (l *loop) Rollback(context.Context, uint64) error            { return l.call("rollback") }
func (l *loop) Accept(context.Context) error                      { return l.call("accept") }
func (l *loop) ReleaseCable(_ context.Context, name string) error { return l.call("release " + name) }
func (l *loop) Measured(_ context.Context, _ *api.Measured) error { return l.call("measured") }
func (l *loop) Stopped() <-chan struct{}                          { return nil }
func (l *loop) Between(_ context.Context, f func(Ground) error) error {
	return f(Ground{View: l.state.Now().Latest})
}

func (l *loop) Drain(_ context.Context, all ...exclusions.Event) error {
	l.drains = append(l.drains, all...)
	return l.call("drain")
}

// newBackend returns a backend that has seen no fabric, and its loop.
func newBackend(t *testing.T) (*Backend, *loop) {
	t.Helper()
	cfg, dir, log := config.Default(), t.TempDir(), zap.NewNop()
	cfg.StateDir, cfg.API.Socket, cfg.OpenSM.LFTsFile = filepath.Join(dir, "state"), filepath.Join(dir, "s"), filepath.Join(dir, "lfts.dump")
	tracker := health.NewTracker([]health.Warnable{{Code: state.JobHostsMissing}, {Code: config.Refused}, {Code: "base"}}, func(health.Warning, bool) {})
	events := published.NewEvents(64, time.Now())
	shared := state.New(log, tracker, events)
	kept, err := state.Open(cfg, log, shared)
	ok(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	_, err = kept.Resume()
	ok(t, err)
	l := &loop{state: shared}
	return New(Parts{Version: "1.2.3", Fabric: "plane-3", Started: time.Now(), Log: log, State: shared, Store: kept, Desk: desk.Open(cfg.OpenSM.LFTsFile, "", false, log),
		History: history.New(history.Settings{Path: filepath.Join(dir, "history.db")}, events.Run(), log, tracker), Webhook: webhook.New(webhook.Settings{}, log, tracker),
		Cables: cables.New(cables.Parts{Settings: cfg.Cables.Settings, MaxCost: cfg.Cables.MaxCost, Log: log, Health: tracker, Say: shared.Emit}),
		OpenSM: func() api.OpenSM { return api.OpenSM{PID: 77} }, Loop: l, MayLead: func() error { return nil }, Workers: worker.NewPools(), Planning: planner.Settings{Memory: &planner.Memory{}},
		Settings: config.NewSettings(cfg, time.Now()), Terms: func(time.Time) []access.Term { return nil }}), l
}

// atRest returns a backend at rest on FT(4;4,4), with plan and tables in force.
func atRest(t *testing.T) (*Backend, *loop) {
	t.Helper()
	b, l := newBackend(t)
	v, err := view.Fit(fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 5}), nil, &b.Settings.Now().Planning, true)
	ok(t, err)
	b.State.Remember(v)
	ok(t, b.Store.AcceptBaseline(v.Tree.Baseline))
	r, err := v.Route(t.Context(), nil, b.Planning)
	ok(t, err)
	_, err = b.Desk.Deliver(v.ID, v.Fabric, r.Tables)
	ok(t, err)
	b.Desk.Read(r.Tables, true)
	s, err := planner.Plan(t.Context(), v.Tree, b.Planning)
	ok(t, err)
	ok(t, b.Store.Publish(1, state.Plan{Proposal: view.TreePlan{Schedule: s}, About: store.EpochInfo{Fabric: v.ID}}))
	return b, l
}

// ask asks an endpoint with a body, and decodes its answer, unless that is an error.
func ask(t *testing.T, b *Backend, method, url, body string, answer any) (status int, text string) {
	t.Helper()
	path, _, _ := strings.Cut(url, "?")
	for _, handlers := range b.Interfaces(true, func(*http.Request) (any, error) { return nil, api.Refused("no peer") }).Mount {
		if h := handlers[method+" "+path]; h != nil {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))
			if w.Code == http.StatusOK && answer != nil {
				ok(t, json.Unmarshal(w.Body.Bytes(), answer))
			}
			return w.Code, w.Body.String()
		}
	}
	t.Fatalf("there is no %s %s", method, path)
	return 0, ""
}

// TestWithoutFabric asks everything of a forsd that has seen no fabric.
func TestWithoutFabric(t *testing.T) {
	b, _ := newBackend(t)
	if s := b.Status(); s.Version != "1.2.3" || s.OpenSM.PID != 77 || s.Ready || b.Topology() != nil {
		t.Errorf("the status is %+v", s)
	}
	for _, url := range []string{"/v1/explain?src=a&dst=b", "/v1/baseline", "/v1/fabric", "/v1/hosts", "/v1/baseline/preview", "/v1/tables"} {
		if status, text := ask(t, b, "GET", url, "", nil); status < 400 || status >= 500 && status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", url, status, text)
		}
	}
	for url, body := range map[string]string{"/v1/drains": `{"parts":["Spine002"]}`, "/v1/gpu/lanes": `{"bytes_per_second":1,"latency_seconds":0}`, "/v1/reload": "", "/v1/undrain": `{"parts":[]}`} {
		if status, text := ask(t, b, "POST", url, body, nil); status < 400 || status >= 500 && status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", url, status, text)
		}
	}
	_, reroute := b.Reroute(t.Context())
	_, whatIf := b.WhatIf(t.Context(), api.WhatIf{})
	_, measured := b.Measure(t.Context(), nil, nil)
	_, job := Jobs{&b.Parts}.CreateJob(t.Context(), api.JobRequest{Hosts: []string{"a"}})
	for what, err := range map[string]error{"reroute": reroute, "what-if": whatIf, "measure": measured, "job": job} {
		var refused *api.Error
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestReads asks what the fabric, its plan and its tables are.
func TestReads(t *testing.T) {
	b, _ := atRest(t)
	if s := b.Status(); s.Epoch != 1 || s.Phases != 15 || !s.OpenSM.TablesMatch || s.Fabric != "plane-3" {
		t.Errorf("the status is %+v", s)
	}
	if topology := b.Topology(); topology.Servers != 16 || topology != b.Topology() {
		t.Errorf("the topology has %d servers, or is made twice", topology.Servers)
	}
	var hop planner.Explanation
	if status, text := ask(t, b, "GET", "/v1/explain?src=Hca0000&dst=Hca0005", "", &hop); status != http.StatusOK {
		t.Errorf("a pair: %d %s", status, text)
	}
	if status, _ := ask(t, b, "GET", "/v1/explain?src=Hca0000&dst=none", "", nil); status != http.StatusNotFound {
		t.Errorf("an unknown server: %d", status)
	}
	var hosts api.HostPorts
	if ask(t, b, "GET", "/v1/hosts", "", &hosts); len(hosts.Hosts) != 16 || hosts.Hosts[3].Percent != 100 || hosts.Lanes != 4 {
		t.Errorf("hosts: %+v", hosts)
	}
	var all api.Cables
	if ask(t, b, "GET", "/v1/cables", "", &all); len(all.Cables) != 16 {
		t.Errorf("%d cables", len(all.Cables))
	}
	var preview api.Preview
	if ask(t, b, "GET", "/v1/baseline/preview", "", &preview); len(preview.Changes) != 0 {
		t.Errorf("the same baseline changes %v", preview.Changes)
	}
	for _, url := range []string{"/v1/baseline", "/v1/fabric", "/v1/measured", "/v1/drains", "/v1/tables"} {
		if status, text := ask(t, b, "GET", url, "", nil); status != http.StatusOK || len(text) < 3 {
			t.Errorf("%s: %d %s", url, status, text)
		}
	}
	if epochs, err := b.Epochs(); err != nil || len(epochs) != 1 || epochs[0].Epoch != 1 {
		t.Errorf("epochs %+v: %v", epochs, err)
	}
	w := httptest.NewRecorder()
	b.Metrics.Refused(server.RefusedRole)
	b.Metrics.Observe(state.Times{})
	b.Metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	for _, line := range []string{`forsd_epoch{fabric="plane-3"} 1`, `forsd_phases{fabric="plane-3"} 15`, `forsd_requests_refused_total{fabric="plane-3",reason="role"} 1`} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("metrics have no %s", line)
		}
	}
}

// TestWhatIf asks what a dead cable would cost, and what would remain of an exchange.
func TestWhatIf(t *testing.T) {
	b, _ := atRest(t)
	done, err := api.ParseProgress("5")
	ok(t, err)
	for _, q := range []api.WhatIf{{Fail: []string{"Leaf001/7"}}, {Fail: []string{"Leaf001/7"}, Done: done}, {AsIs: true, Done: done, Epoch: 1}} {
		f, err := b.WhatIf(t.Context(), q)
		ok(t, err)
		if len(f.What) != len(q.Fail) || (f.Remaining == nil) != (q.Done == nil) || len(f.Plan) == 0 {
			t.Errorf("%+v: %+v", q, f)
		}
	}
	for _, q := range []api.WhatIf{{Fail: []string{"none"}}, {Done: done, Epoch: 9}, {Done: done, Job: "none"}} {
		if _, err := b.WhatIf(t.Context(), q); err == nil {
			t.Errorf("%+v is answered", q)
		}
	}
}

// TestJobs plans, makes, renews and removes a job.
func TestJobs(t *testing.T) {
	b, _ := atRest(t)
	jobs := Jobs{&b.Parts}
	q := api.JobRequest{Name: "a", Hosts: []string{"Hca0000", "Hca0001", "Hca0005", "Hca0009"}, LeaseSeconds: 60}
	try := q
	try.DryRun = true
	planned, err := jobs.CreateJob(t.Context(), try)
	ok(t, err)
	if planned.Servers != 4 || planned.Phases != 3 || len(jobs.Jobs()) != 0 {
		t.Errorf("planned: %+v, and there are %d jobs", planned, len(jobs.Jobs()))
	}
	made, err := jobs.CreateJob(t.Context(), q)
	ok(t, err)
	if _, err := jobs.CreateJob(t.Context(), q); err == nil {
		t.Error("two jobs have one name")
	}
	plans, _, err := jobs.JobPlans("a")
	ok(t, err)
	if found, err := jobs.Job("a"); err != nil || found.ID != made.ID || len(found.Hosts) != 4 || plans.Current().Epoch != made.Epoch || len(jobs.Jobs()) != 1 {
		t.Errorf("job %+v: %v", found, err)
	}
	done, err := api.ParseProgress("1")
	ok(t, err)
	_, err = b.WhatIf(t.Context(), api.WhatIf{AsIs: true, Job: "a", Done: done})
	ok(t, err)
	renewed, err := jobs.RenewJob(t.Context(), "a", time.Hour)
	ok(t, err)
	if time.Until(renewed.Expires) < 50*time.Minute {
		t.Errorf("the lease ends at %v", renewed.Expires)
	}
	_, err = jobs.RemoveJob(t.Context(), "a")
	ok(t, err)
	if _, err := jobs.Job("a"); err == nil || !plans.Over() {
		t.Errorf("the job that was removed: %v", err)
	}
}

// TestDrains asks what drains cost, and orders them.
func TestDrains(t *testing.T) {
	b, l := atRest(t)
	for part, phases := range map[string]int{"Leaf001/7": 16, "Leaf003": 11} {
		var cost api.Drained
		if status, text := ask(t, b, "POST", "/v1/drains", `{"parts":["`+part+`"],"dry_run":true}`, &cost); status != http.StatusOK || cost.Cost.Phases != phases || cost.Cost.PhasesNow != 15 || l.drains != nil {
			t.Errorf("%s: %d %s", part, status, text)
		}
	}
	if status, text := ask(t, b, "POST", "/v1/drains", `{"parts":["Spine002"],"reason":"new fans"}`, nil); status != http.StatusOK || len(l.drains) != 1 {
		t.Fatalf("%d %s, and %d orders", status, text, len(l.drains))
	}
	order := l.drains[0].(exclusions.Order).Drain
	order.State = exclusions.Draining
	b.State.ShowDrains([]exclusions.Drain{order})
	var list api.Drained
	if ask(t, b, "GET", "/v1/drains", "", &list); len(list.Drains) != 1 || list.Drains[0].Reason != "new fans" || len(list.Drains[0].Cables) != 4 {
		t.Errorf("drains: %+v", list)
	}
	if status, text := ask(t, b, "POST", "/v1/undrain", `{"parts":["all"],"dry_run":true}`, &list); status != http.StatusOK || list.Cost.Phases != 15 {
		t.Errorf("to give it back: %d %s", status, text)
	}
	if status, text := ask(t, b, "POST", "/v1/undrain", `{"parts":["Spine002"]}`, nil); status != http.StatusOK || l.drains[1] != (exclusions.End{Part: order.Part}) {
		t.Errorf("given back: %d %s", status, text)
	}
	for _, body := range []string{`{}`, `{"parts":["none"]}`, `{"parts":["Spine001","Spine001"]}`, `{"parts":["Spine001"],"until":"2001-01-01T00:00:00Z"}`} {
		if status, text := ask(t, b, "POST", "/v1/drains", body, nil); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, text := ask(t, b, "POST", "/v1/undrain", `{"parts":["Spine001"]}`, nil); status != http.StatusNotFound {
		t.Errorf("what is not drained: %d %s", status, text)
	}
}

// TestOrders gives orders, which the loop carries out or refuses.
func TestOrders(t *testing.T) {
	b, l := atRest(t)
	events := b.State.Events
	_, last := events.Wait(t.Context(), 0)
	for _, fails := range []error{nil, api.Refused("not now")} {
		l.calls, l.fails = nil, fails
		_, reroute := b.Reroute(t.Context())
		_, rollback := b.Rollback(t.Context(), 1)
		_, accept := b.Accept(t.Context())
		status, _ := ask(t, b, "POST", "/v1/cables/release", `{"cable":"Leaf001/7"}`, nil)
		if got := strings.Join(l.calls, ", "); got != "reroute, rollback, accept, release Leaf001/7" || !errors.Is(errors.Join(reroute, rollback, accept), fails) || (status == http.StatusOK) != (fails == nil) {
			t.Errorf("the loop was asked to %s: %v, %v, %v, %d", got, reroute, rollback, accept, status)
		}
	}
	told, _ := events.Wait(t.Context(), last)
	if len(told) != 8 || told[0].Kind != api.KindOrder {
		t.Errorf("%d orders are told of: %+v", len(told), told)
	}
}

// TestLanes assigns stages of an exchange of GPUs to lanes.
func TestLanes(t *testing.T) {
	b, _ := atRest(t)
	body, err := json.Marshal(lanes.Request{Hosts: []string{"Hca0000", "Hca0005"}, BytesPerSecond: 1e9, Stages: []lanes.Stage{{{From: 0, To: 1, Bytes: 1 << 20}}}})
	ok(t, err)
	var plan lanes.Plan
	if status, text := ask(t, b, "POST", "/v1/gpu/lanes", string(body), &plan); status != http.StatusOK || len(plan.Parts) != 1 {
		t.Errorf("%d %s", status, text)
	}
}
