package cli

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/describe"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// fakeDaemon is a forsd at epoch 42 of FT(2;4,4) with fixed answers.
type fakeDaemon struct {
	result *planner.Result
	events *published.Events
	plans  *published.Plans
}

var began = time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)

// serveFake is the script command daemon SOCKET. It serves until the script ends, and sets
// $FIRST to the ID before that of its first event.
func serveFake(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: daemon SOCKET")
	}
	d, err := newFakeDaemon()
	ts.Check(err)
	server, err := d.listen(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Setenv("FIRST", strconv.FormatInt(began.UnixNano(), 36)+"-0")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx) }()
	ts.Defer(func() {
		cancel()
		if err := <-ended; err != nil {
			ts.Logf("daemon: %v", err)
		}
	})
}

func newFakeDaemon() (*fakeDaemon, error) {
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	base, err := topology.NewBaseline(f)
	if err != nil {
		return nil, err
	}
	tree, err := topology.Fit(f, base, nil)
	if err != nil {
		return nil, err
	}
	result, err := planner.Make(context.Background(), tree, planner.Settings{})
	return &fakeDaemon{result, published.NewEvents(16, began), &published.Plans{}}, err
}

// listen publishes the plan and some events, and binds the socket.
func (d *fakeDaemon) listen(socket string) (*server.Server, error) {
	data, err := phasetable.Encode(d.result.Table(42))
	if err != nil {
		return nil, err
	}
	view, err := phasetable.Decode(data)
	if err != nil {
		return nil, err
	}
	p, err := published.NewPlan(view, d.result.Report(), began)
	if err != nil {
		return nil, err
	}
	d.plans.Publish(p)
	warning := health.Warning{Code: "cable-down", Severity: health.Degraded, Title: "Cables are down", Text: "Leaf001 port 6", Since: began}
	for _, e := range []struct {
		kind string
		data any
	}{{api.KindLink, topology.Change{Kind: topology.ChangeCableDown, Text: "Leaf001 port 6 – Spine001 port 2 went down"}},
		{api.KindEpoch, epoch42}, {api.KindWarning, map[string]any{"code": warning.Code, "text": warning.Text, "raised_at": began, "raised": true}},
		{api.KindWarning, map[string]any{"code": warning.Code, "raised": false}}} {
		if err := d.events.Publish(e.kind, e.data); err != nil {
			return nil, err
		}
	}
	tokens, err := access.OpenTokens(socket + ".tokens")
	if err != nil {
		return nil, err
	}
	config := server.Config{Access: &server.Access{Tokens: tokens}, Backend: d, Jobs: &fakeJobs{fakeDaemon: d}, Plans: d.plans, Events: d.events, Past: d,
		Mount: map[api.Role]map[string]http.Handler{api.Reader: {"GET /v1/explain": d.handler(d.explain), "GET /v1/cables": d.handler(func(*http.Request) (any, error) { return cablesOf42(), nil }), "GET /v1/baseline": d.handler(d.baseline),
			"GET /v1/fabric":   d.handler(func(*http.Request) (any, error) { return describe.Cabling(d.result.Tree.Fabric, began), nil }),
			"GET /v1/measured": d.handler(func(*http.Request) (any, error) { return measuredOf42(), nil }),
			"GET /v1/drains":   d.handler(func(*http.Request) (any, error) { return api.Drained{Drains: fakeDrains("fans")}, nil }),
			"GET /v1/baseline/preview": d.handler(func(*http.Request) (any, error) {
				return api.Preview{Changes: []string{"1 spine forgotten: Spine003 (0x0000000000300003)"}, Deviations: []string{"spine Spine003 is absent"}}, nil
			})},
			api.Operator: {"POST /v1/baseline/accept": d.handler(func(*http.Request) (any, error) {
				return api.Change{Epoch: 42, Text: "the fabric as it is now is the baseline"}, nil
			}), "POST /v1/reload": d.handler(reloaded), "POST /v1/drains": d.handler(drained), "POST /v1/undrain": d.handler(undrained), "POST /v1/cables/release": d.handler(released)}}}
	return server.Listen(config, server.Listeners{Socket: socket, Mode: 0o600, Log: log.Default()})
}

func (d *fakeDaemon) handler(f func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err != nil {
			server.WriteError(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(v) // fails only if the client has disconnected
	})
}

// cablesOf42 returns three of the cables; two of them have errors.
func cablesOf42() *api.Cables {
	end := func(name string, port uint8, symbols uint64) api.CableEnd {
		return api.CableEnd{GUID: ib.GUID(port), Name: name, Port: port, Counted: api.CableCounts{Counters: ib.Counters{Symbols: symbols, Sent: 1000}, OverSeconds: 720}}
	}
	text := "the leaf's end: 40 symbol errors, 1.44 allowed within 12m0s"
	return &api.Cables{Mode: "isolate", ReadAt: began, Failed: []string{"Spine003: it does not answer"}, Cables: []api.Cable{
		{Leaf: end("Leaf000", 5, 0), Spine: end("Spine000", 1, 0), Link: "full", State: "good", Returns: []time.Time{began}},
		{Leaf: end("Leaf001", 6, 40), Spine: end("Spine001", 2, 0), Lane: 1, Link: "full", Held: true, State: "isolated", Since: began, Returns: []time.Time{}, Why: []string{text},
			History: []api.CableEvent{{At: began, What: "isolated", Text: "Leaf001 port 6 – Spine001 port 2 is isolated, which costs no phase: " + text}}},
		{Leaf: end("Leaf002", 7, 9), Spine: end("Spine002", 3, 0), Lane: 2, Link: "full", State: "suspect", Since: began, Returns: []time.Time{}, Why: []string{text}, Refused: "it would cost 2 phases",
			Timed: &api.CableTimes{At: began, Gbps: 133.2, Slowdown: .5, Error: .012, Transfers: 12, Slow: true}},
	}}
}

// released answers for one cable only.
func released(r *http.Request) (any, error) {
	var q api.ReleaseRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	if q.Cable != "Leaf001/6" {
		return nil, api.Refused("%q is not one of the 1 cables that are isolated", q.Cable)
	}
	return api.Change{Epoch: 42, Text: "Leaf001/6 is on probation; plan and tables follow"}, nil
}

// reloaded answers a dry run, and refuses a reload because of an unknown key.
func reloaded(r *http.Request) (any, error) {
	var q api.ReloadRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	if !q.DryRun {
		return nil, api.Refused("/etc/forsd/forsd.yaml:3: planing: is unknown: the keys here are version, mode")
	}
	return api.Reload{File: "/etc/forsd/forsd.yaml", Changed: []string{"log.level"}, Restart: []string{"api.listen", "mode"}}, nil
}

func (d *fakeDaemon) explain(r *http.Request) (any, error) {
	table := d.plans.Current().Table
	src, err := table.Find(r.FormValue("src"))
	if err != nil {
		return nil, api.NotFound("src: %v", err)
	}
	dst, err := table.Find(r.FormValue("dst"))
	if err != nil {
		return nil, api.NotFound("dst: %v", err)
	}
	return planner.Explain(d.result.Tree, d.result.Tables, table, src, dst)
}

func (d *fakeDaemon) baseline(*http.Request) (any, error) { return d.result.Tree.Baseline, nil }

var epoch42 = api.Epoch{Epoch: 42, PublishedAt: began.Add(time.Minute), Length: phasetable.Summarize("shift", 15, 15).Length, TopologyHash: "feedfeedfeed",
	What: []string{"Leaf001 port 6 – Spine001 port 2 went down"}}

func (d *fakeDaemon) Status() api.Status {
	return api.Status{Version: "1.2.3", Started: began, State: "idle", Ready: true, Epoch: 42, PublishedAt: began.Add(time.Minute),
		Summary: phasetable.Summarize("shift", 15, 15), Size: phasetable.Size{Servers: 16, Leaves: 4, Spines: 4, Lanes: 4, LMC: 2},
		OpenSM: api.OpenSM{Running: true, PID: 77, RoutingEngine: "file,updn", TablesFile: "/tables/lfts.dump", Source: api.SourcePlugin,
			Plugin: &api.Plugin{Since: began, Version: "OpenSM 3.3.23", State: "master", DeadlineSeconds: 0.05}, DumpedAt: began, ReadBackAt: began, TablesMatch: true},
		LastEvent: &api.LastEvent{What: epoch42.What, SeenAt: began, PlannedSeconds: 0.00042, VerifiedSeconds: 0.00651, PublishedSeconds: 0.0213, ProgrammedSeconds: 0.1804},
		Warnings: []api.Warning{{Code: "cable-down", Severity: string(health.Degraded), Title: "Cables are down",
			Text: "Leaf001 port 6 – Spine001 port 2 is down: check its plugs", Since: began, Advice: health.Advice("cable-down")}},
		Baseline: []string{"the cable Leaf001 port 6 – Spine001 port 2 is down"}}
}

func (d *fakeDaemon) Topology() *api.Topology { return describe.Topology(d.result.Tree, began) }

func (d *fakeDaemon) Epochs() ([]api.Epoch, error) {
	old := api.Epoch{Epoch: 41, PublishedAt: began, Length: phasetable.Summarize("shift", 15, 15).Length, TopologyHash: "cafecafecafe", What: []string{"the fabric was seen for the first time"}}
	return []api.Epoch{old, epoch42}, nil
}

// History returns three entries, two of them on the first page.
func (d *fakeDaemon) History(_ context.Context, q api.HistoryQuery) (*api.HistoryPage, error) {
	at := func(n int) time.Time { return began.Add(time.Duration(n) * time.Minute) }
	all := []api.HistoryEntry{
		{Event: api.Event{ID: "r-3", Kind: api.KindWarning, Data: json.RawMessage(`{"code":"cable-down","text":"Leaf001 port 6","raised_at":"2026-07-01T08:02:00Z","raised":true}`)}, At: at(2), Ended: at(3)},
		{Event: api.Event{ID: "r-2", Kind: api.KindOrder, Data: json.RawMessage(`{"what":"rollback to epoch 41","by":{"uid":1000,"user":"anna","pid":77,"process":"forsctl"},"result":"the plan of epoch 41 is in force again"}`)}, At: at(1)},
		{Event: api.Event{ID: "r-1", Kind: api.KindStart, Data: json.RawMessage(`{"release":"1.2.3"}`)}, At: at(0)},
	}
	if q.By != "" {
		return &api.HistoryPage{Entries: all[1:2]}, nil
	}
	if q.Cursor == "" && q.Limit > 2 {
		return &api.HistoryPage{Entries: all[:2], Next: "more"}, nil
	}
	return &api.HistoryPage{Entries: all[2:]}, nil
}

func (d *fakeDaemon) Reroute(context.Context) (api.Change, error) {
	return api.Change{Epoch: 42, Text: "planned, programmed and read back anew; the plan in force is still the right one"}, nil
}

func (d *fakeDaemon) WhatIf(_ context.Context, q api.WhatIf) (*api.Forecast, error) {
	f := d.result.Tree.Fabric.Clone()
	forecast := &api.Forecast{What: []string{}}
	for _, spec := range q.Fail {
		what, err := f.Fail(spec)
		if err != nil {
			return nil, api.BadRequest("%v", err)
		}
		forecast.What = append(forecast.What, what)
	}
	tree, err := topology.Fit(f, d.result.Tree.Baseline, nil)
	if err != nil {
		return nil, err
	}
	result, err := planner.Make(context.Background(), tree, planner.Settings{})
	if err != nil {
		return nil, err
	}
	if forecast.Plan, err = json.Marshal(result.Report()); err != nil {
		return nil, err
	}
	if forecast.Table, err = phasetable.New(result.Table(42)); err != nil {
		return nil, err
	}
	if q.Done == nil {
		return forecast, nil
	}
	old := d.plans.Current().Table
	rest, err := planner.Remaining(context.Background(), tree, old, q.Done.Of(old.Phases()))
	if err != nil {
		return nil, api.BadRequest("%v", err)
	}
	if forecast.Table, err = phasetable.New(rest.Table(42)); err != nil {
		return nil, err
	}
	summary, proof := planner.Summary(rest.Plan)
	forecast.Remaining = &api.Remaining{Epoch: 42, Done: rest.Done, Summary: summary, Proof: proof, Kept: rest.Kept, Moved: rest.Moved, Shed: rest.Shed, Anew: rest.Anew,
		PlanSeconds: rest.Took.Seconds()}
	return forecast, nil
}

func (d *fakeDaemon) Measure(context.Context, *phasetable.View, []byte) (*api.Measured, error) {
	return nil, api.Refused("times are not for this test")
}

// measuredOf42 returns an exchange of the fabric in which a cable is slow, and one of a job.
func measuredOf42() api.MeasuredList {
	return api.MeasuredList{Exchanges: []api.Measured{
		{At: began, Epoch: 42, Transfers: 240, Noise: .03, Threshold: 4.6, Slow: []api.SlowPart{{Name: "Leaf001 port 6 → Spine001 port 2", Slowdown: .5, Error: .01, Score: 9, Transfers: 12}}, Cables: []api.MeasuredCable{}},
		{At: began, Epoch: 43, Job: 7, Transfers: 20, Noise: .03, Threshold: 4.6, Slow: []api.SlowPart{}, Cables: []api.MeasuredCable{}}}}
}

func (d *fakeDaemon) Rollback(_ context.Context, epoch uint64) (api.Change, error) {
	if epoch != 41 {
		return api.Change{}, api.Refused("epoch %d is not put in force: it is not kept", epoch)
	}
	return api.Change{Epoch: 43, Changed: true, Text: "the plan of epoch 41 is in force again"}, nil
}
