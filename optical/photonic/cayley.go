package photonic

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
)

// The effort of the search for Cayley graphs.
const (
	cayleyTries  = 512 // sets tried per topology
	cayleyGroups = 6   // groups kept after the first topology
	cayleyMost   = 12  // topologies; beyond, circulants are as good

	// For more than MaxVaried GPUs, up to maxCayley, only the first groups are tried,
	// fewer for more switches, with fewer sets, and messages are sent whole.
	maxCayley  = 512
	wideGroups = 32 // over the number of switches
	wideTries  = 64
	wideMost   = 4 // topologies
)

// cayley is a sequence of topologies on one group.
type cayley struct {
	group *group
	sets  [][]int32 // [topology][switch]
	hops  []int32   // [class] the fewest over the sequence of topologies
	total int
}

// cayleys is the ladder of Cayley graphs of metacyclic groups for degrees of 2 and
// more. Chunks may wait for the next topology.
type cayleys struct {
	in      *Instance
	race    []*cayley
	best    []*cayley // [topologies−1]
	routes  []*spreader
	rng     *rand.Rand
	scratch []int32
}

func newCayleys(in *Instance) *cayleys {
	return &cayleys{in: in, rng: rand.New(rand.NewPCG(uint64(in.GPUs), uint64(in.Degree))), scratch: make([]int32, in.GPUs)}
}

func (c *cayleys) next(ctx context.Context) (bool, error) {
	d := len(c.best) + 1
	if d > cayleyMost || c.wide() && d > wideMost {
		return false, nil
	}
	if d == 1 {
		groups := metacyclics(c.in.GPUs)
		if c.wide() {
			groups = groups[:min(len(groups), wideGroups/c.in.Degree)]
		}
		for _, g := range groups {
			c.race = append(c.race, &cayley{group: g, hops: none(g.n)})
		}
	}
	for _, y := range c.race {
		if err := c.extend(ctx, y); err != nil {
			return false, err
		}
	}
	slices.SortStableFunc(c.race, func(a, b *cayley) int { return cmp.Compare(a.total, b.total) })
	c.race = c.race[:min(len(c.race), cayleyGroups)]
	if len(c.race) == 0 || c.race[0].total >= far {
		return false, nil
	}
	// The fewest steps do not always load the switches evenly.
	var route *spreader
	var first *cayley
	for _, y := range c.race {
		s, err := y.route(ctx, c.in)
		if err != nil {
			return false, err
		}
		if route == nil || s.longest() < route.longest() {
			first, route = &cayley{y.group, slices.Clone(y.sets), nil, y.total}, s
		}
	}
	c.best, c.routes = append(c.best, first), append(c.routes, route)
	return true, nil
}

// wide reports whether there are too many GPUs for the full search.
func (c *cayleys) wide() bool { return c.in.GPUs > MaxVaried }

// extend adds the topology that lowers the sum of hops most: the best of some sets,
// improved element by element.
func (c *cayleys) extend(ctx context.Context, y *cayley) error {
	n, k := y.group.n, c.in.Degree
	best := make([]int32, k)
	y.total = far * n
	set := make([]int32, k)
	tries := cayleyTries
	if c.wide() {
		tries = wideTries
	}
	all := k == 2 && (n-1)*(n-2)/2 <= 4*cayleyTries
	for a, b, try := int32(1), int32(2), 0; all && int(a) < n-1 || !all && try < tries; try++ {
		if all {
			set[0], set[1] = a, b
			if b++; int(b) == n {
				a, b = a+1, a+2
			}
		} else {
			for i := range set {
				set[i] = 1 + c.rng.Int32N(int32(n-1))
			}
		}
		if _, err := c.try(ctx, y, set, best); err != nil {
			return err
		}
	}
	for again := true; again; {
		again = false
		for i := range set {
			copy(set, best)
			for v := range int32(n - 1) {
				set[i] = v + 1
				better, err := c.try(ctx, y, set, best)
				if err != nil {
					return err
				}
				again = better || again
			}
		}
	}
	y.sets = append(y.sets, best)
	y.group.reach(y.hops, best, false)
	return nil
}

// try keeps a set if it is the best so far.
func (c *cayleys) try(ctx context.Context, y *cayley, set, best []int32) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	copy(c.scratch, y.hops)
	y.group.reach(c.scratch, set, false)
	sum := total(c.scratch)
	if sum >= y.total {
		return false, nil
	}
	y.total = sum
	copy(best, set)
	return true, nil
}

// route returns paths of the classes that balance the load of the switches of each
// topology.
func (y *cayley) route(ctx context.Context, in *Instance) (*spreader, error) {
	s := newSpreader(in, y.group, y.sets, true)
	for x := int32(1); int(x) < y.group.n; x++ {
		s.parts = append(s.parts, part{time: 1, class: x})
	}
	return s, s.run(ctx)
}

// longest is the sum of the loads of the busiest switch of each topology: the hop sum, if
// no switch has to wait for a chunk to arrive.
func (s *spreader) longest() int {
	sum := 0.0
	for i := range s.sets {
		sum += slices.Max(s.load[i*s.k : (i+1)*s.k])
	}
	return int(sum + 0.5)
}

func (c *cayleys) sum() int { return c.routes[len(c.routes)-1].longest() }

// legs returns the paths of all messages over d topologies, by topology.
func (c *cayleys) legs(d int) [][]leg {
	y, k := c.best[d-1], c.in.Degree
	out := make([][]leg, d)
	whole := int32(0)
	if c.wide() {
		whole = Whole
	}
	for _, p := range c.routes[d-1].parts {
		for src := range int32(y.group.n) {
			flow := src*int32(y.group.n) + y.group.mul(src, p.class)
			if c.in.size(int(src), int(flow)%y.group.n) == 0 {
				continue
			}
			at := src
			last := int32(-1)
			for _, h := range p.way {
				t, sw := h.link/int32(k), h.link%int32(k)
				if t != last {
					out[t] = append(out[t], leg{flow: flow, to: whole})
					last = t
				}
				l := &out[t][len(out[t])-1]
				l.links = append(l.links, at*int32(k)+sw)
				at = y.group.mul(at, y.sets[t][sw])
			}
		}
	}
	return out
}

func (c *cayleys) plan(ctx context.Context, d int) (*Plan, error) {
	y := c.best[d-1]
	return c.in.layOut("cayley", y.group, y.sets, nil).pack(ctx, c.in, c.legs(d), never)
}

func (c *cayleys) layout(d int) (*group, [][]int32) {
	return c.best[d-1].group, c.best[d-1].sets
}
