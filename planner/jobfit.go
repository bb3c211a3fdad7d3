package planner

import (
	"context"
	"math/bits"
	"slices"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// carriedBy plans the exchange of the tree's servers on tables that were made for another
// plan: the lanes from a leaf to a server are those that the tables give to the server's
// LIDs there. Each pair goes into the earliest phase in which one of its lanes is free, in
// the order of the linear shift. The schedule is verified on all the tables.
func carriedBy(ctx context.Context, t *topology.FatTree, lids int, on []*lft.Tables) (*Schedule, error) {
	start := time.Now()
	tree := forsTree(t)
	tree.Closed = nil // the tables do not follow the rule of one LID a lane
	w, err := newFit(ctx, t, on)
	if err != nil {
		return nil, err
	}
	plan, err := w.plan(ctx, fors.ComputeBounds(tree))
	if err != nil {
		return nil, err
	}
	s, err := unbound(t, plan)
	if err != nil {
		return nil, err
	}
	copy(s.Rows.DLID, w.rows)
	s.LIDs, s.least = LIDs(lids), plan.LowerBound
	s.finish(start)
	return s, s.Check(on...)
}

// way is how a leaf reaches a server.
type way struct {
	lane int16
	down int16 // the lane by which it comes down, of the same spine
	dlid ib.LID
}

// bitmap has a bit set for each occupied phase; phases beyond its end are free.
type bitmap []uint64

func (b *bitmap) mark(phase int) {
	for len(*b) <= phase>>6 {
		*b = append(*b, 0)
	}
	(*b)[phase>>6] |= 1 << (phase & 63)
}

func (b bitmap) word(i int) uint64 {
	if i < len(b) {
		return b[i]
	}
	return 0
}

// firstFree returns the first phase that is free in all four bitmaps.
func firstFree(a, b, c, d bitmap) int {
	for i := 0; ; i++ {
		if free := ^(a.word(i) | b.word(i) | c.word(i) | d.word(i)); free != 0 {
			return i<<6 + bits.TrailingZeros64(free)
		}
	}
}

// fit puts transfers one by one into the earliest phase with room.
type fit struct {
	tree         *topology.FatTree
	ways         map[int][]way // leaf·servers+server; of leaves with servers
	sends, hears []bitmap      // [server]
	up, down     []bitmap      // [leaf·lanes+lane]
	put          []placed
	cut          []fors.Pair
	rows         []ib.LID // [phase·servers+source] the LIDs of the plan
}

// placed is a transfer with its phase.
type placed struct {
	phase    int
	src, dst int
	way
}

func newFit(ctx context.Context, t *topology.FatTree, on []*lft.Tables) (*fit, error) {
	n := len(t.Servers)
	w := &fit{tree: t, ways: map[int][]way{}, sends: make([]bitmap, n), hears: make([]bitmap, n),
		up: make([]bitmap, len(t.Leaves)*t.Lanes), down: make([]bitmap, len(t.Leaves)*t.Lanes)}
	last := -1
	for _, i := range t.Servers {
		leaf := t.Hosts[i].Leaf
		if leaf == last {
			continue
		}
		last = leaf
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for d := range t.Servers {
			w.ways[leaf*n+d] = waysTo(t, on, leaf, &t.Hosts[t.Servers[d]])
		}
	}
	return w, nil
}

// waysTo lists the lanes on which all the tables lead from a leaf to a host of another one,
// each with its first LID.
func waysTo(t *topology.FatTree, on []*lft.Tables, leaf int, h *topology.Host) []way {
	if leaf == h.Leaf {
		return nil
	}
	var out []way
	for j := range 1 << h.LMC {
		lid := h.LID + ib.LID(j)
		lane, down := lanesOf(t, on[0], leaf, h.Leaf, lid)
		if lane < 0 || slices.ContainsFunc(out, func(x way) bool { return int(x.lane) == lane && int(x.down) == down }) ||
			slices.ContainsFunc(on[1:], func(other *lft.Tables) bool {
				up, fall := lanesOf(t, other, leaf, h.Leaf, lid)
				return up != lane || fall != down
			}) {
			continue
		}
		out = append(out, way{int16(lane), int16(down), lid})
	}
	return out
}

// lanesOf returns the lane by which the tables lead a LID up from one leaf, and the lane by
// which its spine leads it down to another one, −1 if there are none that are up.
func lanesOf(t *topology.FatTree, tables *lft.Tables, from, to int, lid ib.LID) (up, down int) {
	leaf := tables.Find(t.Leaves[from].GUID)
	if leaf < 0 {
		return -1, -1
	}
	out := tables.Port(leaf, lid)
	for k, c := range t.Leaves[from].Cables {
		if c.State != topology.Full || c.LeafPort != out {
			continue
		}
		spine := tables.Find(t.Spines[t.LaneOf[k]].GUID)
		for j, back := range t.Leaves[to].Cables {
			if spine >= 0 && t.LaneOf[j] == t.LaneOf[k] && back.State == topology.Full && tables.Port(spine, lid) == back.SpinePort {
				return k, j
			}
		}
	}
	return -1, -1
}

// plan places every pair and writes the phases.
func (w *fit) plan(ctx context.Context, b fors.Bounds) (*fors.Plan, error) {
	t := w.tree
	slots := 0
	for _, i := range t.Servers {
		slots = max(slots, t.Hosts[i].Alpha+1)
	}
	at := make([]int, slots*len(t.Leaves)) // server, −1
	for i := range at {
		at[i] = -1
	}
	for s, i := range t.Servers {
		at[t.Hosts[i].Leaf*slots+t.Hosts[i].Alpha] = s
	}
	for shift := 1; shift < len(at); shift++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for place, s := range at {
			if d := at[(place+shift)%len(at)]; s >= 0 && d >= 0 {
				w.place(s, d)
			}
		}
	}
	phases := 0
	for _, x := range w.put {
		phases = max(phases, x.phase+1)
	}
	n := len(t.Servers)
	plan := fors.NewPlan(fors.Conservative, n, phases)
	w.rows = make([]ib.LID, n*phases)
	sends, hears := make([]int, n), make([]int, n)
	for _, x := range w.put {
		sends[x.src]++
		hears[x.dst]++
		i := x.phase*n + x.src
		plan.To[i], plan.Lane[i], w.rows[i] = fors.Server(x.dst), fors.Lane(x.lane), x.dlid
	}
	slices.SortFunc(w.cut, func(a, b fors.Pair) int {
		if a.Src != b.Src {
			return int(a.Src - b.Src)
		}
		return int(a.Dst - b.Dst)
	})
	// The bounds assume lanes, but a pair may go down by another cable of its spine than
	// up.
	if most := max(slices.Max(sends), slices.Max(hears)); most > b.LowerBound {
		b.LowerBound, b.Certificate = most, fors.ByServers
	}
	plan.Bounds, plan.Unreachable = b, w.cut
	return plan, nil
}

// place puts a pair into the first phase that one of its ways allows.
func (w *fit) place(s, d int) {
	t := w.tree
	src, dst := &t.Hosts[t.Servers[s]], &t.Hosts[t.Servers[d]]
	best := placed{phase: -1, src: s, dst: d}
	if src.Leaf == dst.Leaf {
		best.phase = firstFree(w.sends[s], w.hears[d], nil, nil)
		best.way = way{int16(fors.Local), int16(fors.Local), dst.LID}
	}
	for _, x := range w.ways[src.Leaf*len(t.Servers)+d] {
		phase := firstFree(w.sends[s], w.hears[d], w.up[src.Leaf*t.Lanes+int(x.lane)], w.down[dst.Leaf*t.Lanes+int(x.down)])
		if best.phase < 0 || phase < best.phase {
			best.phase, best.way = phase, x
		}
	}
	if best.phase < 0 {
		w.cut = append(w.cut, fors.Pair{Src: fors.Server(s), Dst: fors.Server(d)})
		return
	}
	w.sends[s].mark(best.phase)
	w.hears[d].mark(best.phase)
	if best.lane != int16(fors.Local) {
		w.up[src.Leaf*t.Lanes+int(best.lane)].mark(best.phase)
		w.down[dst.Leaf*t.Lanes+int(best.down)].mark(best.phase)
	}
	w.put = append(w.put, best)
}
