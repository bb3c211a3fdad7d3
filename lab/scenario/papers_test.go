package scenario

import (
	"math"
	"testing"
)

// TestTableOfPapers holds the table of measurements in docs/papers.md: what the
// model gives, and that the paper's measurement is within 3 %.
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
