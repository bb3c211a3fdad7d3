package ocs

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestColour covers demands by permutations of arbitrary weights.
func TestColour(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDemand(t)
		if len(d.to) == 0 {
			return
		}
		k := newColourer(d)
		weights := make([]float64, d.Degree()+rapid.IntRange(0, 3).Draw(t, "more"))
		for i := range weights {
			weights[i] = slices.Max(d.amount) * rapid.SampledFrom([]float64{0, 0.01, 0.3, 0.5, 1, 2}).Draw(t, "weight")
		}
		c := k.colour(t.Context(), weights)
		if len(c.weight) != len(weights) || !c.covers() {
			t.Fatalf("weights %v: %d permutations with weights %v, which cover: %v", weights, len(c.weight), c.weight, c.covers())
		}
	})
}

// TestLighten compares covers of the fewest permutations with the least weight possible, and
// with the weight of a decomposition by matchings of maximum demand.
func TestLighten(t *testing.T) {
	for _, of := range [][2]int{{60, 12}, {100, 16}, {150, 17}, {512, 16}} {
		for _, how := range []string{"none", "idle receiver"} {
			full, err := Workload("benchmark", of[0], of[1], 4)
			if err != nil {
				t.Fatal(err)
			}
			d := thinned(t, full, how, rand.New(rand.NewPCG(1, 5)))
			before, err := decompose(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			k := newColourer(d)
			after := k.lighten(t.Context(), before)
			least := newCounter(k.sorted, 4, 0.01).weights(d.Degree())
			t.Logf("%d racks of %d flows, missing %s: %.4f times the least before, %.4f after", of[0], of[1], how, sum(before.weight)/least, sum(after.weight)/least)
			if len(after.weight) != d.Degree() || !after.covers() {
				t.Errorf("%d permutations, want %d, which cover: %v", len(after.weight), d.Degree(), after.covers())
			}
			if sum(after.weight) > 1.02*least {
				t.Errorf("%d racks of %d flows, missing %s: weights sum to %.4f times the least, want at most 1.02", of[0], of[1], how, sum(after.weight)/least)
			}
		}
	}
}

// TestTinyEntries checks that Best carries entries that are tiny compared with others.
func TestTinyEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 0))
	for run := range 20 {
		n := 6 + rng.IntN(10)
		entries := make([]float64, n*n)
		for i := range entries {
			if i/n != i%n && rng.IntN(2) == 0 {
				entries[i] = math.Pow(10, -16*rng.Float64())
			}
		}
		d, err := NewDemand(n, entries)
		if err != nil {
			t.Fatal(err)
		}
		carried := make([]float64, n*n)
		for _, sw := range mustMake(t, d, Options{Switches: 2, Delta: 0.01, Method: Best, Steps: 2000}).Switches {
			for _, c := range sw.Configs {
				for i, j := range c.Permutation {
					carried[i*n+int(j)] += c.Weight
				}
			}
		}
		for i, x := range entries {
			if carried[i] < x*(1-1e-9) {
				t.Errorf("run %d: %g of %d to %d, of which %g is carried", run, x, i/n, i%n, carried[i])
			}
		}
	}
}
