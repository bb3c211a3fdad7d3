package daemon

import (
	"encoding/json"
	"testing"

	"github.com/forsd/forsd/internal/tiers"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestLiquidOnTheFabric schedules exchanges of the daemon's own fabric.
func TestLiquidOnTheFabric(t *testing.T) {
	d := readable(newDaemon(t))
	d.atRest(t, fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}))
	h := tiers.Handlers(d.workers.Others, d.backend.Routes)["POST /v1/liquid"]
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
