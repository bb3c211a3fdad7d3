package fors

import (
	"context"
	"slices"
)

// groupSize returns the group size with the fewest phases by counting, of those that the
// given LIDs per server allow. Smaller groups are not always better: if they do not divide
// a leaf evenly, each leaf has a small one that costs its receivers as many blocks as a
// full one.
func (n *net) groupSize(ctx context.Context, b Bounds, lids int) (int, error) {
	most := slices.Max(n.size)
	if lids == 1 {
		return most, nil
	}
	size, phases := 0, 0
	for g := ceilDiv(most, lids); g <= most; g++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		least := b.LowerBound
		if g > 1 {
			n.setGroups(g)
			least = g * n.leastBlocks(g)
		}
		if size == 0 || least < phases {
			size, phases = g, least
		}
	}
	n.units = n.size
	return size, nil
}

// setGroups splits the senders of each leaf into groups of g.
func (n *net) setGroups(g int) {
	n.units = make([]int, n.leaves)
	for A, size := range n.size {
		n.units[A] = ceilDiv(size, g)
	}
}

// planSingles plans for groups of one server: LID h of a destination belongs to the h-th
// senders of all leaves.
func planSingles(ctx context.Context, t *Tree, n *net, b Bounds, workers int) (*Grouped, error) {
	plan, err := planExact(ctx, t, b, workers)
	if err != nil {
		return nil, err
	}
	p := &Grouped{Plan: plan, LIDs: slices.Max(n.size), GroupSize: 1, LeastPhases: plan.LowerBound}
	p.Group = make([]int, p.Servers)
	p.Via = make([]Lane, len(t.Slots)*p.Servers*p.LIDs)
	for i := range p.Via {
		p.Via[i] = Local
	}
	leafOf := make([]int, p.Servers)
	s := 0
	for leaf, slots := range t.Slots {
		for i := range slots {
			p.Group[s], leafOf[s] = i, leaf
			s++
		}
	}
	for i, d := range p.To {
		if s := i % p.Servers; d != Idle {
			p.Via[(leafOf[s]*p.Servers+int(d))*p.LIDs+p.Group[s]] = p.Lane[i]
		}
	}
	return p, nil
}

// leastBlocks returns the least number of blocks that counting allows for the groups set:
// by server, by leaf, and by the lanes of a leaf, out and in.
func (n *net) leastBlocks(g int) int {
	least, even := 0, true
	sets := make([]LaneSet, n.leaves)
	for A := range n.leaves {
		groups, reached := 0, 0
		for B := range n.leaves {
			if n.joined(A, B) {
				groups, reached = groups+n.units[B], reached+n.size[B]
			}
		}
		least = max(least, groups, ceilDiv(reached, g))
		even = even && n.size[A] == n.size[0]
		sets[A] = NewLaneSet(n.lanes)
		for k, up := range n.lanesOf(A) {
			if up {
				sets[A].Add(k)
			}
		}
	}
	least = n.leastFlow(sets, n.units, n.size, least)
	if even {
		return least // the same in both directions
	}
	return n.leastFlow(sets, n.size, n.units, least)
}

// leastFlow returns the larger of least and the fewest blocks in which the lanes of each
// leaf A carry own[A]·peer[B] units with every leaf B.
func (n *net) leastFlow(sets []LaneSet, own, peer []int, least int) int {
	var flow LaneFlow
	flow.Reset(n.lanes)
	for A := range n.leaves {
		twin := slices.ContainsFunc(sets[:A], func(s LaneSet) bool { return slices.Equal(s, sets[A]) }) && n.exchange == nil
		if twin && slices.Min(n.size) == slices.Max(n.size) {
			continue
		}
		flow.Clear()
		for B := range n.leaves {
			if A != B && n.sameExchange(A, B) && flow.common(sets[A], sets[B], nil) {
				flow.add(own[A] * peer[B])
			}
		}
		least = flow.Least(least)
	}
	return least
}
