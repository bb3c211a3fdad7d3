package liquid

import (
	"context"
	"math/bits"
	"slices"
)

// bitset is a set of transfers.
type bitset []uint64

func (b bitset) has(x Transfer) bool { return b[x>>6]>>(x&63)&1 != 0 }
func (b bitset) add(x Transfer)      { b[x>>6] |= 1 << (x & 63) }
func (b bitset) drop(x Transfer)     { b[x>>6] &^= 1 << (x & 63) }

func (b bitset) empty() bool {
	for _, w := range b {
		if w != 0 {
			return false
		}
	}
	return true
}

// common is the number of transfers in both sets.
func (b bitset) common(c bitset) int {
	n := 0
	for i, w := range b {
		n += bits.OnesCount64(w & c[i])
	}
	return n
}

// enumerator builds the teams of reduced traffics, each once: first skeletons, the
// teams of the transfers that use bottlenecks, then the transfers that can be added
// to a skeleton (section 3.2 of the paper).
type enumerator struct {
	t        *Traffic
	words    int
	conflict []uint64     // [transfer][words] its neighbours in the conflict graph, and itself
	users    [][]uint64   // [link][words], nil if unused
	weight   []float32    // [transfer] the heaviest are tried first
	team     []Transfer   // chosen so far, by all current teams
	covered  []bool       // [link] used by the current team
	room     [][]uint64   // [level] sets of the recursion
	lists    [][]Transfer // [level] candidates
	level    int
	limit    int64 // nodes after which the enumeration stops
	out      bool  // it did
	nodes    int64 // transfers tried
}

func newEnumerator(t *Traffic) *enumerator {
	e := &enumerator{t: t, words: (t.Len() + 63) / 64, limit: unlimited, users: make([][]uint64, t.Links())}
	e.conflict = make([]uint64, t.Len()*e.words)
	e.weight = make([]float32, t.Len())
	e.covered = make([]bool, t.Links())
	for l := range e.users {
		if t.Load(Link(l)) > 0 {
			e.users[l] = make(bitset, e.words)
			for _, x := range t.Users(Link(l)) {
				bitset(e.users[l]).add(x)
			}
		}
	}
	for x := range t.Len() {
		own := e.congesting(Transfer(x))
		for _, l := range t.Path(Transfer(x)) {
			for w, v := range e.users[l] {
				own[w] |= v
			}
		}
	}
	return e
}

// congesting returns the transfers that congest with x, and x.
func (e *enumerator) congesting(x Transfer) bitset {
	return e.conflict[int(x)*e.words : (int(x)+1)*e.words]
}

// set returns the set of the current level and moves to the next level.
func (e *enumerator) set() bitset {
	if e.level == len(e.room) {
		e.room = append(e.room, make([]uint64, e.words))
		e.lists = append(e.lists, nil)
	}
	e.level++
	return e.room[e.level-1]
}

// without returns the transfers of from that do not congest with x, on a new level.
func (e *enumerator) without(from bitset, x Transfer) bitset {
	s := e.set()
	for w, c := range e.congesting(x) {
		s[w] = from[w] &^ c
	}
	return s
}

// byWeight lists the transfers of a that are also in b, the heaviest first, then by
// number. The list belongs to the current level.
func (e *enumerator) byWeight(a, b bitset) []Transfer {
	list := e.lists[e.level-1][:0]
	for w, v := range a {
		for v &= b[w]; v != 0; v &= v - 1 {
			list = append(list, Transfer(w<<6+bits.TrailingZeros64(v)))
		}
	}
	slices.SortFunc(list, func(x, y Transfer) int {
		switch {
		case e.weight[x] > e.weight[y]:
			return -1
		case e.weight[x] < e.weight[y]:
			return 1
		}
		return int(x - y)
	})
	e.lists[e.level-1] = list
	return list
}

// skeletons calls visit for every skeleton that extends the current team by transfers
// of can, with the transfers that can still be added. It stops and returns true if
// visit does, or if the nodes run out.
func (e *enumerator) skeletons(ctx context.Context, bottlenecks []Link, can bitset, visit func(rest bitset) bool) bool {
	best, fewest := Link(-1), 0
	for _, l := range bottlenecks {
		if e.covered[l] {
			continue
		}
		if n := bitset(e.users[l]).common(can); best < 0 || n < fewest {
			if best, fewest = l, n; n == 0 {
				return false
			}
		}
	}
	if best < 0 {
		return visit(can)
	}
	rest, level := e.set(), e.level
	defer func() { e.level = level - 1 }()
	for _, x := range e.byWeight(can, e.users[best]) {
		for w, c := range e.congesting(x) {
			rest[w] = can[w] &^ c
		}
		if e.choose(ctx, x); e.out || e.skeletons(ctx, bottlenecks, rest, visit) {
			return true
		}
		e.undo(x)
		e.level = level
	}
	return false
}

// choose puts x into the current team.
func (e *enumerator) choose(ctx context.Context, x Transfer) {
	if e.nodes++; e.nodes > e.limit || e.nodes&255 == 0 && ctx.Err() != nil {
		e.out = true
	}
	e.team = append(e.team, x)
	for _, l := range e.t.Path(x) {
		e.covered[l] = true
	}
}

// undo removes x, the last transfer of the current team.
func (e *enumerator) undo(x Transfer) {
	e.team = e.team[:len(e.team)-1]
	for _, l := range e.t.Path(x) {
		e.covered[l] = false
	}
}

// extend calls visit for every way to make the current team full with transfers of
// can: for every maximal set of transfers of can that do not congest, to which no
// transfer of seen can be added. These are the maximal cliques of the complement, each
// found once (Bron and Kerbosch, CACM 16, 1973, with pivots). It stops as skeletons
// does.
func (e *enumerator) extend(ctx context.Context, can, seen bitset, visit func() bool) bool {
	pivot := Transfer(-1)
	for w, v := range can {
		for ; v != 0; v &= v - 1 {
			if x := Transfer(w<<6 + bits.TrailingZeros64(v)); pivot < 0 || e.weight[x] > e.weight[pivot] {
				pivot = x
			}
		}
	}
	if pivot < 0 {
		return seen.empty() && visit()
	}
	for w, v := range seen {
		for ; v != 0; v &= v - 1 {
			if e.congesting(Transfer(w<<6+bits.TrailingZeros64(v))).common(can) == 0 {
				return false // it can be added to every set below, but was tried already
			}
		}
	}
	level := e.level
	defer func() { e.level = level }()
	left, done := e.set(), e.set()
	copy(left, can)
	copy(done, seen)
	for _, x := range e.byWeight(e.congesting(pivot), can) {
		inner := e.level
		more, old := e.without(left, x), e.without(done, x)
		if e.choose(ctx, x); e.out || e.extend(ctx, more, old, visit) {
			return true
		}
		e.undo(x)
		e.level = inner
		left.drop(x)
		done.add(x)
	}
	return false
}

// fullTeams calls visit for every full team of the transfers of alive that contains
// must, unless must is −1. The team is e.team from its length at the call on. It stops
// as skeletons does, and then leaves the current team unchanged.
func (e *enumerator) fullTeams(ctx context.Context, alive bitset, bottlenecks []Link, must Transfer, visit func() bool) bool {
	level := e.level
	defer func() { e.level = level }()
	outer := slices.Clone(e.covered)
	clear(e.covered)
	defer copy(e.covered, outer)
	none := e.set()
	clear(none)
	can := alive
	if must >= 0 {
		can = e.without(alive, must)
		e.choose(ctx, must)
	}
	if e.skeletons(ctx, bottlenecks, can, func(rest bitset) bool { return e.extend(ctx, rest, none, visit) }) {
		return true
	}
	if must >= 0 {
		e.undo(must)
	}
	return false
}
