package bipartite

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
)

// TestStop ends both kinds of work at each time that they ask, and then lets them
// go on: the memory that was left is as good as fresh.
func TestStop(t *testing.T) {
	const n = 9
	rng := rand.New(rand.NewPCG(1, 0))
	x := make([]int64, n*n)
	for at := range x {
		x[at] = rng.Int64N(1000)
	}
	stages := func(d *Decomposer) ([]int32, error) {
		_, match, err := d.Decompose(n, x)
		return match, err
	}
	padded, degree := Pad(n, x)
	arcs := ArcsOf(n, padded, nil)
	colours := func(c *Colourer) ([]int32, error) {
		match := make([]int32, n*int(degree))
		return match, c.Arcs(n, int(degree), arcs, match)
	}
	var d Decomposer
	stopped(t, "Decompose", &d.Stop, func() ([]int32, error) { return stages(&d) })
	for _, workers := range []int{1, 3} {
		c := Colourer{Workers: workers}
		stopped(t, "Arcs", &c.Stop, func() ([]int32, error) { return colours(&c) })
	}
}

// stopped stops work at its 1st, 2nd, … asking.
func stopped(t *testing.T, name string, stop *func() error, work func() ([]int32, error)) {
	t.Helper()
	enough := errors.New("enough")
	fresh, err := work()
	if err != nil {
		t.Fatal(err)
	}
	fresh = slices.Clone(fresh)
	for most := int64(0); ; most++ {
		var asked atomic.Int64
		*stop = func() error {
			if asked.Add(1) > most {
				return enough
			}
			return nil
		}
		again, err := work()
		if err == nil {
			if asked.Load() > most || most < 5 || !slices.Equal(again, fresh) {
				t.Errorf("%s asks %d times, and was stopped at %d; its result is the same: %v", name, asked.Load(), most, slices.Equal(again, fresh))
			}
			return
		}
		if !errors.Is(err, enough) || asked.Load() <= most {
			t.Fatalf("%s, stopped after %d: %v", name, most, err)
		}
	}
}
