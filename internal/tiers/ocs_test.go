package tiers

import (
	"strings"
	"testing"
)

func TestOCSRequests(t *testing.T) {
	h := handler("POST /v1/optical/ocs")
	const fig3 = `"demand":[[0,0.61,0.3,0.1],[0.1,0,0.61,0.3],[0.3,0.1,0,0.61],[0.61,0.3,0.1,0]]`
	for _, c := range []struct {
		body   string
		status int
		want   string // in the answer
	}{
		{`{` + fig3 + `,"switches":2,"delta":0.01,"method":"fast"}`, 200, `"makespan":0.525,`},
		{`{` + fig3 + `,"switches":2,"delta":0.01,"method":"fast","no_equalize":true,"refine":"lp"}`, 200, `"makespan":0.62,`},
		{`{` + fig3 + `,"switches":2,"delta":0.01,"steps":100}`, 200, `"method":"best",`},
		{`{` + fig3 + `,"switches":2,"delta":0.01,"budget":"1ms"}`, 200, `"makespan":0.525,`},
		{`{` + fig3 + `,"switches":2,"delta":0.01,"from":{"version":1,"racks":4,"delta":0.01,"switches":[{"load":0.525,"configs":[]}]}}`, 200, `"makespan":0.525,`},
		{`{` + fig3 + `,"switches":2,"delta":0.01,"from":{"racks":5}}`, 400, "for 5 racks"},
		{`{"demand":[[7,0],[0,7]],"switches":2,"delta":1}`, 200, `"makespan":0,`},
		{`{"switches":2}`, 400, "demand is missing"},
		{`{` + fig3 + `}`, 400, "0 switches"},
		{`{` + fig3 + `,"switches":2,"delta":-1}`, 400, "delay of -1"},
		{`{` + fig3 + `,"switches":2,"method":"slow"}`, 400, `method \"slow\"`},
		{`{` + fig3 + `,"switches":2,"steps":100000000}`, 400, "10000000 at most"},
		{`{` + fig3 + `,"switches":2,"budget":"1h"}`, 400, "at most 10s"},
		{`{` + fig3 + `,"switches":2,"refine":"none"}`, 400, "greedy or lp"},
		{`{` + fig3 + `,"switches":2,"method":"less","budget":"1s"}`, 400, "method less has none"},
		{`{` + fig3 + `,"switches":2,"speed":1}`, 400, "unknown field"},
		{`{"demand":[[0,1],[1]],"switches":1}`, 400, "row 2 has 1 column"},
		{`{"demand":[[0,1]],"switches":1}`, 400, "as many rows as columns"},
		{`{"demand":[[0,-1],[1,0]],"switches":1}`, 400, "-1"},
		{`{"demand":[],"switches":1}`, 400, "empty"},
		{`{"demand":[` + strings.Repeat(" ", ocsBody) + `]}`, 413, "longer than"},
	} {
		status, answer := ask(t.Context(), h, c.body)
		if status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%.80s: %d %.200s, want %d with %s", c.body, status, answer, c.status, c.want)
		}
	}
}
