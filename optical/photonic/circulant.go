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

// carryRouting reaches all classes in the fewest steps over all offsets, with waiting.
// Offsets of similar loads share a topology.
func carryRouting(n, k int, offsets []int) *routing {
	g := len(offsets)
	st, hops := newStages(n, offsets, nil), make([]int32, n*g) // [class][offset]
	load, order := make([]int, g), make([]int, g)
	for x := 1; x < n; x++ {
		of := hops[x*g : (x+1)*g]
		st.split(offsets, x, of)
		for i, h := range of {
			load[i] += int(h)
		}
	}
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(load[b], load[a]) })
	r := newRouting(n, k, make([]int, g))
	for i, from := range order {
		r.offsets[i], r.load[i] = offsets[from], load[from]
		for x := range n {
			r.count[x*g+i] = hops[x*g+from]
		}
	}
	return r
}

// unit is the base price of a hop, to which a price for the switch's load is added.
const unit = 1 << 12

// balance reroutes classes: hops over busy switches cost more and more, and each class takes its
// cheapest path if that makes the loads more even.
func (r *routing) balance(ctx context.Context) error {
	price, hops := make([]int32, len(r.offsets)), make([]int32, len(r.offsets))
	for weight := 1; weight <= unit; weight *= 4 {
		for i := range price {
			mean := 0
			for _, l := range r.load[i-i%r.k:][:r.k] {
				mean += l
			}
			price[i] = int32(max(unit/2, unit+weight*(r.load[i]*r.k-mean)/max(1, mean/8)))
		}
		ways := newStages(r.n, r.offsets, price)
		for x := 1; x < r.n; x++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			before, old := r.uneven(), slices.Clone(r.of(x))
			ways.split(r.offsets, x, hops)
			if r.set(x, hops); r.uneven() >= before {
				r.set(x, old)
			}
		}
	}
	return nil
}

// uneven grows with the loads of the busiest switches most.
func (r *routing) uneven() (sum float64) {
	for _, l := range r.load {
		sum += power8(float64(l * l))
	}
	return sum
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
