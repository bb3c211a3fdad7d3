package pods

import (
	"context"
	"slices"

	"github.com/forsd/forsd/fors"
)

// twoLevels returns the tree with planes for lanes: a lower bound as if tops were
// unlimited.
func (t *Tree) twoLevels() *fors.Tree {
	two := &fors.Tree{Lanes: t.Planes()}
	for i := range t.Leaves {
		two.Slots, two.Up = append(two.Slots, t.Leaves[i].Slots), append(two.Up, t.Leaves[i].Up)
	}
	return two
}

// ComputeBounds returns a lower bound on the phases of any plan on these lanes: by servers,
// each of which sends to all others; by leaf, its transfers over its living cables; by pod,
// its transfers over its cables to tops.
func ComputeBounds(t *Tree) Bounds {
	x := newInstance(t, 1, 1)
	b := Bounds{Certificate: fors.ByServers, LowerBound: x.mostPeers()}
	var c fors.LaneFlow
	for a := range t.Leaves {
		if n := x.leafCut(&c, a, b.LowerBound); n > b.LowerBound {
			b = Bounds{n, fors.ByLeaf}
		}
	}
	for p := range t.Pods {
		if n := x.podCut(&c, p, b.LowerBound); n > b.LowerBound {
			b = Bounds{n, ByPod}
		}
	}
	return b
}

// OneLID returns the bounds of plans that only use base LIDs, given those of any plan: a
// leaf sends to a server over one plane.
func OneLID(t *Tree, lanes Bounds) Bounds {
	if least, by, err := fors.LeastOneLID(t.twoLevels()); err == nil && least > lanes.LowerBound {
		return Bounds{least, by}
	}
	return lanes
}

// leafCut returns the least number of phases for the transfers from leaf a to other leaves
// by its planes.
func (r *reach) leafCut(c *fors.LaneFlow, a, phases int) int {
	c.Reset(r.Planes())
	var planes []bool
	for b := range r.Leaves {
		if a == b || !r.ok(a, b) {
			continue
		}
		planes = r.planes(a, b, planes)
		c.Add(func(j int) bool { return planes[j] }, len(r.Leaves[a].Slots)*len(r.Leaves[b].Slots))
	}
	return c.Least(phases)
}

// podCut returns the least number of phases for the transfers from pod p to other pods by
// its cables to tops. Leaves of a pod with the same planes count together.
func (x *instance) podCut(c *fors.LaneFlow, p, phases int) int {
	c.Reset(x.Lanes())
	x.blocks = 1 << 20
	if x.cells == nil {
		x.setCells()
	}
	for _, a := range x.ofPod[p] {
		for b := range x.cells {
			A, B := &x.cells[a], &x.cells[b]
			if A.pod == B.pod || !x.linked(a, int32(b)) {
				continue
			}
			c.Add(func(k int) bool {
				j := x.planeOf[k]
				return A.up[j] && B.up[j] && x.laneUp(int(A.pod), k) && x.laneUp(int(B.pod), k)
			}, int(A.size()*A.n*B.size()*B.n))
		}
	}
	return c.Least(phases)
}

// proofWork limits the search for prices, about 50 ms.
const proofWork = 1 << 23

// PriceBound returns a lower bound on the phases of any plan on these lanes that prices on
// directed cables prove, at least the bound given.
func PriceBound(ctx context.Context, t *Tree, bound int) int {
	x := newInstance(t, 1, 1)
	x.blocks = 1 << 20
	x.setCells()
	x.blocks = 1
	s, _ := network(x, true, func(c, d int32) int32 {
		units, leaves := x.units(c, d), x.cells[c].size()
		if c == d { // transfers within a leaf take no cable
			units -= units / leaves
		}
		return units
	})
	return s.Prove(ctx, bound, proofWork)
}

// reach records which leaves have a path to one another.
type reach struct {
	*Tree
	joined  []bool // of pods, see Tree.joins
	leaves  []bool // [A·leaves + B]
	partial bool   // some have none
	// byLeaves means that exactly the leaves with a common plane have a path.
	byLeaves bool
}

func newReach(t *Tree) *reach {
	r := &reach{Tree: t, byLeaves: true, joined: t.joins(), leaves: make([]bool, len(t.Leaves)*len(t.Leaves))}
	for a := range t.Leaves {
		for b := range t.Leaves {
			ok := a == b || slices.Contains(r.planes(a, b, nil), true)
			r.leaves[a*len(t.Leaves)+b] = ok
			r.partial = r.partial || !ok
			for j := 0; !ok && j < t.Planes(); j++ {
				r.byLeaves = r.byLeaves && !(t.Leaves[a].Up[j] && t.Leaves[b].Up[j])
			}
		}
	}
	return r
}

// planes sets on which planes two leaves have a path to each other.
func (r *reach) planes(a, b int, out []bool) []bool {
	out = out[:0]
	A, B := &r.Leaves[a], &r.Leaves[b]
	joined := r.joined[(A.Pod*r.Pods+B.Pod)*r.Planes():][:r.Planes()]
	for j := range joined {
		out = append(out, A.Up[j] && B.Up[j] && joined[j])
	}
	return out
}

// ok reports whether leaf a has a path to leaf b.
func (r *reach) ok(a, b int) bool { return r.leaves[a*len(r.Leaves)+b] }

// mostPeers returns the most servers that one sends to.
func (r *reach) mostPeers() int {
	most := 0
	for a := range r.Leaves {
		n := -1
		for b := range r.Leaves {
			if r.ok(a, b) {
				n += len(r.Leaves[b].Slots)
			}
		}
		most = max(most, n)
	}
	return most
}

// unreachable lists the pairs of servers without a way, in order.
func (r *reach) unreachable(base []int32) []fors.Pair {
	var pairs []fors.Pair
	if !r.partial {
		return nil
	}
	for a := range r.Leaves {
		for s := base[a]; s < base[a+1]; s++ {
			for b := range r.Leaves {
				if r.ok(a, b) {
					continue
				}
				for d := base[b]; d < base[b+1]; d++ {
					pairs = append(pairs, fors.Pair{Src: fors.Server(s), Dst: fors.Server(d)})
				}
			}
		}
	}
	return pairs
}

// Unreachable lists the ordered pairs of servers that have no way to each other, in order.
func Unreachable(t *Tree) []fors.Pair {
	x := newInstance(t, 1, 1)
	return x.unreachable(x.base)
}
