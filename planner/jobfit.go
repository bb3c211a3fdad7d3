package planner

import (
	"context"
	"math"
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
	s, err := fitted(ctx, t, 1<<ib.MaxLMC, on, nil)
	if err != nil {
		return nil, err
	}
	s.LIDs = LIDs(lids)
	return s, s.Check(on...)
}

// fitted is carriedBy with at most so many LIDs of each server, without verification. The
// transfers of a schedule for some of the servers come first, in their phases.
func fitted(ctx context.Context, t *topology.FatTree, most int, on []*lft.Tables, first *Schedule) (*Schedule, error) {
	start := time.Now()
	tree := forsTree(t)
	tree.Closed = nil // the tables do not follow the rule of one LID a lane
	w, err := newFit(ctx, t, most, on)
	if err != nil {
		return nil, err
	}
	b := fors.ComputeBounds(tree)
	if most == 1 {
		if least, by, err := fors.LeastOneLID(tree); err == nil && least > b.LowerBound {
			b.LowerBound, b.Certificate = least, by
		}
		w.limit = b.LowerBound
	}
	if first != nil {
		w.begin(first)
	}
	plan, err := w.plan(ctx, b)
	if err != nil {
		return nil, err
	}
	s, err := unbound(t, plan)
	if err != nil {
		return nil, err
	}
	copy(s.Rows.DLID, w.rows)
	s.LIDs, s.least, s.by = LIDs(most), plan.LowerBound, plan.Certificate
	s.finish(start)
	return s, nil
}

// way is how a leaf reaches a server.
type way struct {
	lane int16
	down int16 // the lane by which it comes down, of the same spine
	dlid ib.LID
}

// fit puts transfers one by one into the earliest phase with room, and may then move others so
// that few are in phases beyond a limit.
type fit struct {
	tree   *topology.FatTree
	ways   map[int][]way // leaf·servers+server; of leaves with servers
	parts  []part        // see partsOf
	placed []placed
	cut    []fors.Pair
	done   *fors.PairSet // placed by begin
	rows   []ib.LID      // [phase·servers+source] the LIDs of the plan
	limit  int           // the phases into which all are moved if possible; 0 leaves them
	work   int           // phases that searches may visit
	tried  []int         // [transfer] the last search that tried to move it
	search int
	local  [1]way // see waysOf
}

// fitWork limits the phases that the searches of a plan visit, about 50 ns each.
const fitWork = 1 << 20

// chain is how many transfers a search moves at most.
const chain = 16

// part is what carries one transfer in a phase: a server as sender, as receiver, or a cable up
// or down.
type part struct {
	busy []uint64 // a bit for each phase that is taken; phases beyond its end are free
	by   []int32  // [phase] the transfer, if taken; nil if none will be moved
}

// at returns the transfer of a phase, −1 if it is free.
func (p *part) at(phase int) int {
	if p.word(phase>>6)>>(phase&63)&1 == 0 {
		return -1
	}
	return int(p.by[phase])
}

// word returns the bits of 64 phases.
func (p *part) word(i int) uint64 {
	if i < len(p.busy) {
		return p.busy[i]
	}
	return 0
}

// occupy marks a phase as taken.
func (p *part) occupy(phase int) {
	for len(p.busy) <= phase>>6 {
		p.busy = append(p.busy, 0)
	}
	p.busy[phase>>6] |= 1 << (phase & 63)
}

// set takes a phase for a transfer, or frees it for −1.
func (p *part) set(phase, transfer int) {
	p.occupy(phase)
	if p.by = append(p.by, make([]int32, max(0, phase+1-len(p.by)))...); transfer >= 0 {
		p.by[phase] = int32(transfer)
	} else {
		p.busy[phase>>6] &^= 1 << (phase & 63)
	}
}

// placed is a transfer with its phase.
type placed struct {
	phase    int
	src, dst int
	way
}

func newFit(ctx context.Context, t *topology.FatTree, most int, on []*lft.Tables) (*fit, error) {
	n := len(t.Servers)
	w := &fit{tree: t, ways: map[int][]way{}, parts: make([]part, 2*n+2*len(t.Leaves)*t.Lanes), done: fors.NewPairSet(n), work: fitWork}
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
			w.ways[leaf*n+d] = waysTo(t, on, leaf, &t.Hosts[t.Servers[d]], most)
		}
	}
	return w, nil
}

// waysTo lists the lanes on which all the tables lead from a leaf to a host of another one,
// each with its first LID of at most so many.
func waysTo(t *topology.FatTree, on []*lft.Tables, leaf int, h *topology.Host, most int) []way {
	if leaf == h.Leaf {
		return nil
	}
	var out []way
	for j := range min(most, 1<<h.LMC) {
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
			if d := at[(place+shift)%len(at)]; s >= 0 && d >= 0 && t.Together(s, d) {
				w.place(s, d)
			}
		}
	}
	if err := w.shorten(ctx); err != nil {
		return nil, err
	}
	phases := 0
	for _, x := range w.placed {
		phases = max(phases, x.phase+1)
	}
	n := len(t.Servers)
	plan := fors.NewPlan(fors.Conservative, n, phases)
	w.rows = make([]ib.LID, n*phases)
	sends, hears := make([]int, n), make([]int, n)
	for _, x := range w.placed {
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

// begin places the transfers of a schedule for some of the servers, which the tables carry by
// base LIDs.
func (w *fit) begin(first *Schedule) {
	t := w.tree
	now := make([]int, len(first.Tree.Servers)) // [server of first] its index
	for i, host := range first.Tree.Servers {
		now[i], _ = slices.BinarySearch(t.Servers, host)
	}
	for i, to := range first.Plan.To {
		if to == fors.Idle {
			continue
		}
		s, d := now[i%first.Plan.Servers], now[to]
		if ways := w.waysOf(s, d); len(ways) > 0 {
			w.put(placed{i / first.Plan.Servers, s, d, ways[0]})
			w.done.Add(fors.Server(s), fors.Server(d))
		}
	}
}

// place puts a pair into the first phase that one of its ways allows.
func (w *fit) place(s, d int) {
	if w.done.Has(fors.Server(s), fors.Server(d)) {
		return
	}
	x, ok := w.earliest(placed{src: s, dst: d}, math.MaxInt)
	if !ok {
		w.cut = append(w.cut, fors.Pair{Src: fors.Server(s), Dst: fors.Server(d)})
		return
	}
	w.put(x)
}

// put adds a transfer.
func (w *fit) put(x placed) {
	w.placed = append(w.placed, x)
	if w.limit > 0 {
		w.tried = append(w.tried, 0)
		w.mark(len(w.placed)-1, len(w.placed)-1)
		return
	}
	parts, n := w.partsOf(&x)
	for _, p := range parts[:n] {
		p.occupy(x.phase)
	}
}

// mark makes a transfer's parts hold another one, −1 for none.
func (w *fit) mark(transfer, holder int) {
	x := &w.placed[transfer]
	parts, n := w.partsOf(x)
	for _, p := range parts[:n] {
		p.set(x.phase, holder)
	}
}

// firstFree returns the first phase that is free in all parts, or the limit if that is less.
func firstFree(parts []*part, limit int) int {
	for i := 0; i<<6 < limit; i++ {
		var busy uint64
		for _, p := range parts {
			busy |= p.word(i)
		}
		if busy != math.MaxUint64 {
			return min(limit, i<<6+bits.TrailingZeros64(^busy))
		}
	}
	return limit
}

// partsOf returns the parts that a transfer takes, and how many.
func (w *fit) partsOf(x *placed) (parts [4]*part, count int) {
	t := w.tree
	n, leaves := len(t.Servers), len(t.Leaves)
	parts[0], parts[1] = &w.parts[x.src], &w.parts[n+x.dst]
	if x.lane == int16(fors.Local) {
		return parts, 2
	}
	parts[2] = &w.parts[2*n+t.Hosts[t.Servers[x.src]].Leaf*t.Lanes+int(x.lane)]
	parts[3] = &w.parts[2*n+(leaves+t.Hosts[t.Servers[x.dst]].Leaf)*t.Lanes+int(x.down)]
	return parts, 4
}

// waysOf returns the ways of a pair, until the next call.
func (w *fit) waysOf(s, d int) []way {
	src, dst := &w.tree.Hosts[w.tree.Servers[s]], &w.tree.Hosts[w.tree.Servers[d]]
	if src.Leaf == dst.Leaf {
		w.local[0] = way{int16(fors.Local), int16(fors.Local), dst.LID}
		return w.local[:]
	}
	return w.ways[src.Leaf*len(w.tree.Servers)+d]
}

// earliest returns a transfer in the first phase below a limit that one of its ways allows.
func (w *fit) earliest(x placed, limit int) (best placed, ok bool) {
	best.phase = limit
	for _, x.way = range w.waysOf(x.src, x.dst) {
		parts, n := w.partsOf(&x)
		if x.phase = firstFree(parts[:n], best.phase); x.phase < best.phase {
			best, ok = x, true
		}
	}
	return best, ok
}

// shorten moves the transfers in phases beyond the limit into earlier ones, if it can.
func (w *fit) shorten(ctx context.Context) error {
	for i := range w.placed {
		if w.limit == 0 || w.placed[i].phase < w.limit {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		w.mark(i, -1)
		if w.search++; !w.move(i, chain) {
			w.placed[i], _ = w.earliest(w.placed[i], math.MaxInt)
			w.mark(i, i)
		}
	}
	return nil
}

// move places a transfer that has no phase in one below the limit, and moves another one out
// of its way, and so on, at most so many. If it fails, nothing has changed.
func (w *fit) move(i, most int) bool {
	x, ok := w.earliest(w.placed[i], w.limit)
	if ok {
		w.placed[i] = x
		w.mark(i, i)
		return true
	}
	if most == 0 || w.tried[i] == w.search {
		return false
	}
	w.tried[i] = w.search
	x = w.placed[i]
	for _, x.way = range w.waysOf(x.src, x.dst) {
		parts, n := w.partsOf(&x)
		for x.phase = 0; x.phase < w.limit && w.work > 0; x.phase++ {
			w.work--
			other, several := -1, false
			for _, p := range parts[:n] {
				if at := p.at(x.phase); at >= 0 && at != other {
					other, several = at, other >= 0
				}
			}
			if several || other < 0 || w.tried[other] == w.search {
				continue
			}
			was := w.placed[other]
			w.mark(other, -1)
			w.placed[i] = x
			w.mark(i, i)
			if w.move(other, most-1) {
				return true
			}
			w.mark(i, -1)
			w.placed[other] = was
			w.mark(other, other)
		}
	}
	return false
}
