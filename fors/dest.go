package fors

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// Wish is the lanes that a plan for one LID a server should take: those in the present
// tables, or those of the previous plan. The zero value leaves the choice to PlanOneLID.
type Wish struct {
	// Via is [leaf][destination] the lane by which a leaf sends to a server, as Grouped.Via
	// with one LID. It is Local, or a lane that is not up at both leaves, if the choice is
	// free. Nil is Local everywhere.
	Via []Lane
	// Down is [destination][lane] the lane by which traffic that comes up by a lane goes
	// down, if the tree has spines: one that is up, or Local for any. Nil is the lane
	// itself.
	Down []Lane
	// Keep makes the plan keep every lane of Via that is up, whatever the number of phases.
	// Without it, a lane is kept unless another one promises fewer phases.
	Keep bool
	// Stay marks the lanes of Via that stay where Repair moves others; nil if none.
	Stay []bool
}

// PlanOneLID plans the complete exchange for one LID a server: all transfers from a leaf to
// a server take one lane, so that the tables follow from the plan. It generalizes
// PlanGroups for one LID in two ways: an undamaged tree takes P−1 phases whatever servers
// its leaves have, and lanes stay as wished.
//
// Destination lanes: each server owns a lane of its leaf, over which all others send to it.
// The transfers on a link into the leaf then go to one server, and no link has two
// transfers in a phase if no server receives two. Phases are the colours of a frame like
// PlanExact's; receivers follow from the lanes; the senders of a leaf are the colours of
// another graph. A transfer whose lane is dead takes a lane that another server owns. Its
// server then receives over two links, and where both are busy in a phase, two phases are
// exchanged along an alternating path (Kempe), until no server has two transfers in any.
//
// That may fail. The work is counted; then more phases are tried, and the remaining clashes
// get phases of their own. Without Keep, PlanGroups is the last resort. Phases may be
// blocks of phases as in PlanGroups if that takes no more of them: there are fewer blocks
// to search.
//
// LeastPhases is the bound for one LID a server, LeastBy its certificate. Pairs without a
// common lane are left out and listed; Tree.Closed does not count. PlanOneLID fails if the
// tree or the wish is inconsistent, and soon after ctx ends.
func PlanOneLID(ctx context.Context, t *Tree, w Wish) (*Grouped, error) {
	return planOneLID(ctx, t, w, runtime.GOMAXPROCS(0))
}

// LeastOneLID returns the least number of phases for one LID a server that the bounds of
// PlanOneLID allow, with its certificate.
func LeastOneLID(t *Tree) (phases int, by Certificate, err error) {
	if t.Mixed() {
		return t.leastShared()
	}
	x, err := newOneLID(t, Wish{}, 1)
	if err != nil {
		return 0, ByNothing, err
	}
	phases, by = x.least(x.bounds())
	return phases, by, nil
}

// leastShared is LeastOneLID if leaves are in several exchanges: by servers, by the number of
// transfers that a leaf's living lanes carry, and by the servers in the exchange of most of
// their leaf.
func (t *Tree) leastShared() (phases int, by Certificate, err error) {
	open := *t
	open.Closed = nil
	w, err := newPairDemands(context.Background(), &open, t.Demand().List())
	if err != nil {
		return 0, ByNothing, err
	}
	if phases, by, err = LeastOneLID(t.core()); err != nil {
		return 0, ByNothing, err
	}
	for end := range w.degree {
		if x := int(slices.Max(w.degree[end])); x > phases {
			phases, by = x, ByServers
		}
	}
	for A, up := range w.up {
		for end := range w.degree {
			if x := w.load(end, A); x > 0 && ceilDiv(x, up.Size()) > phases {
				phases, by = ceilDiv(x, up.Size()), ByLeaf
			}
		}
	}
	return phases, by, nil
}

// core returns the tree without the servers that are in another exchange than most of their
// leaf.
func (t *Tree) core() *Tree {
	core := &Tree{Lanes: t.Lanes, Up: t.Up, Spine: t.Spine}
	s := 0
	for _, slots := range t.Slots {
		count, most := map[int]int{}, 0
		for i := range slots {
			x := t.Exchange[s+i]
			if count[x]++; count[x] > count[most] || count[x] == count[most] && x < most {
				most = x
			}
		}
		var kept []int
		for i, α := range slots {
			if t.Exchange[s+i] == most {
				kept, core.Exchange = append(kept, α), append(core.Exchange, most)
			}
		}
		core.Slots = append(core.Slots, kept)
		s += len(slots)
	}
	return core
}

// overOneLID returns how many transfers the links of a tree have too many for one LID a
// server and the given number of phases, by the bounds of LeastOneLID.
func overOneLID(t *Tree, phases int) (over int) {
	x, err := newOneLID(t, Wish{}, 1)
	if err != nil {
		return 0
	}
	x.eachCrowd(func(units *LaneFlow, s int) { over += max(0, s*units.Least(phases/s)-phases) })
	return over
}

func newOneLID(t *Tree, w Wish, workers int) (*oneLID, error) {
	open := *t
	open.Closed = nil
	if err := open.validate(); err != nil {
		return nil, err
	}
	if open.Mixed() {
		return nil, ErrNotApplicable
	}
	n := newNet(&open)
	x := &oneLID{net: n, tree: &open, workers: max(1, workers), keep: w.Keep, leafOf: make([]int32, open.Servers()), to: n.up}
	if open.Spine != nil {
		x.setSpines()
	}
	for A, size := range n.size {
		for i := range size {
			x.leafOf[int(n.base[A])+i] = int32(A)
		}
	}
	return x, x.read(w)
}

func planOneLID(ctx context.Context, t *Tree, w Wish, workers int) (*Grouped, error) {
	x, err := newOneLID(t, w, workers)
	if err != nil {
		return nil, err
	}
	b := x.bounds()
	least, by := x.least(b)
	kept := 0
	if x.keep {
		kept = x.wished(0, x.size).fullest()
	}
	p, err := x.search(ctx, b, max(least, kept))
	if err != nil {
		return nil, fmt.Errorf("plan for one LID: %w", err)
	}
	p.LeastPhases, p.LeastBy, p.Kept = least, by, kept
	p.Bounds = b
	p.Unreachable = x.unreachable()
	return p, nil
}

// oneLID plans for one LID a server.
type oneLID struct {
	*net
	tree    *Tree
	workers int
	keep    bool
	manner  manner
	leafOf  []int32 // [server]
	wish    []Lane  // [leaf·servers + server] Local if none; nil if no lane is wished for
	stay    []bool  // [as wish] it must stay
	to      []bool  // [leaf·lanes + lane] the lane leads to the leaf
	cables  [][]int // [lane] the lanes of its spine, nil where each lane has a spine of its own
	spine   []int   // [lane] the first of these
	falls   []Lane  // [server·lanes + lane] the wished lane down for traffic by the spine of this first lane
	fell    []Lane  // Wish.Down
}

// setSpines determines the lanes of each spine, and joins leaves that have cables to one
// spine.
func (x *oneLID) setSpines() {
	x.cables, x.spine = make([][]int, x.lanes), make([]int, x.lanes)
	for k, s := range x.tree.Spine {
		for other, of := range x.tree.Spine {
			if of == s {
				x.cables[k] = append(x.cables[k], other)
			}
		}
		x.spine[k] = x.cables[k][0]
	}
	x.to = make([]bool, len(x.up))
	for i := range x.to {
		x.to[i] = slices.ContainsFunc(x.cables[i%x.lanes], func(k int) bool { return x.up[i-i%x.lanes+k] })
	}
	for A := range x.leaves {
		x.remote[A] = 0
		for B := range x.leaves {
			if A != B && x.sameExchange(A, B) {
				x.common[A*x.leaves+B] = commonLanes(x.lanesOf(A), x.to[B*x.lanes:][:x.lanes])
			}
			if A != B && x.joined(A, B) {
				x.remote[A] += x.size[B]
			}
		}
	}
}

// bounds is ComputeBounds for traffic that may come down by another cable of a spine.
func (x *oneLID) bounds() Bounds {
	w := newDemands(x.tree)
	if x.cables != nil {
		w.to = make([]LaneSet, len(w.up))
		for at, leaf := range w.leaves {
			w.to[leaf] = laneSet(x.to[at*x.lanes:][:x.lanes])
		}
	}
	return w.bounds()
}

// laneSet returns the lanes that are up.
func laneSet(up []bool) LaneSet {
	s := NewLaneSet(len(up))
	for k, up := range up {
		if up {
			s.Add(k)
		}
	}
	return s
}

// read copies the lanes of a wish that are up at both leaves.
func (x *oneLID) read(w Wish) error {
	servers := len(x.leafOf)
	if w.Via == nil {
		return nil
	}
	if want := len(x.tree.Slots) * servers; len(w.Via) != want || w.Down != nil && len(w.Down) != servers*x.lanes || w.Stay != nil && len(w.Stay) != want {
		return fmt.Errorf("plan for one LID: the wish has %d lanes up and %d down, want %d and %d, for %d leaves, %d servers and %d lanes",
			len(w.Via), len(w.Down), want, servers*x.lanes, len(x.tree.Slots), servers, x.lanes)
	}
	if x.cables != nil {
		x.falls, x.fell = slices.Repeat([]Lane{Local}, servers*x.lanes), w.Down
	}
	x.wish = make([]Lane, x.leaves*servers)
	if w.Stay != nil {
		x.stay = make([]bool, len(x.wish))
	}
	A := 0
	for leaf, slots := range x.tree.Slots {
		if len(slots) == 0 {
			continue
		}
		for d, k := range w.Via[leaf*servers:][:servers] {
			if k < Local || int(k) >= x.lanes {
				return fmt.Errorf("plan for one LID: leaf %d wishes for lane %d to server %d, of %d lanes", leaf, k, d, x.lanes)
			}
			if k != Local && !x.wishes(A, d, int(k), w.Down) {
				k = Local
			}
			x.wish[A*servers+d] = k
			if w.Stay != nil {
				x.stay[A*servers+d] = k != Local && w.Stay[leaf*servers+d]
			}
		}
		A++
	}
	return nil
}

// wishes reports whether a lane is up from leaf A to server d, and down by the lane wished
// for, which it copies.
func (x *oneLID) wishes(A, d, k int, down []Lane) bool {
	B, fall := int(x.leafOf[d]), k
	if down != nil && x.cables != nil {
		fall = int(down[d*x.lanes+k])
	}
	if !x.alive(A, B, k) || fall >= x.lanes || fall >= 0 && !x.up[B*x.lanes+fall] {
		return false
	}
	if x.cables == nil || fall < 0 {
		return true
	}
	at := d*x.lanes + x.spine[k]
	if x.falls[at] == Local && x.spine[fall] == x.spine[k] {
		x.falls[at] = Lane(fall)
	}
	return x.falls[at] == Lane(fall)
}

// alive reports whether a lane leads from leaf A to another leaf B.
func (x *oneLID) alive(A, B, k int) bool {
	return A != B && x.sameExchange(A, B) && x.up[A*x.lanes+k] && x.to[B*x.lanes+k]
}

// least returns the larger of a tree's bound and the phases that one LID a server needs.
// The s transfers of a leaf with s servers to one server take one lane, which has room for
// only ⌊Φ/s⌋ such units. So if leaf A cannot distribute the servers over its lanes with
// less than C on one of them, n_A·C phases are needed; and if the transfers into a leaf
// from leaves with s servers or more cannot be distributed with less than C of them on one
// lane, s·C. The result is a multiple of the greatest common divisor of the other leaves'
// servers. With several cables to a spine, the units from one leaf to another on one of
// them are at least as many as there are for each way.
func (x *oneLID) least(b Bounds) (phases int, by Certificate) {
	phases, by = b.LowerBound, b.Certificate
	x.eachCrowd(func(units *LaneFlow, s int) {
		if C := units.Least(phases / s); C > phases/s {
			phases, by = s*C, ByLID
		}
	})
	if x.cables != nil {
		for A, size := range x.size {
			for B, n := range x.size {
				if A != B && x.joined(A, B) {
					if each := size * ceilDiv(n, x.ways(A, B)); each > phases {
						phases, by = each, ByLID
					}
				}
			}
		}
	}
	return phases, by
}

// ways returns how many units can go from leaf A to leaf B concurrently: over each spine as
// many as it has cables to the leaf with fewer.
func (x *oneLID) ways(A, B int) (n int) {
	for k := range x.lanes {
		if x.spine[k] == k {
			up, down := 0, 0
			for _, j := range x.cables[k] {
				if x.up[A*x.lanes+j] {
					up++
				}
				if x.up[B*x.lanes+j] {
					down++
				}
			}
			n += min(up, down)
		}
	}
	return n
}

// eachCrowd calls count for all units that share the links of a leaf: units of s transfers
// each, of s or more, or units that count several times.
func (x *oneLID) eachCrowd(count func(units *LaneFlow, s int)) {
	sets, to := make([]LaneSet, x.leaves), make([]LaneSet, x.leaves)
	for A := range sets {
		sets[A], to[A] = laneSet(x.lanesOf(A)), laneSet(x.to[A*x.lanes:][:x.lanes])
	}
	sizes := slices.Clone(x.size)
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	var flow LaneFlow
	flow.Reset(x.lanes)
	crowd := func(A, s int, units func(B int) int) {
		flow.Clear()
		for B := range x.leaves {
			if n := units(B); A != B && n > 0 && x.sameExchange(A, B) && flow.common(sets[A], to[B], nil) {
				flow.add(n)
			}
		}
		count(&flow, s)
	}
	for A, size := range x.size {
		twin := false
		for B := range A {
			twin = twin || x.size[B] == size && x.sameExchange(A, B) && slices.Equal(sets[A], sets[B])
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
			for n != 0 && B != A && x.sameExchange(A, B) {
				divisor, n = n, divisor%n
			}
		}
		if divisor > 1 {
			crowd(A, divisor, func(B int) int { return size * x.size[B] / divisor })
		}
	}
}

// search plans in as few phases as it finds: by blocks of phases if that takes no more of
// them, by phases otherwise.
func (x *oneLID) search(ctx context.Context, b Bounds, least int) (best *Grouped, err error) {
	g := slices.Max(x.size)
	x.setGroups(g)
	leastBlocks := x.leastBlocks(g)
	x.units = x.size
	budget, tried, groups := destWork, leastBlocks-1, !x.keep && x.cables == nil
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
	for phases, next := least, 0; best == nil || phases < best.Phases && budget > 0; phases = next {
		if groups && phases > g*leastBlocks {
			break
		}
		if phases/g > tried {
			tried = phases / g
			if err := try(g*tried, func() (*Grouped, error) { return x.blocks(ctx, g, tried, &budget) }); err != nil {
				return nil, err
			}
		}
		if next = phases + 1 + phases/128; budget > 0 && x.leaves*x.lanes*phases > phaseEdges {
			next = max(next, g*(tried+1))
			continue
		}
		if err := try(phases, func() (*Grouped, error) { return x.phases(ctx, phases, &budget) }); err != nil {
			return nil, err
		}
	}
	if groups && (best == nil || best.Phases > g*leastBlocks) {
		p, err := planGroups(ctx, x.tree, b, 1, x.workers)
		if err != nil {
			return nil, err
		}
		consider(p)
	}
	return best, nil
}

// Keeps reports whether lanes for one LID a server exist that keep all wished lanes that
// are up and put at most so many transfers on a link. The search is heuristic.
func Keeps(t *Tree, w Wish, transfers int) bool {
	w.Keep = true
	x, err := newOneLID(t, w, 1)
	if err != nil {
		return false
	}
	x.manner = shiftLast
	_, ok := x.choose(transfers, x.size, nil)
	return ok
}

// ChooseLanes returns lanes for one LID a server, as in Grouped, on which no link has more
// transfers than LeastOneLID, or hardly more. The wished lanes stay if that allows it, and
// with Keep all that are up.
func ChooseLanes(t *Tree, w Wish) (via, down []Lane, err error) {
	x, err := newOneLID(t, w, 1)
	if err != nil {
		return nil, nil, err
	}
	least, _ := x.least(x.bounds())
	for x.manner = shiftLast; ; least += 1 + least/128 {
		budget := destWork / 64
		if l, ok := x.choose(least, x.size, &budget); ok {
			return x.byLeaf(l.via), l.downs(), nil
		}
	}
}

// byLeaf is lanes by leaf of the tree, Local for those without servers.
func (x *oneLID) byLeaf(lanes []Lane) []Lane {
	servers := len(x.leafOf)
	via := slices.Repeat([]Lane{Local}, len(x.tree.Slots)*servers)
	for leaf, slots := range x.tree.Slots {
		if len(slots) > 0 {
			copy(via[leaf*servers:], lanes[:servers])
			lanes = lanes[servers:]
		}
	}
	return via
}
