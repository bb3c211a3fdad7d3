package fors

import "github.com/forsd/forsd/bipartite"

// evictor removes from a phase the transfers in excess of the living lanes of its leaves,
// as few as possible: one from a leaf with too many out to a leaf with too many in counts
// twice. Among equals it takes from the servers that have given least, because a server has
// one transfer a phase in the new phases too.
type evictor struct {
	assigner bipartite.Assigner
	leaf     []int32    // [server]
	living   []int32    // [leaf] lanes that are up
	given    [2][]int32 // [end][server] transfers taken out so far
	over     [2][]int32 // [end][leaf] transfers in excess of living lanes
	best     []Server   // [A·leaves + B] the source to take from, Idle if none
	cost     []int64    // [A·leaves + B]
}

// The costs of an eviction, and of one without a transfer.
const (
	evictCost = 1 << 20
	noCost    = 1 << 34
)

func newEvictor(t *Tree) *evictor {
	n := len(t.Slots)
	w := &evictor{leaf: t.leafOf(), living: make([]int32, n), best: make([]Server, n*n), cost: make([]int64, n*n)}
	for A := range t.Up {
		w.living[A] = int32(commonLanes(t.Up[A], t.Up[A]))
	}
	for end := range w.given {
		w.given[end], w.over[end] = make([]int32, len(w.leaf)), make([]int32, n)
	}
	return w
}

// count sets over and returns the sum of its positive values.
func (w *evictor) count(to []Server) (excess int) {
	w.tally(to, &w.over)
	for end := range w.over {
		for _, x := range w.over[end] {
			excess += int(max(0, x))
		}
	}
	return excess
}

// tally counts the transfers over living lanes of each leaf, at either end.
func (w *evictor) tally(to []Server, over *[2][]int32) {
	for end := range over {
		for A, living := range w.living {
			over[end][A] = -living
		}
	}
	for s, d := range to {
		if d == Idle {
			continue
		}
		if A, B := w.leaf[s], w.leaf[d]; A != B {
			over[outward][A]++
			over[inward][B]++
		}
	}
}

// evict removes transfers from a phase's row until no leaf has more than its living lanes,
// and appends their pairs to out.
func (w *evictor) evict(to []Server, lane []Lane, out []Pair) ([]Pair, error) {
	for w.count(to) > 0 {
		before := len(out)
		w.weigh(to)
		n := len(w.living)
		columns, _, err := w.assigner.Assign(n, w.cost)
		if err != nil {
			return nil, err
		}
		for A, B := range columns {
			s := w.best[A*n+int(B)]
			if s == Idle || w.over[outward][A] <= 0 && w.over[inward][B] <= 0 {
				continue
			}
			w.given[outward][s]++
			w.given[inward][to[s]]++
			out = append(out, Pair{s, to[s]})
			to[s], lane[s] = Idle, Local
		}
		if len(out) == before {
			break // the leaves exceed their lanes in ways that no assignment covers
		}
	}
	return out, nil
}

// weigh sets the costs of taking a transfer out between each two leaves.
func (w *evictor) weigh(to []Server) {
	n := len(w.living)
	for A := range n {
		for B := range n {
			i := A*n + B
			w.best[i], w.cost[i] = Idle, noCost
			if w.over[outward][A] <= 0 && w.over[inward][B] <= 0 {
				w.cost[i] = 0
			}
		}
	}
	for i, d := range to {
		s := Server(i)
		if d == Idle || w.leaf[s] == w.leaf[d] {
			continue
		}
		A, B := int(w.leaf[s]), int(w.leaf[d])
		if w.over[outward][A] <= 0 && w.over[inward][B] <= 0 {
			continue
		}
		cost := evictCost + int64(w.given[outward][s]) + int64(w.given[inward][d])
		if i := A*n + B; cost < w.cost[i] {
			w.best[i], w.cost[i] = s, cost
		}
	}
}
