package pods

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// Singles and WholeLeaves are sizes of groups that Make understands besides numbers.
const (
	Singles     = 1
	WholeLeaves = 0
)

// Make plans the complete exchange for groups of so many servers. The linear shift is
// taken where the tree is undamaged and it reaches the bound of such groups; single
// senders are planned leaves first where every plane has tops enough that all pods share.
// Everything else is planned pods first. Pairs without a way are left out and listed.
// Make fails where the tree contradicts itself, and soon after ctx ends.
func Make(ctx context.Context, t *Tree, group int) (*Plan, error) {
	return makePlan(ctx, t, group, runtime.GOMAXPROCS(0), true)
}

// MakeBlocks plans as Make does, but never by the shift.
func MakeBlocks(ctx context.Context, t *Tree, group int) (*Plan, error) {
	return makePlan(ctx, t, group, runtime.GOMAXPROCS(0), false)
}

func makePlan(ctx context.Context, t *Tree, group, workers int, mayShift bool) (*Plan, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	most := 0
	for i := range t.Leaves {
		most = max(most, len(t.Leaves[i].Slots))
	}
	if group <= 0 || group > most {
		group = max(1, most)
	}
	b := ComputeBounds(t)
	if p := LinearShift(t, b); p != nil && mayShift && (group > 1 || p.Gap() == 0) {
		return p, nil
	}
	x := newInstance(t, group, workers)
	if group == 1 {
		if p, err := x.leavesFirst(ctx, b); p != nil && p.Gap() == 0 || err != nil {
			return p, err
		}
	}
	return x.podsFirst(ctx, b)
}

func newInstance(t *Tree, group, workers int) *instance {
	x := &instance{Tree: t, reach: newReach(t), group: int32(group), workers: max(1, workers), planeOf: t.planeOf()}
	for a := range t.Leaves {
		x.base = append(x.base, int32(len(x.homeOf)))
		for range t.Leaves[a].Slots {
			x.homeOf = append(x.homeOf, int32(a))
		}
	}
	x.base = append(x.base, int32(len(x.homeOf)))
	return x
}

// leastBlocks returns a lower bound on the blocks of any plan of such groups: by the bound,
// by the groups that send to one server, and by the units of leaves and pods over living
// cables.
func (x *instance) leastBlocks(b Bounds) int {
	g := int(x.group)
	least := ceilDiv(b.LowerBound, g)
	groups := func(a int) int { return ceilDiv(len(x.Leaves[a].Slots), g) }
	sends, planes := make([]int, x.Pods), x.Planes()
	tops := make([]int, x.Pods)
	for a := range x.Leaves {
		A := &x.Leaves[a]
		heard, out, in, up := 0, 0, 0, 0
		for b := range x.Leaves {
			if !x.ok(a, b) {
				continue
			}
			heard += groups(b)
			if a != b {
				out += groups(a) * len(x.Leaves[b].Slots)
				in += groups(b) * len(A.Slots)
			}
			if A.Pod != x.Leaves[b].Pod {
				sends[A.Pod] += groups(a) * len(x.Leaves[b].Slots)
			}
		}
		for j := range planes {
			if A.Up[j] {
				up++
			}
		}
		least = max(least, heard)
		if up > 0 {
			least = max(least, ceilDiv(max(out, in), up))
		}
	}
	for p := range x.Pods {
		for k := range x.Lanes() {
			if x.laneUp(p, k) {
				tops[p]++
			}
		}
		if tops[p] > 0 {
			least = max(least, ceilDiv(sends[p], tops[p]))
		}
	}
	return max(1, least)
}

// blockTries is how many numbers of blocks are tried.
const blockTries = 3

// podsFirst plans in blocks. It tries the least number, and some more, for a division that
// seats. If there is none, or the plan is small, units are packed one by one too.
func (x *instance) podsFirst(ctx context.Context, b Bounds) (p *Plan, err error) {
	least := x.leastBlocks(b)
	for x.blocks = int32(least); p == nil && int(x.blocks) < least+blockTries; x.blocks++ {
		p, err = x.inBlocks(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil && !errors.Is(err, errSeats) && !errors.Is(err, errDivision) {
			return nil, err
		}
	}
	if x.group == 1 {
		least = b.LowerBound // a server's turn at itself takes no phase
	}
	if p, err = x.packed(ctx, p, least); err != nil {
		return nil, err
	}
	p.Bounds, p.Unreachable = b, x.unreachable(x.base)
	p.Trim()
	return p, nil
}

var errDivision = errors.New("the units of the pods cannot be divided over lanes")

// inBlocks plans for the number of blocks at hand.
func (x *instance) inBlocks(ctx context.Context) (*Plan, error) {
	x.setCells()
	d, ok := x.divide(ctx)
	if !ok {
		return nil, errDivision
	}
	u, err := x.setBlocks(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("set the blocks of a division: %w", err)
	}
	n := len(u.block)
	for _, x.sourcesFirst = range []bool{x.group == 1, true} {
		u.block, u.way, u.p, u.q = u.block[:n], u.way[:n], u.p[:n], u.q[:n]
		if err = x.seat(ctx, d, u); err == nil {
			return x.plan(u), nil
		} else if !errors.Is(err, errSeats) || x.group == 1 {
			break
		}
	}
	return nil, err
}

// plan lays the units out.
func (x *instance) plan(u *units) *Plan {
	p := &Plan{Engine: Pods, Group: int(x.group), Blocks: int(x.blocks), Base: x.base, First: make([]int32, len(x.Leaves)+1)}
	for a := range x.Leaves {
		p.First[a+1] = p.First[a] + x.cells[x.cellOf[a]].s*x.group
	}
	slots := int(p.First[len(x.Leaves)])
	p.To, p.Way = make([]int32, slots*p.Blocks), make([]int16, slots*p.Blocks)
	for i := range p.To {
		p.To[i], p.Way[i] = Idle, -1
	}
	for i, block := range u.block {
		a := u.src[i]
		row := int(block)*slots + int(p.First[a]) + int(u.group[i])*p.Group
		for p.To[row] != Idle {
			row++
		}
		p.To[row] = u.to[i]
		if a != u.dst[i] {
			p.Way[row] = u.way[i]
		}
	}
	return p
}
