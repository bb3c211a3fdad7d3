package fors

import (
	"context"
	"math"
	"slices"
)

// removeClashes exchanges slots along alternating paths until no server and no link has two
// transfers in one slot. A clashing transfer moves to a slot in which its server and its
// link are free, together with all edges of both slots on the path through its bin (Kempe),
// so that bins stay as they are. The first exchange that leaves fewer clashes is made; if
// none does, one of the best is made and not undone for a while (tabu). It returns false
// when the work limit is reached.
func (g *destFrame) removeClashes(ctx context.Context, budget *int, most int) (bool, error) {
	g.budget = min(*budget, most)
	*budget -= g.budget
	defer func() { *budget += g.budget }()
	var queue []int32 // places of heard
	for i, x := range g.heard {
		if x > 1 {
			queue = append(queue, int32(i))
		}
	}
	tabu := make([]int32, len(g.heard)) // the turn before which nothing comes back
	for turn, head := int32(1), 0; g.clash > 0 && g.budget > 0; head++ {
		if head == len(queue)/2 && head > 1<<12 {
			queue, head = append(queue[:0], queue[head:]...), 0
		}
		at := queue[head]
		if g.heard[at] < 2 {
			continue
		}
		if turn++; turn&15 == 0 && ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		p := int(at) / len(g.leafOfW)
		q, v := g.exchange(at, tabu, turn)
		if v < 0 {
			queue = append(queue, at)
			g.budget -= g.slots
			continue
		}
		g.walk(p, q, v)
		g.recount(p, q)
		g.swap(p, q)
		tabu[at] = turn + 8 + int32(g.draw(16))
		queue = g.clashing(p, g.clashing(q, append(queue, at)))
	}
	return g.clash == 0, nil
}

// exchange returns the slot to exchange with that of a clash, and the bin from which the
// path leads, −1 if all slots are tabu.
func (g *destFrame) exchange(at int32, tabu []int32, turn int32) (slot int, bin int32) {
	count := len(g.leafOfW)
	p, x := int(at)/count, int(at)%count
	B, start, best := g.leafOfW[x], g.draw(g.slots), math.MaxInt
	slot, bin = -1, -1
	for i := range g.slots {
		q := start + i
		if q >= g.slots {
			q -= g.slots
		}
		if q == p || g.heard[q*count+x] > 0 || tabu[q*count+x] > turn {
			continue
		}
		for v := g.ends[inward].first[B]; v < g.ends[inward].first[B+1]; v++ {
			unit := g.unit[p*g.n+int(v)]
			if unit < 0 || !slices.Contains(g.watched[unit][:], int32(x)) {
				continue
			}
			if !g.walk(p, q, v) {
				continue
			}
			gain := g.gain(p, q)
			if gain < 0 {
				return q, v
			}
			if gain = 2*gain + g.draw(4); gain < best {
				best, slot, bin = gain, q, v
			}
			if g.budget < 0 {
				return slot, bin
			}
		}
	}
	return slot, bin
}

// clashing appends the clashing units of a slot among those of the path.
func (g *destFrame) clashing(slot int, queue []int32) []int32 {
	for _, v := range g.path {
		unit := g.unit[slot*g.n+int(v)]
		if unit < 0 {
			continue
		}
		for _, x := range g.watched[unit] {
			if x >= 0 {
				if at := slot*len(g.leafOfW) + int(x); g.heard[at] > 1 {
					queue = append(queue, int32(at))
				}
			}
		}
	}
	return queue
}

// walk follows the alternating path of the edges of two slots through a right vertex, which
// is a cycle unless the graph is loose. It returns false if exchanging the path would make
// a leaf send more in a slot than it may.
func (g *destFrame) walk(p, q int, start int32) bool {
	leftP, leftQ := g.left[p*g.n:][:g.n], g.left[q*g.n:][:g.n]
	rightP, rightQ := g.right[p*g.n:][:g.n], g.right[q*g.n:][:g.n]
	g.path, g.more = append(g.path[:0], start), [2]int32{-1, -1}
	defer func() { g.budget -= len(g.path) }()
	for u := leftP[start]; u >= 0; u = leftP[g.path[len(g.path)-1]] {
		v := rightQ[u]
		if v == start {
			return true
		}
		if v < 0 {
			g.more[1] = g.ends[outward].Of[u]
			break
		}
		g.path = append(g.path, v)
	}
	last := start
	for u := leftQ[last]; u >= 0; u = leftQ[last] {
		if last = rightP[u]; last < 0 {
			g.more[0] = g.ends[outward].Of[u]
			break
		}
		g.path = append(g.path, last)
	}
	if g.more[0] == g.more[1] {
		g.more = [2]int32{-1, -1}
	}
	for i, slot := range [2]int{p, q} {
		if A := g.more[i]; A >= 0 && int(g.sends[slot*g.leaves+int(A)]) >= g.most[A] {
			return false
		}
	}
	return true
}

// gain returns the change in the number of clashes if slots p and q exchange the path.
func (g *destFrame) gain(p, q int) int {
	was := g.clash
	g.recount(p, q)
	gain := g.clash - was
	heardP, heardQ := g.heardIn(p), g.heardIn(q)
	for _, x := range g.crossing[0] {
		heardP[x]++
		heardQ[x]--
	}
	for _, x := range g.crossing[1] {
		heardP[x]--
		heardQ[x]++
	}
	g.clash = was
	return gain
}

// recount counts the transfers of slots p and q after exchanging the path, and keeps those
// that cross in each direction.
func (g *destFrame) recount(p, q int) {
	unitP, unitQ := g.unit[p*g.n:][:g.n], g.unit[q*g.n:][:g.n]
	heardP, heardQ := g.heardIn(p), g.heardIn(q)
	toQ, toP, clash := g.crossing[0][:0], g.crossing[1][:0], g.clash
	for _, v := range g.path {
		a, b := [2]int32{-1, -1}, [2]int32{-1, -1}
		if unit := unitP[v]; unit >= 0 {
			a = g.watched[unit]
		}
		if unit := unitQ[v]; unit >= 0 {
			b = g.watched[unit]
		}
		for i := range a {
			if a[i] == b[i] {
				continue
			}
			if x := a[i]; x >= 0 {
				clash += cross(&heardP[x], &heardQ[x])
				toQ = append(toQ, x)
			}
			if x := b[i]; x >= 0 {
				clash += cross(&heardQ[x], &heardP[x])
				toP = append(toP, x)
			}
		}
	}
	g.crossing[0], g.crossing[1], g.clash = toQ, toP, clash
}

// cross moves a transfer to another slot's count, and returns the change in the number of
// clashes.
func cross(from, to *uint16) (more int) {
	if *from > 1 {
		more--
	}
	if *to > 0 {
		more++
	}
	*from--
	*to++
	return more
}

// heardIn returns the row of a slot.
func (g *destFrame) heardIn(slot int) []uint16 {
	return g.heard[slot*len(g.leafOfW):][:len(g.leafOfW)]
}

// swap exchanges the edges of the path.
func (g *destFrame) swap(p, q int) {
	leftP, leftQ := g.left[p*g.n:][:g.n], g.left[q*g.n:][:g.n]
	rightP, rightQ := g.right[p*g.n:][:g.n], g.right[q*g.n:][:g.n]
	unitP, unitQ := g.unit[p*g.n:][:g.n], g.unit[q*g.n:][:g.n]
	for _, v := range g.path {
		if u := leftP[v]; u >= 0 {
			rightP[u] = -1
		}
		if u := leftQ[v]; u >= 0 {
			rightQ[u] = -1
		}
	}
	for _, v := range g.path {
		leftP[v], leftQ[v] = leftQ[v], leftP[v]
		unitP[v], unitQ[v] = unitQ[v], unitP[v]
		if u := leftP[v]; u >= 0 {
			rightP[u] = v
		}
		if u := leftQ[v]; u >= 0 {
			rightQ[u] = v
		}
	}
	for i, A := range g.more {
		if A >= 0 {
			to, from := p, q
			if i == 1 {
				to, from = q, p
			}
			g.sends[to*g.leaves+int(A)]++
			g.sends[from*g.leaves+int(A)]--
		}
	}
}

// loosen removes the edges that stand for no transfer, which shortens paths. From then on
// each leaf may send up to most transfers in a slot.
func (g *destFrame) loosen(most []int) {
	g.most, g.sends = most, make([]uint16, g.slots*g.leaves)
	for slot := range g.slots {
		left, right, units := g.left[slot*g.n:][:g.n], g.right[slot*g.n:][:g.n], g.unit[slot*g.n:][:g.n]
		for v, unit := range units {
			if unit < 0 {
				right[left[v]], left[v] = -1, -1
			} else {
				g.sends[slot*g.leaves+int(unit)/len(g.leafOf)]++
			}
		}
	}
}

// draw draws a number below n.
func (g *destFrame) draw(n int) int {
	g.random = g.random*6364136223846793005 + 1442695040888963407
	return int(g.random>>33) % n
}
