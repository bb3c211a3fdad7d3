package main

import (
	"math"
	"testing"
)

// TestHodgesLehmann compares with the results of R's wilcox.test for the differences that
// Hollander and Wolfe use as their example of the signed-rank test.
func TestHodgesLehmann(t *testing.T) {
	before := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	var differences []float64
	for i, after := range []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29} {
		differences = append(differences, after-before[i])
	}
	estimate, from, to := hodgesLehmann(differences)
	for i, got := range []float64{estimate, from, to} {
		if want := []float64{-0.46, -0.786, -0.010}[i]; math.Abs(got-want) > 0.0006 {
			t.Errorf("figure %d is %v, and %v is expected", i, got, want)
		}
	}
}
