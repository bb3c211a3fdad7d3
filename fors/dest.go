package fors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
)

// Wish says which lanes a plan for one LID a server should take: those that the
// tables have now, or those of the plan before. The zero value leaves all of them
// to PlanOneLID.
type Wish struct {
	// Via is [leaf][destination] the lane by which a leaf sends to a server, as
	// Grouped.Via with one LID; Local, or a lane that is not up at both leaves, where
	// there is none to keep. Nil is Local everywhere.
	Via []Lane
	// Keep makes the plan keep every lane of Via that is up, whatever phases it
	// takes. Without it a lane is kept unless fewer phases are in sight with another.
	Keep bool
	// Spine is [lane] the spine of each lane, for trees with parallel cables, and goes with
	// Keep alone: a spine knows where a message goes and not where it comes from, so all
	// that comes to a server by one spine comes by one lane. Nil where each lane has a
	// spine of its own.
	Spine []int
}

// PlanOneLID plans the complete exchange for one LID a server: all that a leaf
// sends to a server takes one lane, so that the tables follow from the plan. It does
// what PlanGroups does for one LID, and better in two ways: an undamaged tree takes
// P−1 phases, whatever servers its leaves have, and lanes stay as the wish says.
//
// Destination lanes: each server owns a lane of its leaf, over which all others
// send to it. What a link carries into the leaf is then for one server, and no link
// has two transfers in a phase if no server receives two. Phases are the colours of
// a frame like PlanExact's; receivers follow from the lanes; the senders of a leaf
// are the colours of another graph. Where a lane is dead, what would have taken it
// takes one that somebody else owns. Its server receives over two links now, and
// where both are busy in a phase, two phases are exchanged along an alternating path
// (Kempe), until no server has two transfers in any.
//
// That may fail. The work is counted; then more phases are tried, and what
// still clashes gets phases of its own. Without Keep, PlanGroups is the last resort.
// Phases may be blocks of phases as in PlanGroups, where this takes no more of them:
// there are fewer blocks to search.
//
// LeastPhases is the bound for one LID a server, LeastBy what proves it. Pairs
// without a common lane are left out and listed; Tree.Closed does not count.
// PlanOneLID fails where the tree or the wish contradicts itself, and soon after ctx
// ends.
func PlanOneLID(ctx context.Context, t *Tree, w Wish) (*Grouped, error) {
	return planOneLID(ctx, t, w, runtime.GOMAXPROCS(0))
}

// LeastOneLID is the least number of phases for one LID a server that the bounds of
// PlanOneLID allow, and what proves it.
func LeastOneLID(t *Tree) (phases int, by Certificate, err error) {
	x, err := newOneLID(t, Wish{}, 1)
	if err != nil {
		return 0, ByNothing, err
	}
	phases, by = x.least(ComputeBounds(x.tree))
	return phases, by, nil
}

// overOneLID is by how many transfers the links of a tree have too many for one LID and so
// many phases, by the bounds of LeastOneLID.
func overOneLID(t *Tree, phases int) (over int) {
	x, err := newOneLID(t, Wish{}, 1)
	if err != nil {
		return 0
	}
	x.eachCrowd(func(units *laneFlow, s int) { over += max(0, s*units.leastCapacity(phases/s)-phases) })
	return over
}

func newOneLID(t *Tree, w Wish, workers int) (*oneLID, error) {
	open := *t
	open.Closed = nil
	if err := open.validate(); err != nil {
		return nil, err
	}
	n := newNet(&open)
	x := &oneLID{net: n, tree: &open, workers: max(1, workers), keep: w.Keep, spine: w.Spine, leafOf: make([]int32, open.Servers())}
	for A, size := range n.size {
		for i := range size {
			x.leafOf[int(n.base[A])+i] = int32(A)
		}
	}
	return x, x.read(w.Via)
}

func planOneLID(ctx context.Context, t *Tree, w Wish, workers int) (*Grouped, error) {
	x, err := newOneLID(t, w, workers)
	if err != nil {
		return nil, err
	}
	b, n := ComputeBounds(x.tree), x.net
	if l := x.wished(math.MaxInt/2, x.size); x.spine != nil && !l.placeRest() {
		return nil, errors.New("plan for one LID: a server can be reached over none of the cables that are left, as others reach it over another one of the same spine")
	}
	least, by := x.least(b)
	p, err := x.search(ctx, b, least)
	if err != nil {
		return nil, fmt.Errorf("plan for one LID: %w", err)
	}
	p.LeastPhases, p.LeastBy = least, by
	p.Bounds = b
	p.Unreachable = n.unreachable()
	return p, nil
}

// oneLID plans for one LID a server.
type oneLID struct {
	*net
	tree    *Tree
	workers int
	keep    bool
	spine   []int // [lane]; nil where each lane has its own
	manner  manner
	leafOf  []int32 // [server]
	wish    []Lane  // [leaf·servers + server] Local for none; nil for none at all
}

// read takes over the lanes of a wish that are up at both leaves.
func (x *oneLID) read(via []Lane) error {
	servers := len(x.leafOf)
	if via == nil {
		return nil
	}
	if want := len(x.tree.Slots) * servers; len(via) != want {
		return fmt.Errorf("plan for one LID: the wish has %d lanes, want %d, for %d leaves and %d servers", len(via), want, len(x.tree.Slots), servers)
	}
	x.wish = make([]Lane, x.leaves*servers)
	A := 0
	for leaf, slots := range x.tree.Slots {
		if len(slots) == 0 {
			continue
		}
		for d, k := range via[leaf*servers:][:servers] {
			if k < Local || int(k) >= x.lanes {
				return fmt.Errorf("plan for one LID: leaf %d wishes for lane %d to server %d, of %d lanes", leaf, k, d, x.lanes)
			}
			if k != Local && !x.alive(A, int(x.leafOf[d]), int(k)) {
				k = Local
			}
			x.wish[A*servers+d] = k
		}
		A++
	}
	return nil
}

// alive tells whether a lane leads from leaf A to leaf B, another one.
func (x *oneLID) alive(A, B, k int) bool {
	return A != B && x.up[A*x.lanes+k] && x.up[B*x.lanes+k]
}

// least is the larger of a tree's bound and the phases that one LID a server needs. The
// s transfers of a leaf with s servers to one server take one lane, on which only ⌊Φ/s⌋
// of that size find room. So if leaf A has no way to share the servers out to its lanes
// with less than C on one of them, there are n_A·C phases; and if what enters a leaf from
// leaves with s servers or more cannot be shared out to lanes with less than C of these
// on one, there are s·C. It comes in multiples of the greatest common divisor of the other
// leaves' servers. Lanes that are kept are a bound by themselves.
func (x *oneLID) least(b Bounds) (phases int, by Certificate) {
	phases, by = b.LowerBound, b.Certificate
	x.eachCrowd(func(units *laneFlow, s int) {
		if C := units.leastCapacity(phases / s); C > phases/s {
			phases, by = s*C, ByLID
		}
	})
	if x.keep {
		if each := x.wished(0, x.size).fullest(); each > phases {
			phases, by = each, ByLID
		}
	}
	return phases, by
}

// eachCrowd calls count for all that shares the links of a leaf: units of s transfers
// each, or of s or more, or what counts as several units.
func (x *oneLID) eachCrowd(count func(units *laneFlow, s int)) {
	sets := make([]LaneSet, x.leaves)
	for A := range sets {
		sets[A] = NewLaneSet(x.lanes)
		for k, up := range x.lanesOf(A) {
			if up {
				sets[A].Add(k)
			}
		}
	}
	sizes := slices.Clone(x.size)
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	var flow laneFlow
	flow.reset(x.lanes)
	crowd := func(A, s int, units func(B int) int) {
		flow.clear()
		for B := range x.leaves {
			if n := units(B); A != B && n > 0 && flow.common(sets[A], sets[B], nil) {
				flow.add(n)
			}
		}
		count(&flow, s)
	}
	for A, size := range x.size {
		twin := false
		for B := range A {
			twin = twin || x.size[B] == size && slices.Equal(sets[A], sets[B])
		}
		if twin {
			continue
		}
		crowd(A, size, func(B int) int { return x.size[B] })
		for _, s := range sizes {
			crowd(A, s, func(B int) int {
				if x.size[B] < s {
					return 0
				}
				return size
			})
		}
		divisor := 0
		for B, n := range x.size {
			for n != 0 && B != A {
				divisor, n = n, divisor%n
			}
		}
		if divisor > 1 {
			crowd(A, divisor, func(B int) int { return size * x.size[B] / divisor })
		}
	}
}

// search plans in as few phases as it can: by blocks of phases where as many of
// these will do, by phases otherwise.
func (x *oneLID) search(ctx context.Context, b Bounds, least int) (best *Grouped, err error) {
	g := slices.Max(x.size)
	x.setGroups(g)
	leastBlocks := x.leastBlocks(g)
	x.units = x.size
	budget, tried := destWork, leastBlocks-1
	consider := func(p *Grouped) {
		if p != nil && (best == nil || p.Phases < best.Phases) {
			best = p
		}
	}
	try := func(phases int, plan func() (*Grouped, error)) error {
		for x.manner = shiftFirst; x.manner <= shiftLast; x.manner++ {
			if best != nil && best.Phases <= phases || x.manner != shiftLast && x.wish == nil {
				continue
			}
			p, err := plan()
			if err != nil {
				return err
			}
			consider(p)
		}
		return nil
	}
	for phases := least; best == nil || phases < best.Phases && budget > 0; phases += 1 + phases/128 {
		if !x.keep && phases > g*leastBlocks {
			break
		}
		if phases/g > tried {
			tried = phases / g
			if err := try(g*tried, func() (*Grouped, error) { return x.blocks(ctx, g, tried, &budget) }); err != nil {
				return nil, err
			}
		}
		if err := try(phases, func() (*Grouped, error) { return x.phases(ctx, phases, &budget) }); err != nil {
			return nil, err
		}
	}
	if !x.keep && (best == nil || best.Phases > g*leastBlocks) {
		p, err := planGroups(ctx, x.tree, b, 1, x.workers)
		if err != nil {
			return nil, err
		}
		consider(p)
	}
	return best, nil
}
