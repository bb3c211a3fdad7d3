package photonic

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// Baseline is another way to run the exchange, for comparison.
type Baseline struct {
	// Name is static, the best plan of one topology, or bvn, a direct link for each pair.
	Name string
	Plan *Plan
}

// Baselines plans and replays the alternatives. It fails soon after ctx ends.
func Baselines(ctx context.Context, in *Instance) ([]Baseline, error) {
	if in.Check() == nil && in.empty() {
		return nil, nil
	}
	static, err := Make(ctx, in, Options{Reconfigurations: 1})
	if err != nil {
		return nil, err
	}
	var links *Plan
	if in.Sizes != nil {
		links, err = planMatchings(ctx, in)
	} else if links, err = (circulants{&direct{n: in.GPUs, k: in.Degree}}).plan(ctx, in.direct()); err == nil {
		links.finish(in)
	}
	if err != nil {
		return nil, err
	}
	if _, err := Replay(ctx, in, links); err != nil {
		return nil, fmt.Errorf("the plan of direct links is invalid, which is a bug in the planner: %w", err)
	}
	return []Baseline{{"static", static}, {"bvn", links}}, nil
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
	p := &Plan{GPUs: n, Degree: k, Family: "matchings"}
	ways := make([][]leg, in.direct())
	for i := range ways {
		// Spare switches repeat the first permutation.
		next := slices.Repeat([][]int32{rows[order[i*k]]}, k)
		for s, row := range order[i*k : min((i+1)*k, len(order))] {
			next[s] = rows[row]
			for u, v := range next[s] {
				if in.size(u, int(v)) > 0 {
					ways[i] = append(ways[i], leg{flow: int32(u*n) + v, links: []int32{int32(u*k + s)}})
				}
			}
		}
		p.Topologies = append(p.Topologies, Topology{Next: next})
	}
	return p.pack(ctx, in, ways, never)
}
