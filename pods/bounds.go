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
		two.Exchange = append(two.Exchange, t.Leaves[i].Exchange...)
	}
	return two
}

// ComputeBounds returns a lower bound on the phases of any plan on these lanes: by servers,
// each of which sends to all others of its exchange; by leaf, its transfers over its living
// cables; by pod, its transfers over its cables to tops.
func ComputeBounds(t *Tree) Bounds {
	x := newInstance(t, 1, 1)
	return x.bounds(x.demand(each))
}

// BoundsOf does so for some pairs, each of which has a way.
func BoundsOf(t *Tree, pairs *fors.PairSet) Bounds {
	x := newInstance(t, 1, 1)
	d, n := demand{between: make([]int32, len(t.Leaves)*len(t.Leaves))}, int(x.base[len(t.Leaves)])
	sent, heard := make([]int, n), make([]int, n)
	for _, u := range pairs.List() {
		sent[u.Src]++
		heard[u.Dst]++
		d.most = max(d.most, sent[u.Src], heard[u.Dst])
		d.between[int(x.homeOf[u.Src])*len(t.Leaves)+int(x.homeOf[u.Dst])]++
	}
	return x.bounds(&d)
}

// demand counts the transfers that bounds are for.
type demand struct {
	between []int32 // [A·leaves + B]; those within leaves take no cable
	most    int     // of one server, out or in
}

// each is how many transfers senders of a leaf make to a server.
func each(senders int) int { return senders }

// demand returns that of the complete exchanges, as far as there are ways, where so many senders of a
// leaf count as much to each server.
func (r *reach) demand(of func(senders int) int) *demand {
	leaves := len(r.Leaves)
	d, crowds := &demand{between: make([]int32, leaves*leaves)}, r.crowds()
	for a := range r.Leaves {
		for _, on := range crowds {
			if on[a] == 0 {
				continue
			}
			peers := -1
			for b, n := range on {
				if r.ok(a, b) {
					d.between[a*leaves+b] += int32(of(on[a]) * n)
					peers += n
				}
			}
			d.most = max(d.most, peers)
		}
	}
	return d
}

// crowds counts the servers of each exchange on each leaf, [exchange][leaf].
func (t *Tree) crowds() (crowds [][]int) {
	for a := range t.Leaves {
		for i := range t.Leaves[a].Slots {
			x := t.exchangeOf(a, i)
			for len(crowds) <= x {
				crowds = append(crowds, make([]int, len(t.Leaves)))
			}
			crowds[x][a]++
		}
	}
	return crowds
}

// exchangeOf returns the exchange of server i of a leaf.
func (t *Tree) exchangeOf(a, i int) int {
	if x := t.Leaves[a].Exchange; x != nil {
		return x[i]
	}
	return 0
}

// Senders returns how many servers of a leaf send to server i of another one.
func (t *Tree) Senders() func(a, b, i int) int {
	crowds := t.crowds()
	return func(a, b, i int) int { return crowds[t.exchangeOf(b, i)][a] }
}

// bounds returns the bounds of a demand.
func (x *instance) bounds(d *demand) Bounds {
	b := Bounds{Certificate: fors.ByServers, LowerBound: d.most}
	var c fors.LaneFlow
	for a := range x.Leaves {
		for _, in := range []bool{outward, inward} {
			if n := x.leafCut(&c, d, a, in, b.LowerBound); n > b.LowerBound {
				b = Bounds{n, fors.ByLeaf}
			}
		}
	}
	x.blocks = 1 << 20
	x.setCells()
	if n := x.podCut(x.betweenCells(d), b.LowerBound); n > b.LowerBound {
		b = Bounds{n, ByPod}
	}
	return b
}

// betweenCells sums a demand up for cells, [C·cells + D], without transfers within leaves.
func (x *instance) betweenCells(d *demand) []int32 {
	leaves, cells := len(x.Leaves), len(x.cells)
	sums := make([]int32, cells*cells)
	for a := range leaves {
		for b, n := range d.between[a*leaves:][:leaves] {
			if a != b {
				sums[int(x.cellOf[a])*cells+int(x.cellOf[b])] += n
			}
		}
	}
	return sums
}

// OneLID returns the bounds of plans that only use base LIDs, given those of any plan: a
// leaf sends to a server over one plane, and one cable to a top. So if n senders or more make a
// unit, and some cable carries C of these however they are spread, n·C phases are needed.
func OneLID(t *Tree, lanes Bounds) Bounds {
	b, x := lanes, newInstance(t, 1, 1)
	if x.byLeaves { // otherwise leaves may lack a way though they have a plane
		if least, by, err := fors.LeastOneLID(t.twoLevels()); err == nil && least > b.LowerBound {
			b = Bounds{least, by}
		}
	}
	var sizes []int
	for _, on := range t.crowds() {
		sizes = append(sizes, on...)
	}
	slices.Sort(sizes)
	x.blocks = 1 << 20
	x.setCells()
	for _, n := range slices.Compact(sizes) {
		if n == 0 {
			continue
		}
		units := x.demand(func(senders int) int { return min(1, senders/n) })
		if C := x.podCut(x.betweenCells(units), b.LowerBound/n); n*C > b.LowerBound {
			b = Bounds{n * C, fors.ByLID}
		}
	}
	return b
}

// podCut returns the most transfers that some cable of a pod to tops carries, of those between
// cells, if they are spread as well as can be, and at least a given number. Leaves of a pod with
// the same planes count together.
func (x *instance) podCut(between []int32, most int) int {
	var c fors.LaneFlow
	for p := range x.ofPod {
		for _, in := range []bool{outward, inward} {
			c.Reset(x.Lanes())
			for _, a := range x.ofPod[p] {
				for b := range x.cells {
					A, B := &x.cells[a], &x.cells[b]
					from, to := ends(int(a), b, in)
					n := between[from*len(x.cells)+to]
					if A.pod == B.pod || n == 0 {
						continue
					}
					c.Add(func(k int) bool {
						j := x.planeOf[k]
						return A.up[j] && B.up[j] && x.laneUp(int(A.pod), k) && x.laneUp(int(B.pod), k)
					}, int(n))
				}
			}
			most = c.Least(most)
		}
	}
	return most
}

// ends returns one of two first, or the other if transfers come in.
func ends(a, b int, in bool) (from, to int) {
	if in {
		return b, a
	}
	return a, b
}

// leafCut returns the least number of phases for the transfers from leaf a to other leaves, or
// to it, by its planes.
func (r *reach) leafCut(c *fors.LaneFlow, d *demand, a int, in bool, phases int) int {
	c.Reset(r.Planes())
	var planes []bool
	for b := range r.Leaves {
		from, to := ends(a, b, in)
		n := d.between[from*len(r.Leaves)+to]
		if a == b || n == 0 {
			continue
		}
		planes = r.planes(a, b, planes)
		c.Add(func(j int) bool { return planes[j] }, int(n))
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
	between := x.betweenCells(x.demand(each))
	s, _ := network(x, true, func(c, d int32) int32 { return between[int(c)*len(x.cells)+int(d)] })
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
					if r.exchangeOf(a, int(s-base[a])) == r.exchangeOf(b, int(d-base[b])) {
						pairs = append(pairs, fors.Pair{Src: fors.Server(s), Dst: fors.Server(d)})
					}
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
