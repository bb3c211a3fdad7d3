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
	} else {
		links = planDirect(in)
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
	n, k := in.GPUs, in.Degree
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

// planDirect gives every pair a direct link, k shifts at a time.
func planDirect(in *Instance) *Plan {
	n, k := in.GPUs, in.Degree
	p := &Plan{GPUs: n, Degree: k, Family: circulant(k)}
	for t := range in.direct() {
		round, offsets := Round{Topology: t, Hops: 1}, make([]int, k)
		for s := range k {
			x := t*k + s + 1
			if offsets[s] = min(x, n-1); x < n {
				round.Paths = append(round.Paths, Path{x, []int8{int8(s)}})
			}
		}
		p.Topologies, p.Rounds = append(p.Topologies, Topology{Offsets: offsets}), append(p.Rounds, round)
	}
	return p.finish(in)
}
