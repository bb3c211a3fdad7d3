package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/internal/tiers"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestGPUOnTheFabric pins an exchange on the lanes of the daemon's own fabric, and another
// way when a cable has died.
func TestGPUOnTheFabric(t *testing.T) {
	d := readable(newDaemon(t))
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	d.atRest(t, f)
	h := tiers.Handlers(d.workers.Others, d.backend.Routes)["POST /v1/gpu/schedule"]
	rows := ""
	for source := range 16 {
		row := ""
		for destination := range 16 {
			row += fmt.Sprint(",", 1000*(1+(source*7+destination*3)%5))
		}
		rows += ",[" + row[1:] + "]"
	}
	body := `{"gpus_per_server":4,"fabric":true,"traffic":[` + rows[1:] + `]`
	var parts []int
	for _, f := range []func(){func() {}, func() { d.atRest(t, lacking(f, 4, 1, 2)) }} {
		f()
		status, answer := ask(t.Context(), h, body+"}")
		if status != 200 {
			t.Fatalf("%d %.500s", status, answer)
		}
		var r lanes.Report
		ok(t, json.Unmarshal([]byte(answer), &r))
		carried := int64(0)
		for _, s := range r.Stages {
			for _, x := range s.Transfers {
				carried += x.Bytes
			}
		}
		for _, p := range r.Fabric.Parts {
			for _, x := range p.Transfers {
				carried -= x.Bytes
				if leaf, peer := int(x.From)/4, int(x.To)/4; len(parts) > 0 && (leaf == 1 || peer == 1) && leaf != peer && x.Lane == 2 {
					t.Errorf("%+v goes over the dead cable", x)
				}
			}
		}
		if carried != 0 || r.Fabric.Lanes != 4 {
			t.Errorf("%d bytes of the stages are not in parts, on %d lanes", carried, r.Fabric.Lanes)
		}
		parts = append(parts, len(r.Fabric.Parts))
	}
	if parts[1] <= parts[0] {
		t.Errorf("%d parts, and %d after a cable died", parts[0], parts[1])
	}
	for extra, want := range map[string]int{`,"nics":["Hca0000"]}`: 400, `,"nics":["nobody"]}`: 400} {
		if status, answer := ask(t.Context(), h, body+extra); status != want {
			t.Errorf("%s: %d %.300s, want %d", extra, status, answer, want)
		}
	}
}

// TestSessionsOutlastARestart: a job goes on with its session at the next forsd, with what
// had failed.
func TestSessionsOutlastARestart(t *testing.T) {
	s := running(t, fabric(2, 2))
	c, err := api.Dial(filepath.Join(s.dir, "s"))
	ok(t, err)
	defer c.Close()
	var session api.GPUSession
	var r lanes.Report
	frame := map[string]any{"traffic": [][]int{{0, 0, 8, 4}, {0, 0, 2, 8}, {1, 0, 0, 0}, {0, 1, 0, 0}}}
	ok(t, c.Call(s.ctx, "POST", "/v1/gpu/sessions", map[string]any{"servers": 2, "gpus_per_server": 2}, &session),
		c.Call(s.ctx, "POST", "/v1/gpu/sessions/1/failures", api.GPUFailures{BadNICs: []string{"0:1"}}, &session),
		c.Call(s.ctx, "POST", "/v1/gpu/sessions/1/frames", frame, &r))
	const periods = "/v1/optical/ocs/sessions"
	var run api.OCSSession
	var p tiers.PeriodReport
	matrix := map[string]any{"demand": [][]float64{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}}
	ok(t, c.Call(s.ctx, "POST", periods, map[string]any{"racks": 3, "switches": 2, "delta": 0.01, "period": 9}, &run),
		c.Call(s.ctx, "POST", periods+"/1/failures", map[string]any{"dead_switches": []int{1}}, &run),
		c.Call(s.ctx, "POST", periods+"/1/periods", matrix, &p))
	s.cancel()
	ok(t, <-s.ended)

	again := daemonIn(t, s.dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- again.Run(ctx) }()
	_, err = c.Status(ctx)
	for ; err != nil && ctx.Err() == nil; _, err = c.Status(ctx) {
		time.Sleep(50 * time.Millisecond) // it does not listen yet
	}
	ok(t, c.Call(ctx, "POST", "/v1/gpu/sessions/1/frames", frame, &r),
		c.Call(ctx, "GET", "/v1/gpu/sessions/1", nil, &session))
	if r.Length != 22 || session.Planned != 2 || len(session.Frames) != 2 || session.Frames[1].Number != 2 || len(session.BadNICs) != 1 {
		t.Errorf("after a restart a frame has the length %d, and the session is %+v", r.Length, session)
	}
	ok(t, c.Call(ctx, "POST", periods+"/1/periods", matrix, &p),
		c.Call(ctx, "GET", periods+"/1", nil, &run))
	if p.Fresh || p.Kept != 2 || len(p.Switches[1].Configs) != 0 || run.Planned != 2 || len(run.Periods) != 2 || len(run.DeadSwitches) != 1 {
		t.Errorf("after a restart a period is %+v, and the session %+v", p, run)
	}
	cancel()
	ok(t, <-ended)
}
