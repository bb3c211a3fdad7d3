package photonic

import "slices"

// least holds the fewest hops to each class by the shifts so far.
type least struct {
	hops []int32 // [class]
	most int32   // the largest of hops
}

// gain is the reduction of the sum by one more shift, once all classes are reached.
func (l *least) gain(a int) int {
	n, sum := len(l.hops), 0
	for x, h := a, int32(1); x != 0 && h < l.most; h++ {
		sum += int(max(0, l.hops[x]-h))
		if x += a; x >= n {
			x -= n
		}
	}
	return sum
}

// add adds a shift.
func (l *least) add(a int) {
	n := len(l.hops)
	for x, h := a%n, int32(1); x != 0 && h < l.most; h++ {
		l.hops[x] = min(l.hops[x], h)
		x = (x + a) % n
	}
	l.most = slices.Max(l.hops)
}

// greedyShifts chooses shifts one by one, each for the lowest hop sum; the smallest
// shift breaks ties. The gain of a shift only falls as others are added, so an earlier
// gain is an upper bound, and few have to be recomputed.
type greedyShifts struct {
	least  *least
	Shifts []int
	queue  queue[gain]
}

// newGreedy starts with the cycle.
func newGreedy(n int) *greedyShifts {
	g := &greedyShifts{least: &least{hops: none(n), most: far}}
	g.add(1)
	for a := 2; a < n; a++ {
		g.queue.push(gain{a, g.least.gain(a)})
	}
	return g
}

func (g *greedyShifts) add(a int) {
	g.least.add(a)
	g.Shifts = append(g.Shifts, a)
}

// next adds one more shift of those left.
func (g *greedyShifts) next() {
	for {
		top := &g.queue[0]
		now := g.least.gain(top.shift)
		if now == top.gain {
			break
		}
		top.gain = now
		g.queue.sink()
	}
	g.add(g.queue.pop().shift)
}

// gain is the saving of a shift: the largest comes first, then the smallest shift.
type gain struct{ shift, gain int }

func (g gain) before(h gain) bool {
	return g.gain > h.gain || g.gain == h.gain && g.shift < h.shift
}
