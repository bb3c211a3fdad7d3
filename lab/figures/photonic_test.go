package figures

import (
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
