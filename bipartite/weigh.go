package bipartite

import (
	"context"
	"fmt"
	"math"
)

// Weigher finds matchings of largest weight in sparse bipartite graphs, by
// shortest augmenting paths with potentials (Jonker and Volgenant, Computing 38,
// 1987), where a vertex may stay unmatched. Arithmetic is on integers, so the
// result is exact. It keeps its scratch memory from call to call. The zero value
// is ready for use; a Weigher must not be used by two goroutines at once.
//
// Potentials keep value(u) + price(v) ≥ weight(u, v), with equality on matched
// edges and 0 on unmatched vertices, which proves the matching to be heaviest.
type Weigher struct {
	pick    []int32 // [left] its edge, −1 if none
	ofRight []int32 // [right] its partner, −1 if none
	value   []int64 // [left] potential
	price   []int64 // [right] potential
	gain    []int64 // [edge] weight plus the bonus for coverage
	free    []int32 // left vertices still to be matched

	start, edges, origin []int32 // the graph of Cover, and the caller's places of its edges

	round    int32
	seen     []int32 // [right] the last round that reached it
	distance []int64 // [right] from the root, in reduced weight
	from     []int32 // [right] the edge that it was reached by
	by       []int32 // [right] the left vertex of that edge
	heap     []reached
	scanned  []reached // right vertices whose distance is final
}

// reached is a right vertex and its distance from the root.
type reached struct {
	distance int64
	right    int32
}

// Coverage lists the vertices that a matching must cover, each by one of the edges
// marked for its side.
type Coverage struct {
	Left, Right       []bool // [vertex]
	ForLeft, ForRight []bool // [edge]
}

// Match finds a matching of largest weight of a bipartite graph with some right vertices;
// the neighbours of left vertex u are edges[start[u]:start[u+1]], and weight goes with
// edges. It returns the index in edges of the edge of each left vertex, −1 if none; the next
// call overwrites the result. No weight may be negative or exceed 2^60 divided by the number
// of left vertices. Edges and starts out of range make it panic. It fails with ctx.Err() soon
// after ctx ends.
func (w *Weigher) Match(ctx context.Context, right int, start, edges []int32, weight []int64) (pick []int32, err error) {
	if _, err := heaviest(start, weight, 1); err != nil {
		return nil, err
	}
	copy(grow(&w.gain, len(weight)), weight)
	clear(grow(&w.price, right))
	return w.match(ctx, right, start, edges)
}

// Cover is Match among the matchings that satisfy c. It fails if there is none, and if a
// weight exceeds 2^58 divided by the square of the number of left vertices. It starts from
// the prices of the previous call if these are of use, and the choice among several
// heaviest matchings may depend on them.
func (w *Weigher) Cover(ctx context.Context, right int, start, edges []int32, weight []int64, c Coverage) (pick []int32, err error) {
	most, err := heaviest(start, weight, 4*int64(len(start)))
	if err != nil {
		return nil, err
	}
	// Covering a vertex outweighs all weights.
	w.restrict(start, edges, weight, most*int64(len(start))+1, c)
	fresh := len(w.price) != right
	for v := range grow(&w.price, right) {
		if fresh || !c.Right[v] {
			w.price[v] = 0
		}
	}
	if pick, err = w.match(ctx, right, w.start, w.edges); err != nil {
		return nil, err
	}
	for v, u := range w.ofRight {
		if u < 0 && w.price[v] > 0 { // a price of the previous call: the proof does not hold
			clear(w.price)
			if pick, err = w.match(ctx, right, w.start, w.edges); err != nil {
				return nil, err
			}
			break
		}
	}
	for u, e := range pick {
		if e >= 0 {
			pick[u] = w.origin[e]
		}
	}
	for u, must := range c.Left {
		if must && (pick[u] < 0 || !c.ForLeft[pick[u]]) {
			return nil, fmt.Errorf("match %d by %d vertices: no matching covers left vertex %d and the others", len(start)-1, right, u)
		}
	}
	for v, must := range c.Right {
		if u := w.ofRight[v]; must && (u < 0 || !c.ForRight[pick[u]]) {
			return nil, fmt.Errorf("match %d by %d vertices: no matching covers right vertex %d and the others", len(start)-1, right, v)
		}
	}
	return pick, nil
}

// restrict makes the graph that Cover matches, without the edges that would leave
// one of their ends uncovered.
func (w *Weigher) restrict(start, edges []int32, weight []int64, bonus int64, c Coverage) {
	grow(&w.start, len(start)+1)
	w.start = append(w.start[:0], 0)
	w.edges, w.origin, w.gain = grow(&w.edges, len(edges))[:0], grow(&w.origin, len(edges))[:0], grow(&w.gain, len(edges))[:0]
	for u := range max(0, len(start)-1) {
		for e := start[u]; e < start[u+1]; e++ {
			gain, left, right := weight[e], c.Left[u], c.Right[edges[e]]
			if left && !c.ForLeft[e] || right && !c.ForRight[e] {
				continue
			}
			if left {
				gain += bonus
			}
			if right {
				gain += bonus
			}
			if gain > 0 {
				w.edges, w.origin, w.gain = append(w.edges, edges[e]), append(w.origin, e), append(w.gain, gain)
			}
		}
		w.start = append(w.start, int32(len(w.edges)))
	}
}

// heaviest returns the largest weight, if that many times it stays within 64 bits.
func heaviest(start []int32, weight []int64, times int64) (int64, error) {
	limit := int64(math.MaxInt64>>3) / (times * int64(len(start)+1))
	most := int64(0)
	for e, x := range weight {
		if x < 0 || x > limit {
			return 0, fmt.Errorf("match %d left vertices: edge %d has weight %d, want 0 to %d", len(start)-1, e, x, limit)
		}
		most = max(most, x)
	}
	return most, nil
}

// match finds a matching of largest gain, if in the end every right vertex with a
// price has a partner.
func (w *Weigher) match(ctx context.Context, right int, start, edges []int32) ([]int32, error) {
	n := max(0, len(start)-1)
	for u := range grow(&w.pick, n) {
		w.pick[u] = -1
	}
	for v := range grow(&w.ofRight, right) {
		w.ofRight[v] = -1
	}
	grow(&w.value, n)
	grow(&w.distance, right)
	grow(&w.from, right)
	grow(&w.by, right)
	clear(grow(&w.seen, right))
	w.round = 0
	w.bid(n, start, edges)
	for i, u := range w.free {
		if i&15 == 0 && ctx.Err() != nil {
			clear(w.price) // a later call of Cover begins with none
			return nil, ctx.Err()
		}
		w.augment(start, edges, u)
	}
	return w.pick, nil
}

// maxBids ends a price war.
const maxBids = 8

// bid matches most left vertices as in an auction: each takes the right vertex with the
// largest gain, and raises its price until another one gains as much. A left vertex that
// loses its partner bids again immediately, up to maxBids in a row: without a limit, too
// many bidders for too few vertices would raise prices bit by bit.
func (w *Weigher) bid(n int, start, edges []int32) {
	free := w.free[:0]
	for u := range int32(n) {
		bids := 0
		for at := u; ; {
			first, second, e := int64(0), int64(0), int32(-1)
			for i := start[at]; i < start[at+1]; i++ {
				if g := w.gain[i] - w.price[edges[i]]; g > first {
					first, second, e = g, first, i
				} else if g > second {
					second = g
				}
			}
			w.value[at] = first
			if e < 0 {
				break // No vertex is worth its price: it stays unmatched.
			}
			v := edges[e]
			last := w.ofRight[v]
			if last >= 0 && (first == second || bids == maxBids) {
				free = append(free, at)
				break
			}
			w.value[at] = second
			w.price[v] += first - second
			w.pick[at], w.ofRight[v] = e, at
			if last < 0 {
				break
			}
			bids++
			w.pick[last] = -1
			at = last
		}
	}
	w.free = free
}

// augment matches one more left vertex along a shortest path (Dijkstra), or leaves it or
// another one unmatched if that is better.
func (w *Weigher) augment(start, edges []int32, root int32) {
	w.round++
	w.heap, w.scanned = w.heap[:0], w.scanned[:0]
	best, end, loser := int64(math.MaxInt64), int32(-1), int32(-1) // the cheapest end: a free right vertex, or a left one that loses its own
	for u, d := root, int64(0); ; {
		if x := d + w.value[u]; x < best {
			best, end, loser = x, -1, u
		}
		for e := start[u]; e < start[u+1]; e++ {
			v := edges[e]
			x := d + w.value[u] + w.price[v] - w.gain[e]
			if x >= best || w.seen[v] == w.round && x >= w.distance[v] {
				continue
			}
			w.seen[v], w.distance[v], w.from[v], w.by[v] = w.round, x, e, u
			if w.ofRight[v] < 0 {
				best, end, loser = x, v, -1
			} else {
				w.push(reached{x, v})
			}
		}
		next, ok := w.pop(best)
		if !ok {
			break
		}
		w.scanned = append(w.scanned, next)
		u, d = w.ofRight[next.right], next.distance
	}
	w.value[root] -= best
	for _, r := range w.scanned {
		w.price[r.right] += best - r.distance
		w.value[w.ofRight[r.right]] -= best - r.distance
	}
	w.retrace(edges, root, end, loser)
}

// retrace matches along the path from the root to a free right vertex or to the
// left vertex that loses its own.
func (w *Weigher) retrace(edges []int32, root, end, loser int32) {
	if loser == root {
		return
	}
	if loser >= 0 {
		end = edges[w.pick[loser]]
		w.pick[loser] = -1
	}
	for v := end; ; {
		u := w.by[v]
		before := w.pick[u]
		w.pick[u], w.ofRight[v] = w.from[v], u
		if u == root {
			return
		}
		v = edges[before]
	}
}

// push puts a right vertex on the heap.
func (w *Weigher) push(r reached) {
	w.heap = append(w.heap, r)
	h := w.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].distance <= r.distance {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = r
}

// pop takes the nearest right vertex off the heap, if it is nearer than a limit.
// It skips entries for which a shorter path was found.
func (w *Weigher) pop(limit int64) (reached, bool) {
	h := w.heap
	for len(h) > 0 && h[0].distance < limit {
		top := h[0]
		last := h[len(h)-1]
		h = h[:len(h)-1]
		i := 0
		for len(h) > 0 {
			down := 2*i + 1
			if down >= len(h) {
				break
			}
			if down+1 < len(h) && h[down+1].distance < h[down].distance {
				down++
			}
			if h[down].distance >= last.distance {
				break
			}
			h[i], i = h[down], down
		}
		if len(h) > 0 {
			h[i] = last
		}
		if top.distance == w.distance[top.right] {
			w.heap = h
			return top, true
		}
	}
	w.heap = h
	return reached{}, false
}
