package ocs

import (
	"fmt"
	"math"
	"testing"
)

// TestWorkloads compares the generators with section V's description of its matrices.
func TestWorkloads(t *testing.T) {
	for _, c := range []struct {
		name          string
		racks, degree int
		entries       [2]int // a row or column has so many on average
		width         [2]float64
	}{
		{"benchmark", 100, 16, [2]int{14, 16}, [2]float64{1, 1.06}},
		{"gpt", 32, 6, [2]int{5, 6}, [2]float64{1, 1.04}},
		{"moe", 64, 63, [2]int{63, 63}, [2]float64{1 - 1e-9, 1 + 1e-9}},
	} {
		d, err := Workload(c.name, 0, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d.Racks() != c.racks || d.Degree() != c.degree {
			t.Errorf("%s: %d racks of degree %d, want %d of %d", c.name, d.Racks(), d.Degree(), c.racks, c.degree)
		}
		if n := d.Nonzeros(); n < c.racks*c.entries[0] || n > c.racks*c.entries[1] {
			t.Errorf("%s: %d entries, want %v a row", c.name, n, c.entries)
		}
		if w := d.Width(); w < c.width[0] || w > c.width[1] {
			t.Errorf("%s: width %v, want %v", c.name, w, c.width)
		}
	}
}

// TestDegreeOfTheBenchmark holds Eq. 10 of the appendix: the probability that the
// sum of k random permutations has a row or column of k entries.
func TestDegreeOfTheBenchmark(t *testing.T) {
	const n, k, matrices = 24, 8, 300
	p := 1.0
	for i := range k {
		p *= float64(n-i) / n
	}
	want := 1 - math.Pow(1-p, 2*n)
	full := 0
	for seed := range uint64(matrices) {
		d, err := Workload("benchmark", n, k, seed+1)
		if err != nil {
			t.Fatal(err)
		}
		if d.Degree() == k {
			full++
		}
	}
	if got := float64(full) / matrices; math.Abs(got-want) > 0.05 {
		t.Errorf("%.3f of the matrices have degree %d, want %.3f", got, k, want)
	}
}

func TestUnusableWorkloads(t *testing.T) {
	for _, c := range []struct {
		name         string
		racks, flows int
	}{{"none", 0, 0}, {"gpt", 1, 1}, {"moe", 8, 8}, {"benchmark", MaxRacks + 1, 1}, {"benchmark", 10, -1}} {
		if _, err := Workload(c.name, c.racks, c.flows, 1); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
}

// BenchmarkMake times the whole pipeline on the benchmark workload.
func BenchmarkMake(b *testing.B) {
	for _, n := range []int{100, 512} {
		d, err := Workload("benchmark", n, 16, 1)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("fast/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Make(bg, d, Options{Switches: 4, Delta: 0.01}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBest times ten thousand steps of the search.
func BenchmarkBest(b *testing.B) {
	d, err := Workload("benchmark", 100, 16, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Make(bg, d, Options{Switches: 4, Delta: 0.01, Method: Best, Steps: 10_000}); err != nil {
			b.Fatal(err)
		}
	}
}
