package figures

import (
	"fmt"
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

// meanRatio is the mean of one column over another, in the rows of docs/figures of a workload
// and a number of switches, 0 for all; and the least and the largest ratio.
func meanRatio(t *testing.T, set, workload string, switches float64, column, to string) (mean, least, most float64) {
	t.Helper()
	all, err := chart.ReadTable(pictures + "/" + set + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	n := 0.0
	least = math.Inf(1)
	for i := range all.Len() {
		r := all.Row(i)
		if r.Text("workload") != workload || switches > 0 && r.Number("switches") != switches {
			continue
		}
		x := r.Number(column) / r.Number(to)
		mean, n, least, most = mean+x, n+1, min(least, x), max(most, x)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return mean / n, least, most
}

// TestSpectraFigures holds docs/papers.md to the numbers of Figs. 6 to 10: means, and the least
// and the largest ratio.
func TestSpectraFigures(t *testing.T) {
	for _, c := range []struct {
		set, workload string
		switches      float64
		column, to    string
		want          string
	}{
		{"ocs-delta", "gpt", 0, "less", "fast", "1.05 1.00 1.17"},
		{"ocs-delta", "moe", 0, "less", "fast", "1.20 1.09 1.37"},
		{"ocs-delta", "benchmark", 0, "less", "fast", "2.49 1.96 2.99"},
		{"ocs-delta", "gpt", 0, "eclipse", "fast", "1.14 1.00 1.37"},
		{"ocs-delta", "moe", 0, "eclipse", "fast", "1.56 1.24 1.73"},
		{"ocs-delta", "benchmark", 0, "eclipse", "fast", "1.21 0.99 1.46"},
		{"ocs-delta", "moe", 0, "fast", "paper_bound", "1.01 1.00 1.02"},
		{"ocs-delta", "benchmark", 0, "best", "paper_bound", "1.02 1.01 1.03"},
		{"ocs-delta", "gpt", 0, "best", "paper_bound", "1.03 1.01 1.11"},
		{"ocs-delta", "moe", 0, "best", "paper_bound", "1.00 1.00 1.01"},
		{"ocs-delta", "gpt", 2, "fast_not_equalized", "fast", "1.00 1.00 1.00"},
		{"ocs-delta", "gpt", 4, "fast_not_equalized", "fast", "1.09 1.00 1.17"},
		{"ocs-delta", "moe", 0, "fast_not_equalized", "fast", "1.00 1.00 1.01"},
		{"ocs-noise", "gpt", 2, "fast_0.01", "fast_0.003", "1.07 1.06 1.08"},
		{"ocs-noise", "gpt", 4, "fast_0.01", "fast_0.003", "1.08 1.06 1.10"},
		{"ocs-noise", "moe", 0, "fast_0.01", "fast_0.003", "1.04 0.97 1.10"},
		{"ocs-noise", "moe", 0, "eclipse_0.01", "eclipse_0.003", "0.92 0.84 0.99"},
		{"ocs-flows", "benchmark", 0, "eclipse", "fast", "1.28 1.13 1.40"},
	} {
		mean, least, most := meanRatio(t, c.set, c.workload, c.switches, c.column, c.to)
		if got := fmt.Sprintf("%.2f %.2f %.2f", mean, least, most); got != c.want {
			t.Errorf("%s %s, %g switches: %s is %s times %s, want %s", c.set, c.workload, c.switches, c.column, got, c.to, c.want)
		}
	}
}

// TestNoiseStillHolds schedules a case of Fig. 8 again.
func TestNoiseStillHolds(t *testing.T) {
	now := chart.NewTable()
	if err := addNoise(t.Context(), now, "gpt", 4, .01); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(kept(t, &ocsNoise, "gpt"), func(row []string) bool { return cmp.Equal(row, now.Rows[1]) }) {
		t.Errorf("docs/figures has no row %v: run make figures", now.Rows[1])
	}
}

// TestDegrees draws Fig. 11 again: Eq. 10 is within .04, and from 50 racks on a sum of 16
// permutations nearly always has degree 16.
func TestDegrees(t *testing.T) {
	now, err := measureDegrees(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	was, err := chart.ReadTable(pictures + "/" + ocsDegree.Name + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(was.Rows, now.Rows); d != "" {
		t.Errorf("-docs/figures +drawn now:\n%s", d)
	}
	for i := range was.Len() {
		r := was.Row(i)
		drawn, eq10 := r.Number("drawn"), r.Number("eq10")
		if math.Abs(drawn-eq10) > .04 || r.Text("over") == "n" && r.Number("n") >= 50 && drawn < .99 {
			t.Errorf("row %d: %v drawn, %v by Eq. 10", i+1, drawn, eq10)
		}
		if r.Err != nil {
			t.Fatal(r.Err)
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
