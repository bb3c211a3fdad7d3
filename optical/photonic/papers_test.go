package photonic

import (
	"math/bits"
	"strings"
	"testing"
)

// figure8 is the schedule of Fig. 8c: eight GPUs, offsets 6 and 5, and rounds of the
// classes 6 and 5, 4 and 2, 3, and 1 and 7, on the paths printed: 1→7→5→2 is
// 6+6+5, 1→6→3→8 is 5+5+5.
func figure8() *Plan {
	return &Plan{GPUs: 8, Degree: 2, Topologies: []Topology{{Offsets: []int{6, 5}}}, Rounds: []Round{
		{0, 1, []Path{{6, []int8{0}}, {5, []int8{1}}}},
		{0, 2, []Path{{4, []int8{0, 0}}, {2, []int8{1, 1}}}},
		{0, 2, []Path{{3, []int8{0, 1}}}},
		{0, 3, []Path{{1, []int8{0, 0, 1}}, {7, []int8{1, 1, 1}}}},
	}}
}

// TestFigure8 replays Fig. 8c, a hop sum of 1+2+2+3 = 8. In round 4 two messages
// meet on 3→8 at hop 3: 7→5→3→8 and 1→6→3→8. Apart they take 1+2+2+3+3 = 11.
func TestFigure8(t *testing.T) {
	in := one(8, 2, 0)
	p := figure8().finish(in)
	_, err := Replay(bg, in, p)
	if p.HopSum != 8 || err == nil || !strings.Contains(err.Error(), "round 3: hop 2: class 7 and another take switch 1 at the same time") {
		t.Errorf("hop sum %v, and the replay says %v", p.HopSum, err)
	}
	last := p.Rounds[3]
	p.Rounds = append(p.Rounds[:3], Round{0, 3, last.Paths[:1]}, Round{0, 3, last.Paths[1:]})
	if _, err := Replay(bg, in, p.finish(in)); err != nil || p.HopSum != 11 {
		t.Errorf("with round 4 in two: hop sum %v, %v", p.HopSum, err)
	}
}

// leastRounds is the least hop sum of rounds of one or two classes on a circulant
// of two offsets, over all ways to pair the classes, all multisets of hops that
// reach each, and all orders of hops: a round then takes the longest of its
// classes and switches.
func leastRounds(n int, offsets [2]int) int {
	ways := make([][][2]int, n) // [class] hops over each offset
	for i := range n {
		for j := range n {
			if x := (i*offsets[0] + j*offsets[1]) % n; x != 0 && i+j <= n/2 {
				ways[x] = append(ways[x], [2]int{i, j})
			}
		}
	}
	alone := func(x int) int {
		least := far
		for _, w := range ways[x] {
			least = min(least, w[0]+w[1])
		}
		return least
	}
	pair := func(x, y int) int {
		least := far
		for _, v := range ways[x] {
			for _, w := range ways[y] {
				least = min(least, max(v[0]+v[1], w[0]+w[1], v[0]+w[0], v[1]+w[1]))
			}
		}
		return least
	}
	best := make([]int, 1<<n) // [classes done]
	for done := range best {
		best[done] = far
	}
	best[1] = 0
	for done := 1; done < len(best); done += 2 {
		x := bits.TrailingZeros(^uint(done))
		if x >= n || best[done] == far {
			continue
		}
		with := done | 1<<x
		best[with] = min(best[with], best[done]+alone(x))
		for y := x + 1; y < n; y++ {
			if done>>y&1 == 0 {
				best[with|1<<y] = min(best[with|1<<y], best[done]+pair(x, y))
			}
		}
	}
	return best[len(best)-1]
}

// TestFigure8Optimum: in rounds of two classes the least is 9 for the offsets of Fig. 8,
// and 8, over all offsets, for 1 and 3. Without rounds, with classes that may wait for their
// turn, it is 8 and 7, the load of the busiest switch.
func TestFigure8Optimum(t *testing.T) {
	least := far
	for a := 1; a < 8; a++ {
		for b := a + 1; b < 8; b++ {
			if gcd(gcd(a, b), 8) == 1 {
				least = min(least, leastRounds(8, [2]int{a, b}))
			}
		}
	}
	for _, c := range []struct {
		offsets         []int
		rounds, without int
	}{{[]int{6, 5}, 9, 8}, {[]int{1, 3}, 8, 7}} {
		if got := leastRounds(8, [2]int(c.offsets)); got != c.rounds {
			t.Errorf("offsets %v: rounds take %d, want %d", c.offsets, got, c.rounds)
		}
		r := carryRouting(8, 2, c.offsets)
		if got := r.sum(); got != c.without {
			t.Errorf("offsets %v: without rounds %d, want %d", c.offsets, got, c.without)
		}
	}
	if least != 8 {
		t.Errorf("the best offsets take %d in rounds, want 8", least)
	}
}
