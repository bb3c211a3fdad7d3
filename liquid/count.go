package liquid

import (
	"context"
	"fmt"
	"math/bits"
)

// Counts holds the number of sets of transfers of each kind that section 3 of the
// paper defines, without the empty set.
type Counts struct {
	Simultaneous int64 `json:"simultaneous"` // no two transfers congest
	Full         int64 `json:"full"`         // simultaneous, and no transfer can be added
	Teams        int64 `json:"teams"`        // simultaneous, and every bottleneck is used
	FullTeams    int64 `json:"full_teams"`   // both
	// Skeletons counts the teams of the transfers that use a bottleneck.
	Skeletons int64 `json:"skeletons"`
}

// Count counts the sets of a traffic one by one, which is feasible only for small
// traffics. It fails if there are more than limit of a kind, if the context ends, and
// on more than 8192 transfers.
func Count(ctx context.Context, t *Traffic, limit int64) (Counts, error) {
	var n Counts
	if t.Len() > maxSearched {
		return n, fmt.Errorf("count the teams of %d transfers: at most %d are possible", t.Len(), maxSearched)
	}
	if t.Len() == 0 {
		return n, nil
	}
	c := &counter{enumerator: newEnumerator(t), most: limit}
	all, none := c.set(), c.set()
	clear(all)
	clear(none)
	for x := range t.Len() {
		all.add(Transfer(x))
	}
	over := false
	n.Simultaneous = c.within(ctx, all) - 1
	c.extend(ctx, all, none, func() bool { n.Full++; over = n.Full > limit; return over })
	bottlenecks := t.Bottlenecks()
	c.reset()
	c.skeletons(ctx, bottlenecks, all, func(rest bitset) bool {
		n.Skeletons++
		n.Teams += c.within(ctx, rest)
		over = over || c.out || n.Teams > limit
		return over
	})
	c.reset()
	c.fullTeams(ctx, all, bottlenecks, -1, func() bool { n.FullTeams++; over = over || n.FullTeams > limit; return over })
	if err := ctx.Err(); err != nil {
		return n, fmt.Errorf("count the teams of %d transfers: %w", t.Len(), err)
	}
	if over || c.out {
		return n, fmt.Errorf("count the teams of %d transfers: there are more than %d sets of a kind", t.Len(), limit)
	}
	return n, nil
}

// counter counts the sets of an enumerator.
type counter struct {
	*enumerator
	most int64
}

// reset clears the current team. The two sets of Count stay.
func (c *counter) reset() {
	c.team, c.level = c.team[:0], 2
	clear(c.covered)
}

// within is the number of subsets of can without congestion, including the empty one.
// It gives up and sets out beyond the limit.
func (c *counter) within(ctx context.Context, can bitset) int64 {
	n := int64(1)
	level := c.level
	defer func() { c.level = level }()
	left := c.set()
	copy(left, can)
	inner := c.level
	for w := range left {
		for left[w] != 0 && !c.out {
			x := Transfer(w<<6 + bits.TrailingZeros64(left[w]))
			left.drop(x)
			n += c.within(ctx, c.without(left, x)) // those whose first transfer is x
			c.level = inner
			if n > c.most || ctx.Err() != nil {
				c.out = true
			}
		}
	}
	return n
}
