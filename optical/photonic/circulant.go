package photonic

import (
	"cmp"
	"context"
	"slices"
)

// A circulant topology has k offsets and, like a cycle, routes messages by class.

// routing is the number of hops of each class over each offset of some circulants.
type routing struct {
	n, k    int
	offsets []int   // k of each topology, one topology after another
	count   []int32 // [class][offset]
	load    []int   // [offset] hops of all classes
}

func newRouting(n, k int, offsets []int) *routing {
	return &routing{n, k, offsets, make([]int32, n*len(offsets)), make([]int, len(offsets))}
}

// of returns the hops of a class.
func (r *routing) of(class int) []int32 {
	g := len(r.offsets)
	return r.count[class*g : (class+1)*g]
}

// set replaces the hops of a class.
func (r *routing) set(class int, hops []int32) {
	for i, h := range hops {
		at := &r.count[class*len(hops)+i]
		r.load[i] += int(h - *at)
		*at = h
	}
}

// length is the number of hops that a topology takes: those over its busiest switch or
// those of its longest class, whichever are more.
func (r *routing) length(topology int) int {
	first := topology * r.k
	longest := slices.Max(r.load[first : first+r.k])
	for x := 1; x < r.n; x++ {
		job := 0
		for _, h := range r.of(x)[first : first+r.k] {
			job += int(h)
		}
		longest = max(longest, job)
	}
	return longest
}

// topologies is their number.
func (r *routing) topologies() int { return len(r.offsets) / r.k }

// sum is the hop sum.
func (r *routing) sum() int {
	sum := 0
	for i := range r.topologies() {
		sum += r.length(i)
	}
	return sum
}

// uneven returns the objectives of balance: the sum of the loads of the busiest switches,
// and then the squares of all loads.
func (r *routing) uneven() (sum, squares int) {
	for i := 0; i < len(r.load); i += r.k {
		sum += slices.Max(r.load[i : i+r.k])
	}
	for _, l := range r.load {
		squares += l * l
	}
	return sum, squares
}

// carryRouting reaches all classes in the fewest steps over all offsets, with waiting,
// and then balances the loads of the switches of each topology. Offsets of similar loads
// share a topology.
func carryRouting(ctx context.Context, n, k int, offsets []int) (*routing, error) {
	r := newRouting(n, k, offsets)
	st := newStages(n, offsets, nil)
	hops := make([]int32, len(offsets))
	for x := 1; x < n; x++ {
		st.split(offsets, x, hops)
		r.set(x, hops)
	}
	if k == 1 {
		return r, nil
	}
	r.regroup()
	return r, r.balance(ctx)
}

// regroup orders the offsets by load.
func (r *routing) regroup() {
	order := make([]int, len(r.offsets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.load[b], r.load[a]) })
	old := *r
	*r = *newRouting(r.n, r.k, make([]int, len(order)))
	hops := make([]int32, len(order))
	for i, from := range order {
		r.offsets[i] = old.offsets[from]
	}
	for x := 1; x < r.n; x++ {
		for i, from := range order {
			hops[i] = old.of(x)[from]
		}
		r.set(x, hops)
	}
}

// unit is the base price of a hop, to which a price for the switch's load is added.
const unit = 1 << 12

// balance reroutes classes while the loads become more even: hops over busy switches cost
// more, each class takes its cheapest path and keeps it if that lowers the result of uneven.
func (r *routing) balance(ctx context.Context) error {
	price := make([]int, len(r.offsets))
	hops := make([]int32, len(r.offsets))
	for _, weight := range []int{1, 8, 64, 256, 1024, 1024, 1024, 1024} {
		for i := range price {
			first := i - i%r.k
			mean := 0
			for _, l := range r.load[first : first+r.k] {
				mean += l
			}
			price[i] = max(unit/2, unit+weight*(r.load[i]*r.k-mean)/max(1, mean/8))
		}
		ways := newStages(r.n, r.offsets, price)
		changed := false
		for x := 1; x < r.n; x++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			sum, squares := r.uneven()
			old := slices.Clone(r.of(x))
			if slices.Max(old) == 0 {
				continue // served elsewhere
			}
			ways.split(r.offsets, x, hops)
			r.set(x, hops)
			if s, q := r.uneven(); s > sum || s == sum && q >= squares {
				r.set(x, old)
			} else {
				changed = true
			}
		}
		if !changed && weight >= 1024 {
			break
		}
	}
	return nil
}

// plan makes rounds of the routing: one per class and topology if k = 1, otherwise one
// per topology, in which classes wait for their turn.
func (r *routing) plan(ctx context.Context) (*Plan, error) {
	p := &Plan{GPUs: r.n, Degree: r.k, Family: circulant(r.k)}
	straight := make([]int8, slices.Max(r.count))
	for i := range r.topologies() {
		first := i * r.k
		p.Topologies = append(p.Topologies, Topology{Offsets: r.offsets[first : first+r.k]})
		var classes []int
		var count []int32
		for x := 1; x < r.n; x++ {
			hops := r.of(x)[first : first+r.k]
			if slices.Max(hops) == 0 {
				continue
			}
			if r.k == 1 {
				p.Rounds = append(p.Rounds, Round{i, int(hops[0]), []Path{{x, straight[:hops[0]]}}})
				continue
			}
			classes, count = append(classes, x), append(count, hops...)
		}
		if len(classes) == 0 {
			continue
		}
		length, switches, err := OpenShop(ctx, r.k, count)
		if err != nil {
			return nil, err
		}
		round := Round{Topology: i, Hops: length}
		for c, x := range classes {
			round.Paths = append(round.Paths, Path{x, switches[c]})
		}
		p.Rounds = append(p.Rounds, round)
	}
	return p, nil
}
