package photonic

// far is the number of hops of a class that is not reached.
const far = 1 << 30

// gcd is the greatest common divisor.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// PaperShifts are the shifts of a cycle of n GPUs in the paper's order (section
// 4.3): the cycle itself, its reverse, those that are again n-cycles, ascending,
// and the rest, ascending. A topology of shift a joins position p to p+a mod n.
func PaperShifts(n int) []int {
	order := []int{1}
	if n > 2 {
		order = append(order, n-1)
	}
	for _, cycles := range []bool{false, true} {
		for a := 2; a < n-1; a++ {
			if (gcd(a, n) > 1) == cycles {
				order = append(order, a)
			}
		}
	}
	return order
}

// PowerSums returns the hop sums of the first 1, 2, … shifts, if each class is
// served by the shift that reaches it in the fewest hops: shift a reaches x in
// the least h with a·h ≡ x mod n, and its rounds cost the sum of all powers in
// use (paper, section 3.1). The first shift must reach all classes.
func PowerSums(n int, shifts []int) []int {
	least := newLeast(n)
	sums := make([]int, len(shifts))
	for i, a := range shifts {
		least.add(a)
		sums[i] = least.sum
	}
	return sums
}

// least holds the fewest hops to each class by the shifts so far.
type least struct {
	hops []int32 // [class]
	sum  int     // of hops, over the classes that are reached
	most int32   // the largest of hops
}

func newLeast(n int) *least {
	l := &least{hops: make([]int32, n), most: far}
	for x := 1; x < n; x++ {
		l.hops[x] = far
	}
	return l
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
	l.sum, l.most = 0, 0
	for _, h := range l.hops {
		l.most = max(l.most, h)
		if h < far {
			l.sum += int(h)
		}
	}
}

// greedyShifts chooses shifts one by one, each for the lowest hop sum; the smallest
// shift breaks ties. The gain of a shift only falls as others are added, so an earlier
// gain is an upper bound, and few have to be recomputed.
type greedyShifts struct {
	least  *least
	Shifts []int
	Sums   []int
	queue  queue[gain]
}

// newGreedy starts with the cycle.
func newGreedy(n int) *greedyShifts {
	g := &greedyShifts{least: newLeast(n)}
	g.add(1)
	for a := 2; a < n; a++ {
		g.queue.push(gain{a, g.least.gain(a)})
	}
	return g
}

func (g *greedyShifts) add(a int) {
	g.least.add(a)
	g.Shifts, g.Sums = append(g.Shifts, a), append(g.Sums, g.least.sum)
}

// next adds one more shift, and reports false if none is left.
func (g *greedyShifts) next() bool {
	if len(g.queue) == 0 {
		return false
	}
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
	return true
}

// GreedyShifts returns d shifts of a cycle of n GPUs, d < n, each chosen for the
// lowest hop sum together with the previous ones.
func GreedyShifts(n, d int) []int {
	g := newGreedy(n)
	for more := true; more && len(g.Shifts) < d; {
		more = g.next()
	}
	return g.Shifts
}

// gain is the saving of a shift: the largest comes first, then the smallest shift.
type gain struct{ shift, gain int }

func (g gain) before(h gain) bool {
	return g.gain > h.gain || g.gain == h.gain && g.shift < h.shift
}
