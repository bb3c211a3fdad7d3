package daemon

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"forsd/internal/fabgen"
	"forsd/liquid"
)

// swissT1 is the network of the paper on liquid schedules.
func swissT1(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../liquid/testdata/swiss-t1.json")
	ok(t, err)
	return string(text)
}

func TestLiquidRequests(t *testing.T) {
	d := newDaemon(t)
	h := tierPlan(liquidBody, d.planLiquid)
	network := `"network":` + swissT1(t)
	for _, c := range []struct {
		body   string
		status int
		want   string // in the answer
	}{
		{`{` + network + `}`, 200, `"transfers":1024,"conflict_edges":48704,"bottlenecks":16,"duration":48,`},
		{`{` + network + `,"allocation":[4,4,0,3,1,4,2,4],"compare":true}`, 200, `"steps":36,"gap":0,"liquid":true,"no_liquid_schedule":false,"optimal":true,"method":"search"`},
		{`{` + network + `,"pairs":[[0,31],["31",0]],"method":"dsatur"}`, 200, `"schedule":[[[0,31],[31,0]]]`},
		{``, 400, "no body"},
		{`{"net":1}`, 400, "unknown field"},
		{`{}`, 404, "no tables have been read back yet"},
		{`{"network":{}}`, 400, "node_switch is missing"},
		{`{"network":[]}`, 400, "read network of the request"},
		{`{` + network + `,"allocation":[1]}`, 400, "8 switches"},
		{`{` + network + `,"allocation":[1,1,1,1,1,1,1,1],"pairs":[[0,1]]}`, 400, "both given"},
		{`{` + network + `,"pairs":[[0,99]]}`, 400, "is no node"},
		{`{` + network + `,"pairs":[[0,[]]]}`, 400, "want a number, a name or a GUID"},
		{`{` + network + `,"hosts":["a"]}`, 400, "goes without network"},
		{`{` + network + `,"method":"magic"}`, 400, "there is no method"},
		{`{` + network + `,"time":"2h"}`, 400, "at most 54s"},
		{`{` + network + `,"moves":-1}`, 400, "search_nodes and moves"},
		{`{"allocation":[1]}`, 400, "goes with network"},
	} {
		status, answer := ask(t.Context(), h, c.body)
		if status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%.40s … %.60s: %d %.300s, want %d with %s", c.body, c.body[max(0, len(c.body)-60):], status, answer, c.status, c.want)
		}
	}
}

// TestLiquidOnTheFabric schedules exchanges of the daemon's own fabric.
func TestLiquidOnTheFabric(t *testing.T) {
	d := readable(newDaemon(t))
	d.atRest(t, fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}))
	h := tierPlan(liquidBody, d.planLiquid)
	for _, c := range []struct {
		body                    string
		status, transfers, most int
	}{
		{`{}`, 200, 240, 15},
		{`{"hosts":["Hca0000","Hca0005","Hca0010"]}`, 200, 6, 2},
		{`{"pairs":[["Hca0000","Hca0015"],["Hca0001","Hca0014"]]}`, 200, 2, 2},
		{`{"pairs":[["Hca0000","0x000000000010001f"]]}`, 200, 1, 1},
		{`{"hosts":["Hca9999"]}`, 400, 0, 0},
		{`{"pairs":[["Hca0000","Hca0000"]]}`, 400, 0, 0},
		{`{"pairs":[["Hca0000","nobody"]]}`, 400, 0, 0},
	} {
		status, answer := ask(t.Context(), h, c.body)
		if status != c.status {
			t.Errorf("%s: %d %.300s, want %d", c.body, status, answer, c.status)
		}
		if status != 200 {
			continue
		}
		var r liquid.Report
		ok(t, json.Unmarshal([]byte(answer), &r))
		if r.Transfers != c.transfers || r.Steps > c.most || r.UnreachablePairs != 0 || len(r.Schedule) != r.Steps {
			t.Errorf("%s: %d transfers in %d steps, want %d in at most %d", c.body, r.Transfers, r.Steps, c.transfers, c.most)
		}
	}
}
