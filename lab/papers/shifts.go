package papers

import "slices"

// far is the number of hops of a class that is not reached.
const far = 1 << 30

// gcd is the greatest common divisor.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// PaperShifts are the shifts of a cycle of n GPUs in the order of the paper on
// reconfigurable photonics (section 4.3): the cycle itself, its reverse, those that are
// again n-cycles, ascending, and the rest, ascending.
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

// Theorem1 is the paper's lower bound on the hop sum of d topologies of degree 1, if each
// message stays within one: d·q(q+1)/2 + u(q+1) with q = ⌊(n−1)/d⌋ and u = (n−1) mod d.
func Theorem1(n, d int) int {
	q, u := (n-1)/d, (n-1)%d
	return d*q*(q+1)/2 + u*(q+1)
}

// PowerSums returns the hop sums of the first 1, 2, … shifts, if each class is served by the
// shift that reaches it in the fewest hops: shift a reaches x in the least h with
// a·h ≡ x mod n (section 3.1). The first shift must reach all classes.
func PowerSums(n int, shifts []int) []int {
	var l fewest
	sums := make([]int, len(shifts))
	for i, a := range shifts {
		l.add(n, a)
		sums[i] = l.sum
	}
	return sums
}

// fewest are the fewest hops to each class by some shifts.
type fewest struct {
	hops []int // [class]
	sum  int
	most int
}

func (l *fewest) add(n, a int) {
	if l.hops == nil {
		l.hops, l.most = slices.Repeat([]int{far}, n), far
		l.hops[0] = 0
	}
	for x, h := a%n, 1; x != 0 && h < l.most; x, h = (x+a)%n, h+1 {
		l.hops[x] = min(l.hops[x], h)
	}
	l.sum, l.most = 0, slices.Max(l.hops)
	for _, h := range l.hops {
		l.sum += h
	}
}

// gain is the reduction of the sum by one more shift.
func (l *fewest) gain(n, a int) (sum int) {
	for x, h := a, 1; x != 0 && h < l.most; h++ {
		sum += max(0, l.hops[x]-h)
		if x += a; x >= n {
			x -= n
		}
	}
	return sum
}

// GreedyShifts returns d shifts of a cycle of n GPUs, d < n, each chosen for the lowest hop
// sum together with the previous ones; the smallest breaks ties. The gain of a shift only
// falls as others are added, so that an earlier gain is an upper bound.
func GreedyShifts(n, d int) []int {
	var l fewest
	l.add(n, 1)
	shifts, gains := []int{1}, make([]int, n) // [shift] −1 if chosen
	gains[0], gains[1] = -1, -1
	for a := 2; a < n; a++ {
		gains[a] = l.gain(n, a)
	}
	for len(shifts) < d {
		a := 0
		for {
			top := slices.Index(gains, slices.Max(gains))
			if top == a {
				break // still the largest when computed again
			}
			a = top
			gains[a] = l.gain(n, a)
		}
		l.add(n, a)
		shifts, gains[a] = append(shifts, a), -1
	}
	return shifts
}
