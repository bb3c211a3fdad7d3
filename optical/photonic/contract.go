package photonic

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// circulantOffsets are the offsets of the paper's base circulant of degree k = 2,
// n−m and n−m−1 with m = ⌈(√(2n−1)−1)/2⌉ (section 4.2; Fig. 8 has n = 8). For
// higher degrees, which the paper leaves open, they continue: n−m−2, ….
func circulantOffsets(n, k int) []int {
	m := int(math.Ceil((math.Sqrt(float64(2*n-1)) - 1) / 2))
	offsets := make([]int, k)
	for j := range offsets {
		offsets[j] = ((n-m-j)%n + n) % n
		if offsets[j] == 0 {
			offsets[j] = 1
		}
	}
	return offsets
}

// served is a sequence of circulants, each of which serves some classes. A class is served
// by the circulant on which it takes the fewest hops.
type served struct {
	n, k    int
	offsets []int     // k of each topology
	hops    [][]int32 // [class][switch]
	by      []int     // [class] the topology
	least   []int     // [class] hops
}

func newServed(n, k int) served {
	v := served{n: n, k: k, hops: make([][]int32, n), by: make([]int, n), least: make([]int, n)}
	for x := range v.least {
		v.least[x] = far
	}
	return v
}

// add adds a topology; classes that it serves in fewer hops move to it.
func (v *served) add(offsets []int) {
	st := newStages(v.n, offsets)
	for x := 1; x < v.n; x++ {
		if h := int(st[v.k][x]); h < v.least[x] {
			v.hops[x] = make([]int32, v.k)
			st.split(offsets, x, v.hops[x])
			v.least[x], v.by[x] = h, len(v.offsets)/v.k
		}
	}
	v.offsets = append(v.offsets, offsets...)
}

// contraction is the paper's sequence of circulants (section 4.3): each further topology
// replaces the hops of a round with the most hops by direct links.
type contraction struct {
	served
	sums []int // the hop sums of the first 1, 2, … topologies
}

// packed is a round being filled.
type packed struct {
	topology, hops int
	classes        []int
	load           []int // [switch]
}

func newContraction(n, k int) *contraction {
	c := &contraction{served: newServed(n, k)}
	c.addTopology(circulantOffsets(n, k))
	return c
}

// addTopology adds a topology.
func (c *contraction) addTopology(offsets []int) {
	c.add(offsets)
	sum := 0
	for _, r := range c.rounds() {
		sum += r.hops
	}
	c.sums = append(c.sums, sum)
}

// rounds packs each class, the longest first, into the first round of its topology that
// has fewer than k classes and room. The order of hops on a circulant is free, so a round
// has room as long as no switch has more hops than the longest class.
func (c *contraction) rounds() []packed {
	order := make([]int, 0, c.n)
	for x := 1; x < c.n; x++ {
		order = append(order, x)
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(c.least[y], c.least[x]) })
	var rounds []packed
	open := 0 // the rounds before are full
	for _, x := range order {
		for open < len(rounds) && len(rounds[open].classes) == c.k {
			open++
		}
		fits := func(r packed) bool {
			if r.topology != c.by[x] || len(r.classes) == c.k {
				return false
			}
			for s, h := range c.hops[x] {
				if r.load[s]+int(h) > r.hops {
					return false
				}
			}
			return true
		}
		i := slices.IndexFunc(rounds[open:], fits) + open
		if i < open {
			i = len(rounds)
			rounds = append(rounds, packed{c.by[x], c.least[x], nil, make([]int, c.k)})
		}
		r := &rounds[i]
		r.classes = append(r.classes, x)
		for s, h := range c.hops[x] {
			r.load[s] += int(h)
		}
	}
	return rounds
}

// next contracts the first of the rounds with the most hops to a topology; it completes a
// round of fewer than k classes from the following ones. It reports false if every class
// has a direct link.
func (c *contraction) next() bool {
	rounds := c.rounds()
	slices.SortStableFunc(rounds, func(a, b packed) int { return cmp.Compare(b.hops, a.hops) })
	if rounds[0].hops == 1 {
		return false
	}
	var offsets []int
	for _, r := range rounds {
		offsets = append(offsets, r.classes...)
	}
	for len(offsets) < c.k {
		offsets = append(offsets, 1)
	}
	c.addTopology(offsets[:c.k:c.k])
	return true
}

// plan makes the plan of the topologies so far.
func (c *contraction) plan(ctx context.Context) (*Plan, error) {
	p := &Plan{GPUs: c.n, Degree: c.k, Method: Paper, Family: "circulant"}
	for i := 0; i < len(c.offsets); i += c.k {
		p.Topologies = append(p.Topologies, Topology{Offsets: c.offsets[i : i+c.k]})
	}
	rounds := c.rounds()
	slices.SortStableFunc(rounds, func(a, b packed) int {
		return cmp.Or(cmp.Compare(a.topology, b.topology), cmp.Compare(a.hops, b.hops))
	})
	for _, r := range rounds {
		var count []int32
		for _, x := range r.classes {
			count = append(count, c.hops[x]...)
		}
		length, switches, err := shop(ctx, c.k, count)
		if err != nil {
			return nil, err
		}
		round := Round{Topology: r.topology, Hops: length}
		for i, x := range r.classes {
			round.Paths = append(round.Paths, Path{x, switches[i]})
		}
		p.Rounds = append(p.Rounds, round)
	}
	return p, nil
}
