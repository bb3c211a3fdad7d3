package papers

import (
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/optical/photonic"
)

// TestOverlap compares with results computed by hand, and with no overlap at all.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		volumes  []float64
		switches int
		r, want  float64
	}{
		{[]float64{6}, 1, 1, 7},
		{[]float64{6}, 2, 1, 4},
		{[]float64{6, 6}, 1, 1, 14},
		{[]float64{4, 4}, 2, 0, 4},
		{[]float64{4, 4}, 2, 100, 108}, // each has a switch of its own
		{[]float64{6, 6}, 2, 1, 8},     // both for both
	} {
		steps := Overlap(c.volumes, c.switches, c.r)
		got, err := CheckOverlap(steps, c.volumes, c.switches, c.r)
		if err != nil || got > c.want+1e-9 || got < c.want-1e-9 {
			t.Errorf("%+v: %v, %v: %+v", c, got, err, steps)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		volumes, k, r := make([]float64, 1+rng.IntN(7)), 1+rng.IntN(4), 10*rng.Float64()
		together, work := 0.0, 0.0
		for i := range volumes {
			volumes[i] = 20 * rng.Float64()
			together += r + volumes[i]/float64(k)
			work += volumes[i]
		}
		got, err := CheckOverlap(Overlap(volumes, k, r), volumes, k, r)
		if err != nil || got > together+1e-6 || got < r+work/float64(k)-1e-6 {
			t.Errorf("%v on %d switches, %v: %v, %v; all together %v", volumes, k, r, got, err, together)
		}
	}
}

// TestCheckOverlap spoils the steps of switches.
func TestCheckOverlap(t *testing.T) {
	volumes := []float64{5, 7, 3}
	for i := range 5 {
		steps := Overlap(volumes, 2, 1)
		switch i {
		case 0:
			steps = steps[1:]
		case 1:
			steps[1].From -= 0.5
		case 2:
			steps[len(steps)-1].Switch = 2
		case 3:
			steps[0].To -= 0.1
		case 4:
			steps[0].To, steps[0].From = steps[0].To+1, steps[0].From+1
		}
		if _, err := CheckOverlap(steps, volumes, 2, 1); err == nil {
			t.Errorf("spoiled in way %d: no error", i)
		}
	}
}

// TestSequences checks that auto takes no longer than any published sequence.
func TestSequences(t *testing.T) {
	for _, n := range []int{9, 16, 27} {
		for _, k := range []int{1, 2, 4} {
			for _, r := range []float64{1, 300, 3000, 1e6} {
				in := &photonic.Instance{GPUs: n, Degree: k, Reconfig: photonic.Micros(r), Link: photonic.DefaultLink, Message: photonic.DefaultMessage}
				row, err := Sequences(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				if name, us := row.Least(); row.Planned > us*(1+1e-9) {
					t.Errorf("%d GPUs, %d switches, R = %v µs: %v planned, %v by %s", n, k, r, row.Planned, us, name)
				}
			}
		}
	}
}
