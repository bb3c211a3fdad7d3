package figures

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/lab/chart"
)

// TestPhotonicStillHolds plans the smaller exchanges of Figs. 13 and 14 again, or
// all: the numbers must be those of docs/figures.
func TestPhotonicStillHolds(t *testing.T) {
	rows := func(set string, of func(*chart.Row) bool) (list [][]string) {
		table, err := chart.ReadTable(filepath.Join(pictures, set+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range table.Len() {
			r := table.Row(i)
			if of(r) {
				list = append(list, table.Rows[i+1])
			}
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		return list
	}
	for _, n := range ratioGPUs {
		if n > 64 && !long() {
			continue
		}
		now := chart.NewTable()
		if err := addRatios(t.Context(), now, n); err != nil {
			t.Fatal(err)
		}
		kept := rows(photonicRatio.Name, func(r *chart.Row) bool { return r.Number("gpus") == float64(n) })
		if d := cmp.Diff(kept, now.Rows[1:]); d != "" {
			t.Errorf("%d GPUs (-docs/figures +planned now):\n%s", n, d)
		}
	}
	for _, p := range reconfigPanels {
		if p.gpus > 16 && !long() {
			continue
		}
		now := chart.NewTable()
		if err := addReconfig(t.Context(), now, p.gpus, p.degree, p.megabytes, func(string) {}); err != nil {
			t.Fatal(err)
		}
		kept := rows(photonicReconfig.Name, func(r *chart.Row) bool {
			return r.Number("gpus") == float64(p.gpus) && r.Number("degree") == float64(p.degree) && r.Number("message_mb") == float64(p.megabytes)
		})
		if d := cmp.Diff(kept, now.Rows[1:]); d != "" {
			t.Errorf("%v (-docs/figures +planned now):\n%s", p, d)
		}
	}
}

// TestFigure14 checks the paper's statements about its Fig. 14: the R from which one topology is
// best is smaller for two switches, smaller messages and fewer GPUs; direct links are cheaper
// than one topology where R is least, and dearer where it is largest.
func TestFigure14(t *testing.T) {
	table, err := chart.ReadTable(filepath.Join(pictures, photonicReconfig.Name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	static := map[[3]float64]float64{} // [GPUs, degree, MB] the least R with one topology
	cost := map[string][2]float64{}    // [panel and way] at the least and the largest R
	chosen := map[[3]float64]float64{}
	for i := range table.Len() {
		r := table.Row(i)
		panel := [3]float64{r.Number("gpus"), r.Number("degree"), r.Number("message_mb")}
		way, d := r.Text("way"), r.Number("reconfigurations")
		if way == "planned" {
			if before, ok := chosen[panel]; ok && d > before {
				t.Errorf("%v: %v topologies at R = %v µs, %v at less", panel, d, r.Number("reconfig_us"), before)
			}
			chosen[panel] = d
			if d == 1 && static[panel] == 0 {
				static[panel] = r.Number("reconfig_us")
			}
		}
		key := fmt.Sprint(panel, way)
		if c, ok := cost[key]; ok {
			cost[key] = [2]float64{c[0], r.Number("completion_us")}
		} else {
			cost[key] = [2]float64{r.Number("completion_us")}
		}
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	first := [3]float64{64, 1, 128}
	for panel := range chosen {
		one, links := cost[fmt.Sprint(panel, "static")], cost[fmt.Sprint(panel, "bvn")]
		if links[0] >= one[0] || links[1] <= one[1] {
			t.Errorf("%v: direct links cost %v at the least and the largest R, one topology %v", panel, links, one)
		}
		if panel != first && (static[panel] == 0 || static[first] > 0 && static[panel] >= static[first]) {
			t.Errorf("%v: one topology from %v µs on, %v with 64 GPUs, one switch and 128 MB", panel, static[panel], static[first])
		}
	}
}
