package daemon

import (
	"encoding/json"
	"fmt"
	"testing"

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
	h := tiers.Handlers(d.workers, d.backend.Routes)["POST /v1/gpu/schedule"]
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
