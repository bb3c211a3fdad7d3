package photonic

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// Baseline is another way to run the exchange, for comparison (paper, section
// 5.1).
type Baseline struct {
	// Name is static, the best of a ring, a circulant and a generalised Kautz graph
	// without reconfiguration (DirectConnect, TopoOpt); bvn, a direct link for each
	// pair (FAST); or, only if sizes differ, mixnet, one topology that gives links to
	// the largest messages first.
	Name string
	Plan *Plan
}

// Baselines plans and replays the alternatives. It fails soon after ctx ends.
func Baselines(ctx context.Context, in *Instance) ([]Baseline, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	if in.empty() {
		return nil, nil
	}
	static, err := climbAll(ctx, in, Options{Method: Paper, Reconfigurations: 1, packed: true})
	if err != nil {
		return nil, err
	}
	list := []Baseline{{"static", static}}
	if in.Sizes == nil {
		d := &direct{n: in.GPUs, k: in.Degree}
		p, err := d.plan(ctx, in.direct())
		if err != nil {
			return nil, err
		}
		list = append(list, Baseline{"bvn", p.finish(in)})
	} else {
		matchings, err := planMatchings(ctx, in)
		if err != nil {
			return nil, err
		}
		largest, err := planLargest(ctx, in, nil)
		if err != nil {
			return nil, err
		}
		list = append(list, Baseline{"bvn", matchings})
		if largest != nil {
			list = append(list, Baseline{"mixnet", largest})
		}
	}
	for _, b := range list {
		if _, err := Replay(ctx, in, b.Plan); err != nil {
			return nil, fmt.Errorf("the plan of baseline %s is invalid, which is a bug in the planner: %w", b.Name, err)
		}
	}
	return list, nil
}

// planMatchings decomposes the exchange into permutations, each of the largest
// remaining messages (linear assignment), and sends every message over a direct link,
// k permutations of similar size at a time.
func planMatchings(ctx context.Context, in *Instance) (*Plan, error) {
	n := in.GPUs
	const scale = 1 << 30           // of the longest message
	const taken = scale * MaxVaried // no pair is taken a second time
	cost := make([]int64, n*n)
	top := Time(1)
	for i := range cost {
		top = max(top, in.Link.Time(in.size(i/n, i%n)))
	}
	for i := range cost {
		cost[i] = -int64(float64(in.Link.Time(in.size(i/n, i%n))) / float64(top) * scale)
	}
	for i := 0; i < n*n; i += n + 1 {
		cost[i] = taken
	}
	rows := make([][]int32, n-1)
	longest := make([]Time, n-1)
	var assigner bipartite.Assigner
	for i := range rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		column, _, err := assigner.Assign(n, cost)
		if err != nil {
			return nil, err
		}
		rows[i] = slices.Clone(column)
		for u, v := range column {
			longest[i] = max(longest[i], in.Link.Time(in.size(u, int(v))))
			cost[u*n+int(v)] = taken
		}
	}
	return matched(ctx, in, rows, longest)
}

// planShifts makes a plan without a search: a direct link for every pair, by shifts.
func planShifts(ctx context.Context, in *Instance) (*Plan, error) {
	n := in.GPUs
	rows, longest := make([][]int32, n-1), make([]Time, n-1)
	for i := range rows {
		rows[i] = make([]int32, n)
		for u := range n {
			v := (u + i + 1) % n
			rows[i][u] = int32(v)
			longest[i] = max(longest[i], in.Link.Time(in.size(u, v)))
		}
	}
	return matched(ctx, in, rows, longest)
}

// matched sends every message over a direct link, k permutations at a time in the order of
// the times of their longest messages.
func matched(ctx context.Context, in *Instance, rows [][]int32, longest []Time) (*Plan, error) {
	n, k := in.GPUs, in.Degree
	order := make([]int, n-1)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(longest[b], longest[a]) })
	p := &Plan{GPUs: n, Degree: k, Method: Greedy, Family: "matchings"}
	for start := 0; start < len(order); start += k {
		if err := p.send(ctx, in, rows, order[start:min(start+k, len(order))]); err != nil {
			return nil, err
		}
	}
	return p.finish(in), nil
}

// send adds a topology of some permutations; each link carries the message between its
// ends. Spare switches repeat the first permutation.
func (p *Plan) send(ctx context.Context, in *Instance, rows [][]int32, of []int) error {
	n, k := p.GPUs, p.Degree
	t := Topology{Next: make([][]int32, k)}
	switches := make([]uint16, n*k)
	var legs []leg
	for s := range k {
		t.Next[s] = rows[of[0]]
		if s < len(of) {
			t.Next[s] = rows[of[s]]
		}
		for u, v := range t.Next[s] {
			switches[u*k+s] = uint16(s)
			if s < len(of) && in.size(u, int(v)) > 0 {
				legs = append(legs, leg{flow: int32(u*n) + v, links: []int32{int32(u*k + s)}})
			}
		}
	}
	hops, span, err := pack(ctx, in, len(p.Topologies), switches, legs, p.Hops)
	p.Topologies, p.Hops, p.Spans = append(p.Topologies, t), hops, append(p.Spans, span)
	return err
}

// planLargest plans one topology that gives links to the largest messages first, as
// MixNet does. The first switch forms one cycle through all GPUs, so that all can be
// reached; the others join pairs without a link. planLargest returns nil if the plan
// would have too many moves, or if its busiest link alone rules out that it beats known.
func planLargest(ctx context.Context, in *Instance, known *Plan) (*Plan, error) {
	n, k := in.GPUs, in.Degree
	order := make([]int, 0, n*(n-1))
	for i := range n * n {
		if i/n != i%n {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(in.size(b/n, b%n), in.size(a/n, a%n)) })
	next := make([]int32, n*k)
	linked := make([]bool, n*n)
	for s := range k {
		row := largestFirst(n, order, linked, s == 0)
		for u, v := range row {
			next[u*k+s] = v
			linked[u*n+int(v)] = true
		}
	}
	m := newMesh(n, k, next)
	if known != nil && in.Reconfig+busiest(in, m.legs()) >= known.Cost {
		return nil, nil
	}
	p, err := m.plan(ctx, in, Greedy)
	if err != nil || p == nil {
		return nil, err
	}
	p.Family = "largest"
	return p.finish(in), nil
}

// largestFirst makes a permutation: it takes pairs without a link in the given order, one
// link out and one in per GPU, as one cycle if requested. It joins the remaining GPUs in
// their order.
func largestFirst(n int, order []int, linked []bool, cycle bool) []int32 {
	to := make([]int32, n)
	from := make([]bool, n) // [GPU] it has a link in
	end := make([]int, n)   // [end of a chain] its other end
	for u := range to {
		to[u], end[u] = -1, u
	}
	for _, pair := range order {
		u, v := pair/n, pair%n
		if to[u] >= 0 || from[v] || linked[pair] || cycle && end[u] == v {
			continue
		}
		to[u], from[v] = int32(v), true
		first, last := end[u], end[v]
		end[first], end[last] = last, first
	}
	free := 0
	for u := range to {
		if to[u] >= 0 {
			continue
		}
		for from[free] {
			free++
		}
		to[u], from[free] = int32(free), true
	}
	return to
}
