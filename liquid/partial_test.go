package liquid

import (
	"math/rand/v2"
	"testing"
)

// TestPartialColouring completes colourings that have transfers left over: the schedule
// has all transfers, and the colouring itself continues unchanged.
func TestPartialColouring(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	for range 50 {
		links := 4 + rng.IntN(12)
		var paths [][]Link
		for range 20 + rng.IntN(100) {
			var path []Link
			for _, l := range rng.Perm(links)[:1+rng.IntN(3)] {
				path = append(path, Link(l))
			}
			paths = append(paths, path)
		}
		traffic := makeTraffic(t, links, paths)
		b := newBoard(traffic, traffic.Duration())
		for range traffic.Duration() {
			b.addStep(0)
		}
		c := newRepairer(b, 1)
		c.run(t.Context(), 5)
		left, steps := c.left, c.k
		if err := Verify(traffic, c.completed()); err != nil {
			t.Fatal(err)
		}
		if c.left != left || c.k != steps {
			t.Fatalf("the colouring had %d transfers left over in %d steps, and has %d in %d", left, steps, c.left, c.k)
		}
		c.run(t.Context(), 1000)
		if err := Verify(traffic, c.completed()); err != nil {
			t.Fatal(err)
		}
	}
}
