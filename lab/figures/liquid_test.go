package figures

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/lab/chart"
	"github.com/forsd/forsd/lab/papers"
	"github.com/forsd/forsd/liquid"
)

// TestLiquidStillHolds checks docs/figures/liquid.csv: its classes are those of the test bed, all
// schedules have Λ steps (Fig. 9), and round-robin, some of which is scheduled again, takes
// twice as many steps or more on 166 of 362 (Fig. 6).
func TestLiquidStillHolds(t *testing.T) {
	table, err := chart.ReadTable(pictures + "/liquid.csv")
	if err != nil {
		t.Fatal(err)
	}
	network, err := liquid.SwissT1()
	if err != nil {
		t.Fatal(err)
	}
	classes, err := papers.Classes(network)
	if err != nil {
		t.Fatal(err)
	}
	twice := 0
	for i, c := range classes[1:] { // the first is empty
		r := table.Row(i)
		got := []float64{r.Number("nodes"), r.Number("transfers"), r.Number("duration"), r.Number("steps")}
		if d := cmp.Diff([]float64{float64(c.Nodes), float64(c.Nodes * c.Nodes), float64(c.Duration), float64(c.Duration)}, got); d != "" {
			t.Errorf("row %d (-want +got):\n%s", i+1, d)
		}
		if r.Number("round_robin") >= 2*r.Number("duration") {
			twice++
		}
		if i%20 == 0 {
			traffic, err := network.AllocatedAllToAll(c.Allocation)
			if err != nil {
				t.Fatal(err)
			}
			if steps := len(liquid.RoundRobin(t.Context(), traffic)); strconv.Itoa(steps) != r.Text("round_robin") {
				t.Errorf("row %d: round-robin takes %d steps, want %s", i+1, steps, r.Text("round_robin"))
			}
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if table.Len() != 362 || twice != 166 {
		t.Errorf("%d sub-topologies, on %d round-robin takes twice Λ; want 362, 166", table.Len(), twice)
	}
}
