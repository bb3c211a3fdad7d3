package podplan

import (
	"cmp"
	"iter"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// This file chooses the ways of base LIDs on a tree on which the linear shift works while
// nothing has failed. A way of the complete tree stays if it lives. All others are spread
// over the cables so that the fullest one of the whole exchange carries little: this
// matters to programs that send to all at once, and bounds any plan for base LIDs. Among
// equal ways the one in the tables without a plan comes first, so that few blocks of them
// change.

// crowd is how many fair shares a cable may carry, up to a block, before ways move that could
// stay, and crowdSingle where plans are for single senders.
const (
	crowd       = 1.05
	crowdSingle = 1.03
)

// moreMoves is the share of the ways that may move so, as a divisor. For single senders, more may
// until no cable carries more than tolerance fair shares.
const (
	moreMoves = 100
	tolerance = 1.06
)

// baseWays chooses a way from each leaf to the base LID of each server.
type baseWays struct {
	*Result
	offset ib.LID               // of the LIDs, 0 for base LIDs
	n      int                  // servers
	way    []int16              // [leaf·n + server] as in pods.Plan; −1 on one leaf and without a way
	whole  []int16              // [leaf·n + server] that of the whole tree, −2 if it is dead
	mid    []entry              // [mid·n + server] the lane that it takes upwards
	top    []entry              // [top·n + server] the lane downwards, where the top has several
	down   []entry              // [index of a mid in its pod·n + server] the plane downwards
	many   []bool               // [top] whether it has several
	steps  [][]int32            // [cable] number of servers from the first of the sending leaf to the receiver, of units off the ways of the complete tree; nil until relieve
	load   []int32              // [cable] transfers of the exchange
	fair   int32                // transfers that some cable carries with any tables
	usual  [][]uint8            // [node] the tables of the tree without a plan
	sent   []bool               // [block] of a table, see block: that it changes anyway
	window int                  // blocks of a table
	laned  bool                 // plans go by the lanes of LIDs
	sends  func(a, d int) int64 // how many servers of a leaf send to a server
}

// entry is what a table has for a base LID, while units use it.
type entry struct {
	is   int16
	uses int16
}

// allows reports if an entry is not used, or used so.
func (e entry) allows(is int16) bool { return e.uses == 0 || e.is == is }

// cable numbers: what leaves leaves, what enters them, what leaves pods, what enters them.
func (w *baseWays) cablesOf(a, b int, way int16) (of [4]int, n int) {
	planes, lanes, leaves := w.Tree.Planes, len(w.Tree.Lanes), len(w.shape.Leaves)
	j := int(way) - lanes
	if j < 0 {
		j = w.Tree.Lanes[way].Plane
		first := 2 * leaves * planes
		of[2], of[3] = first+w.shape.Leaves[a].Pod*lanes+int(way), first+(w.Tree.Pods+w.shape.Leaves[b].Pod)*lanes+int(way)
		n = 2
	}
	of[0], of[1] = a*planes+j, (leaves+b)*planes+j
	return of, n + 2
}

// newBaseWays gives all units the ways of the whole tree that live.
func newBaseWays(r *Result, usual *lft.Tables, offset int) *baseWays {
	t, leaves := r.Tree, len(r.shape.Leaves)
	w := &baseWays{Result: r, offset: ib.LID(offset), n: len(t.Servers), many: severalLanes(t)}
	w.way, w.whole = make([]int16, leaves*w.n), make([]int16, leaves*w.n)
	w.mid, w.top, w.down = make([]entry, len(t.Mids)*w.n), make([]entry, len(t.Tops)*w.n), make([]entry, t.MidsPerPod()*w.n)
	w.load = make([]int32, 2*leaves*t.Planes+2*t.Pods*len(t.Lanes))
	w.usual, w.laned = usual.ByNode(t.Fabric), lids(t) >= len(t.Lanes)
	senders := r.shape.Senders()
	w.sends = func(a, d int) int64 {
		b := int(w.home(int32(d)))
		return int64(senders(a, b, d-int(w.Plan.Base[b])))
	}
	for _, out := range w.usual {
		w.window = max(w.window, len(out)/lft.Block+1)
	}
	w.sent = slices.Repeat([]bool{len(t.Exchanges) > 1}, len(w.usual)*w.window)
	whole := r.wholeWays(offset)
	for d := range t.Servers {
		for a := range r.shape.Leaves {
			at, b := a*w.n+d, int(r.home(int32(d)))
			w.way[at], w.whole[at] = -1, -2
			if a == b {
				continue
			}
			way := whole(a, d)
			if r.shape.Lives(a, b, way) {
				w.whole[at] = way
				w.use(a, d, way, 1)
			} else {
				w.lost(a, b, d, way)
			}
		}
	}
	return w
}

// wholeWays tells the ways of LIDs of an offset on the whole tree, from a leaf to a server of
// another one.
func (r *Result) wholeWays(offset int) func(a, d int) int16 {
	lanes, inner := make([]int16, len(r.Tree.Servers)), make([]int16, len(r.Tree.Servers))
	for d, i := range r.Tree.Servers {
		lanes[d], inner[d] = r.waysTo(&r.Tree.Hosts[i], offset)
	}
	return func(a, d int) int16 {
		if b := int(r.home(int32(d))); r.shape.Leaves[a].Pod == r.shape.Leaves[b].Pod {
			return inner[d]
		}
		return lanes[d]
	}
}

// lost notes which block of tables changes as a way of the whole tree is dead.
func (w *baseWays) lost(a, b, d int, way int16) {
	t := w.Tree
	leaf, j, lid := &t.Leaves[t.Hosts[t.Servers[w.Plan.Base[a]]].Leaf], int(way)-len(t.Lanes), t.Hosts[t.Servers[d]].LID+w.offset
	if j < 0 {
		j = t.Lanes[way].Plane
	}
	at := leaf.Node
	if w.shape.Leaves[a].Up[j] && w.shape.Leaves[b].Up[j] {
		at = t.Mid(leaf.Pod, j).Node
	}
	w.sent[w.block(lft.Entry{Node: at, LID: lid})] = true
}

// use gives a unit a way, or takes it from it with −1.
func (w *baseWays) use(a, d int, way int16, uses int16) {
	t := w.Tree
	of, n := w.cablesOf(a, int(w.home(int32(d))), way)
	for _, i := range of[:n] {
		w.load[i] += int32(uses) * int32(w.sends(a, d))
	}
	if w.steps != nil && way != w.whole[a*w.n+d] {
		w.pass(a, d, way, uses)
	}
	set := func(e *entry, is int16) { e.is, e.uses = is, e.uses+uses }
	j := int(way) - len(t.Lanes)
	if j < 0 {
		j = t.Lanes[way].Plane
		set(&w.mid[w.midOf(a, j)*w.n+d], way)
		if top := t.Lanes[way].Top; w.many[top] {
			set(&w.top[top*w.n+d], way)
		}
	}
	set(&w.down[t.MidOf[j]*w.n+d], int16(j))
	if w.way[a*w.n+d] = way; uses < 0 {
		w.way[a*w.n+d] = -1
	}
}

// midOf returns the mid of a leaf's pod on a plane.
func (r *Result) midOf(a, j int) int {
	return r.shape.Leaves[a].Pod*r.Tree.MidsPerPod() + r.Tree.MidOf[j]
}

// excess returns what a unit adds to the cables of a way beyond a fair share, squared.
func (w *baseWays) excess(a, d int, way int16) (excess int64) {
	of, n := w.cablesOf(a, int(w.home(int32(d))), way)
	for _, i := range of[:n] {
		excess += w.over(w.load[i], w.sends(a, d))
	}
	return excess
}

// over returns what more transfers add to a cable with some beyond a fair share, squared.
func (w *baseWays) over(load int32, more int64) int64 {
	over, was := max(0, int64(load)+more-int64(w.fair)), max(0, int64(load)-int64(w.fair))
	return over*over - was*was
}

// podLoads returns the loads of the cables to tops that leave a pod, or with t.Pods more those
// that enter it, by lane.
func (w *baseWays) podLoads(pod int) []int32 {
	lanes := len(w.Tree.Lanes)
	return w.load[2*len(w.shape.Leaves)*w.Tree.Planes+pod*lanes:][:lanes]
}

// blocks returns how many blocks of tables a unit changes by a way.
func (w *baseWays) blocks(a, d int, way int16) (blocks int) {
	w.entries(a, d, way, func(e lft.Entry) {
		if w.usual[e.Node][e.LID] != e.Port && !w.sent[w.block(e)] {
			blocks++
		}
	})
	return blocks
}

// met returns the load of the cables of a unit's way: first in how many steps of the linear
// shift others that have moved pass them too.
func (w *baseWays) met(a, d int, way int16) (load int64) {
	of, n := w.cablesOf(a, int(w.home(int32(d))), way)
	for _, i := range of[:n] {
		load += int64(w.load[i])
		if w.steps == nil {
			continue
		}
		for _, s := range w.steps[i] {
			apart := (d - int(w.Plan.Base[a]+s) + 2*w.n) % w.n
			load += int64(max(0, w.Plan.Group-min(apart, w.n-apart))) << 32
		}
	}
	return load
}

func (w *baseWays) block(e lft.Entry) int { return int(e.Node)*w.window + int(e.LID)/lft.Block }

// entries tells the entries by which a unit goes up.
func (w *baseWays) entries(a, d int, way int16, entry func(lft.Entry)) {
	t := w.Tree
	from, lid := &t.Leaves[t.Hosts[t.Servers[w.Plan.Base[a]]].Leaf], t.Hosts[t.Servers[d]].LID+w.offset
	j := int(way) - len(t.Lanes)
	if j < 0 {
		j = t.Lanes[way].Plane
		mid := t.Mid(from.Pod, j)
		entry(lft.Entry{Node: mid.Node, LID: lid, Port: mid.Cables[way].LeafPort})
	}
	entry(lft.Entry{Node: from.Node, LID: lid, Port: from.Cables[j].LeafPort})
}

// best returns the way that a unit without one may take at the least excess, then the
// fewest blocks, then load, of those that are not barred and have no more excess and blocks
// than another move, if that is one; −1 if none is left.
func (w *baseWays) best(a, d int, than move, barred func(way int16) bool) (best move) {
	t, b, lanes := w.Tree, int(w.home(int32(d))), len(w.Tree.Lanes)
	A, B := &w.shape.Leaves[a], &w.shape.Leaves[b]
	more, outs, ins := w.sends(a, d), w.podLoads(A.Pod), w.podLoads(t.Pods+B.Pod)
	best = move{at: a*w.n + d, way: -1}
	worse := func(excess int64) bool {
		return than.way >= 0 && excess > than.excess || best.way >= 0 && excess > best.excess
	}
	for j := range t.Planes {
		of, _ := w.cablesOf(a, b, int16(lanes+j))
		leaf := w.over(w.load[of[0]], more) + w.over(w.load[of[1]], more)
		if !A.Up[j] || !B.Up[j] || worse(leaf) || !w.down[t.MidOf[j]*w.n+d].allows(int16(j)) {
			continue
		}
		way, end := int16(lanes+j), int16(lanes+j+1)
		if A.Pod != B.Pod {
			way, end = int16(w.shape.First[j]), int16(w.shape.First[j+1])
			if mid := w.mid[w.midOf(a, j)*w.n+d]; mid.uses > 0 {
				way, end = mid.is, mid.is+1
			}
		}
		for ; way < end; way++ {
			m := move{at: best.at, way: way, excess: leaf}
			if A.Pod != B.Pod {
				m.excess += w.over(outs[way], more) + w.over(ins[way], more)
				if top := t.Lanes[way].Top; !w.shape.Up[A.Pod*lanes+int(way)] || !w.shape.Up[B.Pod*lanes+int(way)] || w.many[top] && !w.top[top*w.n+d].allows(way) {
					continue
				}
			}
			if worse(m.excess) {
				continue
			}
			m.blocks = w.blocks(a, d, way)
			if than.way >= 0 && m.excess == than.excess && m.blocks > than.blocks || best.way >= 0 && m.excess == best.excess && m.blocks > best.blocks {
				continue
			}
			if m.load = w.met(a, d, way); m.before(best) && !barred(way) {
				best = m
			}
		}
	}
	return best
}

// move is a way for a unit, and its costs.
type move struct {
	at     int // leaf·n + server
	way    int16
	excess int64
	blocks int
	load   int64
}

// before reports if a move costs less than another, or is one at all.
func (m move) before(than move) bool {
	if m.way < 0 || than.way < 0 {
		return than.way < 0
	}
	return cmp.Or(cmp.Compare(m.excess, than.excess), cmp.Compare(m.blocks, than.blocks), cmp.Compare(m.load, than.load)) < 0
}

// choose gives a unit the way that costs least; it is false if no way is left.
func (w *baseWays) choose(a, d int) bool {
	m := w.best(a, d, move{way: -1}, func(int16) bool { return false })
	if m.way < 0 {
		return false
	}
	w.use(a, d, m.way, 1)
	w.entries(a, d, m.way, func(e lft.Entry) {
		if w.usual[e.Node][e.LID] != e.Port {
			w.sent[w.block(e)] = true
		}
	})
	return true
}

// rounds is how often ways are chosen again, now that all others are known.
const rounds = 6

// spread chooses all ways. It is false where a unit finds none though there is one, for the
// entries of others stand in its way.
func (w *baseWays) spread() bool {
	var late [][2]int
	for a := range w.shape.Leaves {
		for d := range w.n {
			if w.way[a*w.n+d] < 0 && a != int(w.home(int32(d))) && w.reached(a, int(w.home(int32(d)))) {
				late = append(late, [2]int{a, d})
			}
		}
	}
	for _, u := range late {
		if !w.choose(u[0], u[1]) {
			return false
		}
	}
	w.again(late)
	if group, most, least := int32(w.Plan.Group), crowd, tolerance; !w.laned || w.mayTrade() {
		switch {
		case len(w.Tree.Exchanges) > 1: // the ways of the whole tree are none that they would keep
			group, most, least = 1, 1, 1
		case bySingles(w.Result):
			group, most = 1, crowdSingle
		}
		fair := w.fair
		for left := len(w.way) / moreMoves; ; left = max(1, 2*left) {
			w.fair = max(fair+group-1, int32(most*float64(fair))) / group * group
			failed := w.fair - group
			for step := group; !w.relieve(left); step *= 2 {
				failed, w.fair = w.fair, w.fair+step
			}
			for w.fair-failed > group {
				had := w.fair
				if w.fair = failed + (had-failed)/group/2*group; !w.relieve(left) {
					failed, w.fair = w.fair, had
				}
			}
			if group > 1 || float64(w.fair) <= least*float64(fair) || left >= len(w.way) {
				break
			}
		}
	}
	return true
}

// again chooses the ways of units again, as long as that changes any.
func (w *baseWays) again(units [][2]int) {
	for range rounds {
		moved := false
		for _, u := range units {
			way := w.way[u[0]*w.n+u[1]]
			w.use(u[0], u[1], way, -1)
			w.choose(u[0], u[1])
			moved = moved || w.way[u[0]*w.n+u[1]] != way
		}
		if !moved {
			return
		}
	}
}

// reached reports if one leaf has a way to another.
func (w *baseWays) reached(a, b int) bool {
	lanes := len(w.Tree.Lanes)
	for way := range int16(lanes + w.Tree.Planes) {
		if (int(way) >= lanes) == (w.shape.Leaves[a].Pod == w.shape.Leaves[b].Pod) && w.shape.Lives(a, b, way) {
			return true
		}
	}
	return false
}

// moved counts the ways that are not those of the whole tree.
func (w *baseWays) moved() (n int) {
	for at, way := range w.way {
		if way >= 0 && way != w.whole[at] {
			n++
		}
	}
	return n
}

// pins lists the entries of the ways, as Result.entries does.
func (w *baseWays) pins() []iter.Seq[lft.Entry] {
	return w.byPod(func(first, end int, unit func(from, to *topology.PodLeaf, way int16, lid ib.LID) bool) {
		t := w.Tree
		for a := first; a < end; a++ {
			from := &t.Leaves[t.Hosts[t.Servers[w.Plan.Base[a]]].Leaf]
			for d := range w.n {
				h := &t.Hosts[t.Servers[d]]
				if way := w.way[a*w.n+d]; way >= 0 && !unit(from, &t.Leaves[h.Leaf], way, h.LID+w.offset) {
					return
				}
			}
		}
	})
}
