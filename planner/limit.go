package planner

import (
	"fmt"

	"github.com/forsd/forsd/topology"
)

// DefaultMaxUnreachable is the default of Settings.MaxUnreachable.
const DefaultMaxUnreachable = 0.01

// TooManyUnreachable is the error for a plan that would leave out more pairs than allowed.
type TooManyUnreachable struct {
	Pairs, Of int     // ordered pairs without a lane, of all
	Limit     float64 // the share that is allowed
}

// Error prints the shares.
func (e *TooManyUnreachable) Error() string {
	return fmt.Sprintf("%d of %d ordered pairs of servers (%.2g %%) share no lane, and a plan may leave out %.2g %%: repair the fabric, or raise the limit",
		e.Pairs, e.Of, 100*float64(e.Pairs)/float64(e.Of), 100*e.Limit)
}

// mayPlan returns an error if the living lanes do not join enough servers for a plan.
func (s Settings) mayPlan(t *topology.FatTree) error {
	pairs, of := LaneLess(t)
	return s.MayLeaveOut(pairs, of)
}

// MayLeaveOut returns a TooManyUnreachable error if a plan must not leave out the given
// number of ordered pairs of servers.
func (s Settings) MayLeaveOut(pairs, of int) error {
	limit := DefaultMaxUnreachable
	if s.MaxUnreachable != nil {
		limit = *s.MaxUnreachable
	}
	if float64(pairs) > limit*float64(of) {
		return &TooManyUnreachable{pairs, of, limit}
	}
	return nil
}

// LaneLess counts the ordered pairs of servers of one exchange whose leaves share no lane that is up at
// both, and all pairs. It only visits pairs of leaves.
func LaneLess(t *topology.FatTree) (pairs, of int) {
	exchanges := max(1, len(t.Exchanges))
	on := make([]int, len(t.Leaves)*exchanges)
	for _, i := range t.Servers {
		on[t.Hosts[i].Leaf*exchanges+t.ExchangeOf(&t.Hosts[i])]++
	}
	words := (t.Lanes + 63) / 64
	up := make([]uint64, len(t.Leaves)*words)
	for l := range t.Leaves {
		for k := range t.Lanes {
			if t.LaneUp(l, k) {
				up[l*words+k/64] |= 1 << (k % 64)
			}
		}
	}
	for a := range t.Leaves {
	others:
		for b := range t.Leaves[:a] {
			for w := range words {
				if up[a*words+w]&up[b*words+w] != 0 {
					continue others
				}
			}
			for x := range exchanges {
				pairs += 2 * on[a*exchanges+x] * on[b*exchanges+x]
			}
		}
	}
	return pairs, t.Pairs()
}

// leftOut counts the pairs that the plan leaves out, of all.
func (s *Schedule) leftOut() (pairs, of int) {
	return len(s.Plan.Unreachable), s.Tree.Pairs()
}
