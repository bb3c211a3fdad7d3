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
	p, err := x.podsFirst(ctx, b)
	if err != nil {
		return nil, err
	}
	if p, err = x.squeeze(ctx, p); err == nil {
		p.Trim()
	}
	return p, err
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

// wholeTries is how many numbers of blocks are tried before units may be left out of the
// frame, and someTries how many then.
const (
	wholeTries = 3
	someTries  = 8
)

// podsFirst plans in blocks. It tries the least number, and some more, for a division that
// seats. If there is none it leaves out the units that do not fit and adds them at the end;
// the shortest of these plans is taken.
func (x *instance) podsFirst(ctx context.Context, b Bounds) (*Plan, error) {
	least := x.leastBlocks(b)
	var best *Plan
	for try := range wholeTries + someTries {
		blocks := least + try
		if x.mayDrop = try >= wholeTries; x.mayDrop {
			blocks -= wholeTries
		}
		if best != nil && blocks >= best.Blocks {
			break
		}
		x.blocks = int32(blocks)
		p, err := x.inBlocks(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			p.Bounds, p.Unreachable = b, x.unreachable(x.base)
			if best == nil || p.Blocks < best.Blocks {
				best = p
			}
			if !x.mayDrop {
				return best, nil
			}
		case !errors.Is(err, errSeats) && !errors.Is(err, errDivision):
			return nil, err
		}
	}
	if best == nil {
		return nil, errors.New("plan three levels: no plan was found")
	}
	return best, nil
}

var errDivision = errors.New("the units of the pods cannot be divided over lanes")

// Colourings of a frame are tried while they have no more than tryUnits units in all, and
// at least leastColourings, at most mostColourings of them.
const (
	tryUnits        = 1 << 17
	leastColourings = 2
	mostColourings  = 100
)

// inBlocks plans for the number of blocks at hand.
func (x *instance) inBlocks(ctx context.Context) (*Plan, error) {
	x.setCells()
	d, ok := x.divide(ctx)
	if !ok {
		return nil, errDivision
	}
	var last error
	tries := leastColourings
	for try := 0; try < tries; try++ {
		u, err := x.setBlocks(ctx, d, try)
		if err != nil {
			return nil, fmt.Errorf("set the blocks of a division: %w", err)
		}
		n := len(u.block)
		if tries = max(leastColourings, min(mostColourings, tryUnits/max(1, n))); x.mayDrop {
			tries = 1
		}
		for _, x.sourcesFirst = range []bool{false, true} {
			if (x.group == 1 || x.mayDrop) && !x.sourcesFirst {
				continue
			}
			u.block, u.way, u.p, u.q = u.block[:n], u.way[:n], u.p[:n], u.q[:n]
			if last = x.seat(ctx, d, u); last == nil {
				return x.plan(u), nil
			} else if !errors.Is(last, errSeats) {
				return nil, last
			}
		}
	}
	return nil, last
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
