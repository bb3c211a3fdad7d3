package sessions

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/optical/ocs"
)

const (
	ocsPath = "/v1/optical/ocs/sessions"
	opening = `{"name":"pods","racks":4,"switches":3,"delta":0.01,"period":2}`
	demands = `{"demand":[[0,0.61,0.3,0.1],[0.1,0,0.61,0.3],[0.3,0.1,0,0.61],[0.61,0.3,0.1,0]]}`
)

// holds replays a period's schedule separately.
func holds(t *testing.T, r *PeriodReport, scale float64) {
	t.Helper()
	row := []float64{0, 0.61, 0.3, 0.1, 0.1, 0, 0.61, 0.3, 0.3, 0.1, 0, 0.61, 0.61, 0.3, 0.1, 0}
	for i := range row {
		row[i] *= scale
	}
	d, err := ocs.NewDemand(4, row)
	if err != nil {
		t.Fatal(err)
	}
	if err := ocs.Replay(d, r.Schedule()); err != nil {
		t.Error(err)
	}
}

// TestPeriods checks that periods keep the circuits of the period before, except those of a
// switch and a port reported dead, until these work again.
func TestPeriods(t *testing.T) {
	x := newSite()
	x.ask(t, "POST "+ocsPath, opening, 200, nil)
	var plans []string
	for _, g := range []string{"", `{}`, `{"dead_switches":[1]}`, ``, `{"dead_ports":[{"switch":0,"rack":2}]}`, `{}`} {
		if g != "" {
			x.ask(t, "POST "+ocsPath+"/1/failures", g, 200, nil)
		}
		var r PeriodReport
		w := x.ask(t, "POST "+ocsPath+"/1/periods", demands, 200, &r)
		holds(t, &r, 1)
		if len(r.DeadSwitches) > 0 && len(r.Switches[1].Configs) > 0 {
			t.Errorf("the dead switch has %v", r.Switches[1].Configs)
		}
		plans = append(plans, fmt.Sprint(w.Header().Get("Forsplan-Period"), " ", r.Fresh, r.Kept > 0, len(r.DeadSwitches), len(r.DeadPorts)))
	}
	if d := cmp.Diff([]string{"1 true false 0 0", "2 false true 0 0", "3 false true 1 0", "4 false true 1 0", "5 true true 0 1", "6 false true 0 0"}, plans); d != "" {
		t.Errorf("periods (−want +got):\n%s", d)
	}
	x.ask(t, "POST "+ocsPath+"/1/periods", `{"demand":[[0,1],[1,0]]}`, 400, nil)
	var s OCSSession
	x.ask(t, "GET "+ocsPath+"/1", "", 200, &s)
	if s.Planned != 6 || s.Refused != 1 || len(s.Periods) != 6 || len(s.Periods[2].DeadSwitches) != 1 || s.Periods[5].Makespan <= 0 || s.Periods[5].LowerBound <= 0 || s.Periods[5].PlanningSeconds <= 0 || s.Periods[5].Configurations < 3 {
		t.Errorf("%+v", s)
	}
	x.ask(t, "DELETE "+ocsPath+"/1", "", 200, nil)
	want := []string{
		"OCS session 1 (pods) was opened, of 3 switches and 4 racks",
		"OCS session 1 (pods): from now on periods are planned with all switches and ports",
		"OCS session 1 (pods): from now on periods are planned with dead switches 1",
		"OCS session 1 (pods): period 3, with dead switches 1, takes ",
		"OCS session 1 (pods): from now on periods are planned with dead ports 0:2:sends",
		"OCS session 1 (pods): period 5, with dead ports 0:2:sends, takes ",
	}
	for i, text := range want {
		if i >= len(x.told) || !strings.HasPrefix(x.told[i], text) {
			t.Fatalf("told: %q\nwant %q", x.told, want)
		}
	}
}

// TestWellAgain checks that failures from the opening can be cleared, even if the opening wrote
// the field with capitals, as JSON allows.
func TestWellAgain(t *testing.T) {
	for _, field := range []string{"dead_switches", "Dead_Switches"} {
		x := newSite()
		x.ask(t, "POST "+ocsPath, `{"racks":4,"switches":3,"delta":0.01,"period":2,"`+field+`":[1]}`, 200, nil)
		for _, dead := range []int{1, 0} {
			var r PeriodReport
			x.ask(t, "POST "+ocsPath+"/1/periods", demands, 200, &r)
			if len(r.DeadSwitches) != dead {
				t.Errorf("%s: dead are %v, want %d", field, r.DeadSwitches, dead)
			}
			x.ask(t, "POST "+ocsPath+"/1/failures", `{}`, 200, nil)
		}
	}
}

// TestPeriodsAtOnce checks that only one period is planned at a time, because the next one
// starts from it. Other requests are refused, and no demand is lost or counted twice.
func TestPeriodsAtOnce(t *testing.T) {
	x := newSite()
	x.ask(t, "POST "+ocsPath, `{"racks":4,"switches":3,"delta":0.01,"period":0.0001}`, 200, nil)
	codes := make([]int, 4)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() {
			w := httptest.NewRecorder()
			x.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", ocsPath+"/1/periods", strings.NewReader(demands)))
			codes[i] = w.Code
		})
	}
	all.Wait()
	planned := 1.0
	for _, code := range codes {
		switch code {
		case 200:
			planned++
		case 409:
		default:
			t.Errorf("codes %v", codes)
		}
	}
	var r PeriodReport
	x.ask(t, "POST "+ocsPath+"/1/periods", demands, 200, &r)
	holds(t, &r, planned*0.999) // so short a period carries nothing
	if want := 4 * 1.01 * planned; r.Backlog < 0.99*want || r.Backlog > want {
		t.Errorf("after %v periods %v is left over, of %v", planned, r.Backlog, want)
	}
	x.switches.sessions[0].busy = true
	x.ask(t, "POST "+ocsPath+"/1/periods", demands, 409, nil)
}

// TestPeriodsAfterARestart checks that a server after a normal shutdown continues with its
// circuits and the remaining demand. After a crash, the next period assumes that no circuits
// are up.
func TestPeriodsAfterARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sessions.json")
	start := func() *site {
		x := newSite()
		if err := x.Keep(file); err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := start()
	x.ask(t, "POST "+ocsPath, opening, 200, nil)
	period := func(x *site) (r PeriodReport) {
		x.ask(t, "POST "+ocsPath+"/1/periods", demands, 200, &r)
		return r
	}
	period(x)
	if err := x.Save(); err != nil {
		t.Fatal(err)
	}
	want := period(x)
	x = start()
	if d := cmp.Diff(want, period(x)); d != "" || want.Fresh {
		t.Errorf("the period after a restart (−want +got):\n%s", d)
	}
	if r := period(start()); !r.Fresh || r.Kept != 0 { // without a Save before it
		t.Errorf("after a crash: fresh %v, %d kept", r.Fresh, r.Kept)
	}
}

func TestRefusesPeriods(t *testing.T) {
	x := newSite()
	x.ask(t, "POST "+ocsPath, opening, 200, nil)
	for _, c := range [][3]string{
		{"", `{"racks":4,"switches":0,"period":1}`, "0 switches"},
		{"", `{"racks":4,"switches":1}`, "a period of 0"},
		{"", `{"racks":513,"switches":1,"period":1}`, "with 512 racks at most"},
		{"", `{"racks":4,"switches":1,"period":1,"method":"eclipse"}`, "periods are scheduled by fast or best"},
		{"", `{"racks":4,"switches":1,"period":1,"demand":[[0]]}`, "demand comes with each period"},
		{"", `{"racks":4,"switches":1,"period":1,"from":{"racks":4}}`, "unknown field"},
		{"", `{"racks":4,"switches":1,"period":1,"State":""}`, "unknown field"},
		{"/1/failures", `{"dead_switches":[3]}`, "dead switch 3"},
		{"/1/failures", `{"dead_switches":[0,1,2]}`, "all switches are dead"},
		{"/1/failures", `{"dead_ports":[{"switch":0,"rack":4}]}`, "there are racks 0 to 3"},
		{"/1/failures", `{"switches":[1]}`, "unknown field"},
		{"/1/periods", `{"demand":[[0,-1],[1,0]]}`, "-1"},
		{"/1/periods", `{"delta":1}`, "does not come with a period"},
		{"/1/periods", `[`, ""},
		{"/2/periods", demands, "there is no session"},
	} {
		w := httptest.NewRecorder()
		x.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", ocsPath+c[0], strings.NewReader(c[1])))
		if w.Code < 400 || w.Code >= 500 || !strings.Contains(w.Body.String(), c[2]) {
			t.Errorf("%v: %d %s", c, w.Code, w.Body)
		}
	}
}
