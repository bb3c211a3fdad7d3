package bipartite

import "math/bits"

const (
	// loanLimit is the degree up to which halves borrow matchings.
	loanLimit = 512
	// searchCost is what a perfect matching costs to find, and lendCost to lend,
	// in edges halved for each vertex.
	searchCost = 24
	lendCost   = 3
)

// loans tells for each degree of a half how many matchings it should borrow from
// its twin, which is coloured already (after Gabow and Kariv, who borrow up to a
// power of two): a matching borrowed has to be split off again, but a degree with
// many factors of two needs few searches.
var loans = func() (best [loanLimit + 1]uint16) {
	var cost [2*loanLimit + 1]int
	for d := 1; d < len(cost); d++ {
		switch {
		case d == 1:
			cost[d] = 1
		case d%2 != 0:
			cost[d] = searchCost + cost[d-1]
		default:
			half := d / 2
			least := cost[half]
			for step := 2; step/2 < half; step *= 2 {
				b := -half & (step - 1) // up to a multiple of step
				if c := cost[half+b] + lendCost*b; half+b <= 1<<room(half) && b <= half && c < least {
					least, best[half] = c, uint16(b)
				}
			}
			cost[d] = d + cost[half] + least
		}
	}
	return best
}()

// loan is how many matchings a half of some degree should borrow.
func loan(degree int) int {
	if degree > loanLimit {
		return 0
	}
	return int(loans[degree])
}

// room is the least k with 1<<k at least degree.
func room(degree int) uint { return uint(bits.Len(uint(degree - 1))) }
