package tiers

import (
	"os"
	"strings"
	"testing"
)

// swissT1 is the network of the paper on liquid schedules.
func swissT1(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../liquid/testdata/swiss-t1.json")
	ok(t, err)
	return string(text)
}

func TestLiquidRequests(t *testing.T) {
	h := handler("POST /v1/liquid")
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
