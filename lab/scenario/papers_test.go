package scenario

import (
	"math"
	"testing"
)

// TestTableOfPapers checks the table of measurements in docs/papers.md: the model's
// values, and that the paper's measurements are within 3 % of them.
func TestTableOfPapers(t *testing.T) {
	for _, c := range []struct {
		name             string
		phases, duration int
		model, measured  float64 // Gb/s
	}{
		{"no failure", 359, 359, 141.0, 141},
		{"one link, min-hop", 359, 698, 84.7, 87},
		{"one link, FORS", 361, 361, 140.3, 137},
		{"two spines, FORS", 378, 378, 134.0, 132},
	} {
		got := Gbps(360, c.phases, c.duration)
		if math.Abs(got-c.model) > 0.05 || math.Abs(got/c.measured-1) > 0.03 {
			t.Errorf("%s: %.2f Gb/s by the model, want %.1f, within 3 %% of %g", c.name, got, c.model, c.measured)
		}
	}
}
