package figures

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/lab/chart"
)

// TestMakespansStillHold schedules a case of each workload again, or all: the
// numbers must be those of docs/figures.
func TestMakespansStillHold(t *testing.T) {
	for _, c := range []struct {
		workload string
		s        int
		δ        float64
	}{{"gpt", 2, .01}, {"moe", 4, .04}, {"benchmark", 4, .01}} {
		now := chart.NewTable()
		if err := addMakespans(t.Context(), now, []any{c.workload, c.s, c.δ, ocsMatrices}, c.workload, 0, c.s, c.δ); err != nil {
			t.Fatal(err)
		}
		was := kept(t, &ocsDelta, c.workload)
		if !slices.ContainsFunc(was, func(row []string) bool { return cmp.Equal(row, now.Rows[1]) }) {
			t.Errorf("docs/figures has no row %v: run make figures", now.Rows[1])
		}
	}
}

// TestOCSStatements checks the curves of docs/figures against docs/optical.md:
// best is never above Spectra, and no method is below the bound.
func TestOCSStatements(t *testing.T) {
	for _, set := range []*chart.Set{&ocsDelta, &ocsFlows} {
		all, err := chart.ReadTable(pictures + "/" + set.Name + ".csv")
		if err != nil {
			t.Fatal(err)
		}
		for i := range all.Len() {
			r := all.Row(i)
			best, fast, bound, paper := r.Number("best"), r.Number("fast"), r.Number("sharp_bound"), r.Number("paper_bound")
			if best > fast || best < bound || bound < paper || fast > r.Number("fast_not_equalized")*(1+1e-9) {
				t.Errorf("%s row %d: best %v, fast %v, bounds %v and %v", set.Name, i+1, best, fast, bound, paper)
			}
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

// TestGanttOfTheExample compares the figure's makespans with the paper's.
func TestGanttOfTheExample(t *testing.T) {
	for name, want := range map[string]float64{"(a) Schedule": .62, "(b) Equalize": .525} {
		for _, row := range kept(t, &ocsGantt, name) {
			if got, err := strconv.ParseFloat(row[6], 64); err != nil || math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: makespan %s, want %v", name, row[6], want)
			}
		}
	}
}
