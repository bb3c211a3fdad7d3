package lanes

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/forsd/forsd/bipartite"
	"github.com/forsd/forsd/topology"
)

// pinner pins stages.
type pinner struct {
	tree    *topology.FatTree
	host    []int   // [rank]
	rate    float64 // bytes a second
	latency float64 // seconds of a part
	living  []int   // [leaf] lanes
	weigher bipartite.Weigher
}

// job is a transfer of a stage: its leaves and its remaining bytes.
type job struct {
	Send
	out, in int // leaves
	left    int64
	lane    int // in the current part; −1 on a leaf, none if it waits
}

const none = -2

// stage pins a stage whole, or cut into parts that use all lanes of the leaf that has too
// few, whichever takes less time. The bound is that of the busiest leaf's lanes.
func (x *pinner) stage(ctx context.Context, number int, s Stage) (best []Part, bound int64, err error) {
	jobs := make([]job, len(s))
	out, in := make([]int64, len(x.living)), make([]int64, len(x.living))
	for i, t := range s {
		j := job{Send: t, out: x.tree.Hosts[x.host[t.From]].Leaf, in: x.tree.Hosts[x.host[t.To]].Leaf}
		if j.out < 0 || j.in < 0 {
			return nil, 0, fmt.Errorf("%s or %s is on no leaf: its lanes are not planned", x.tree.Hosts[x.host[t.From]].Name, x.tree.Hosts[x.host[t.To]].Name)
		}
		if j.out != j.in {
			out[j.out] += t.Bytes
			in[j.in] += t.Bytes
		}
		jobs[i] = j
	}
	length := s.Length()
	bound = length
	for leaf, lanes := range x.living {
		if busy := max(out[leaf], in[leaf]); busy > 0 && lanes > 0 {
			bound = max(bound, over(busy, int64(lanes)))
		}
	}
	least, tried := 0.0, map[int64]bool{}
	for _, parts := range x.cuts(bound > length) {
		if best != nil && ctx.Err() != nil {
			break // the first way is the quickest to find
		}
		if parts = min(parts, length); tried[parts] {
			continue
		}
		tried[parts] = true
		list, err := x.parts(context.WithoutCancel(ctx), number, jobs, over(length, parts))
		if err != nil {
			return nil, 0, err
		}
		time := x.time(list)
		if best == nil || time < least {
			best, least = list, time
		}
	}
	for i := range best {
		slices.SortFunc(best[i].Transfers, func(a, b Transfer) int { return cmp.Compare(a.From, b.From) })
	}
	return best, bound, nil
}

// cuts returns the numbers of parts to try for a stage. If lanes do not suffice, these include
// two and three, for long latencies, and the number of lanes of each leaf and twice that
// number, which leave less data at the end.
func (x *pinner) cuts(short bool) []int64 {
	cuts := []int64{1}
	for _, lanes := range x.living {
		if short && lanes > 1 {
			cuts = append(cuts, 2, 3, int64(lanes), 2*int64(lanes))
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

func (x *pinner) time(parts []Part) (seconds float64) {
	for i := range parts {
		seconds += float64(parts[i].Length)/x.rate + x.latency
	}
	return seconds
}

// parts pins transfers in parts of at most so many bytes each.
func (x *pinner) parts(ctx context.Context, stage int, all []job, most int64) (parts []Part, err error) {
	jobs := slices.Clone(all)
	for i := range jobs {
		jobs[i].left = jobs[i].Bytes
	}
	for len(jobs) > 0 {
		if err := x.choose(ctx, jobs, most); err != nil {
			return nil, err
		}
		part := Part{Stage: stage}
		for i := range jobs {
			j := &jobs[i]
			if j.lane == none {
				continue
			}
			t := Transfer{Send: Send{From: j.From, To: j.To, Offset: j.Offset + j.Bytes - j.left, Bytes: min(j.left, most)}, Lane: j.lane}
			to := &x.tree.Hosts[x.host[j.To]]
			open := true
			if t.DLID = to.LID; j.lane >= 0 {
				t.DLID, open = x.tree.DLID(to, j.lane)
			}
			if !open {
				return nil, fmt.Errorf("%s has too few LIDs for lane %d: want an LMC with a LID for each of %d lanes", to.Name, j.lane, x.tree.Lanes)
			}
			j.left -= t.Bytes
			part.Length = max(part.Length, t.Bytes)
			part.Transfers = append(part.Transfers, t)
		}
		if len(part.Transfers) == 0 {
			j := &jobs[0]
			return nil, fmt.Errorf("no live lane joins %s and %s", x.tree.Hosts[x.host[j.From]].Name, x.tree.Hosts[x.host[j.To]].Name)
		}
		parts = append(parts, part)
		jobs = slices.DeleteFunc(jobs, func(j job) bool { return j.left == 0 })
	}
	return parts, nil
}

// choose assigns lanes in the next part to the most urgent transfers, as many as the leaves
// have lanes for.
func (x *pinner) choose(ctx context.Context, jobs []job, most int64) error {
	out, in := make([]int64, len(x.living)), make([]int64, len(x.living)) // parts still needed, over all lanes
	for i := range jobs {
		if j := &jobs[i]; j.out != j.in {
			out[j.out] += over(j.left, most)
			in[j.in] += over(j.left, most)
		}
	}
	needs := func(j *job) int64 {
		return max(over(j.left, most), over(out[j.out], int64(max(1, x.living[j.out]))), over(in[j.in], int64(max(1, x.living[j.in]))))
	}
	slices.SortFunc(jobs, func(a, b job) int {
		return cmp.Or(cmp.Compare(needs(&b), needs(&a)), cmp.Compare(b.left, a.left), cmp.Compare(a.From, b.From))
	})
	outs, ins := slices.Clone(x.living), slices.Clone(x.living)
	var chosen []*job
	for i := range jobs {
		j := &jobs[i]
		if j.lane = none; j.out == j.in {
			j.lane = -1
		} else if outs[j.out] > 0 && ins[j.in] > 0 {
			outs[j.out]--
			ins[j.in]--
			chosen = append(chosen, j)
		}
	}
	return x.colour(ctx, chosen)
}

// colour assigns lanes to transfers, beginning with the lanes that are live at the fewest
// leaves: each takes a matching of leaves that covers those with as many transfers as
// remaining lanes. If every lane is live, all transfers get one (König).
func (x *pinner) colour(ctx context.Context, chosen []*job) error {
	order := make([]int, x.tree.Lanes)
	at := make([]int, x.tree.Lanes) // [lane] leaves at which it is live
	left := slices.Clone(x.living)  // [leaf] lanes not used yet
	for lane := range order {
		order[lane] = lane
		for leaf := range x.living {
			if x.tree.LaneUp(leaf, lane) {
				at[lane]++
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	out, in := make([]int, len(x.living)), make([]int, len(x.living)) // [leaf] transfers without a lane
	for _, j := range chosen {
		out[j.out]++
		in[j.in]++
	}
	slices.SortStableFunc(chosen, func(a, b *job) int { return cmp.Or(cmp.Compare(a.out, b.out), cmp.Compare(a.in, b.in)) })
	for _, lane := range order {
		match, err := x.match(ctx, lane, chosen, out, in, left)
		if err != nil {
			return err
		}
		for _, j := range match {
			j.lane = lane
			out[j.out]--
			in[j.in]--
		}
		for leaf := range left {
			if x.tree.LaneUp(leaf, lane) {
				left[leaf]--
			}
		}
	}
	return nil
}

// match chooses the transfers of a lane among those without one, by a matching of leaves.
func (x *pinner) match(ctx context.Context, lane int, chosen []*job, out, in, left []int) (match []*job, err error) {
	n := len(x.living)
	start, edges, weight, by := make([]int32, n+1), []int32(nil), []int64(nil), []*job(nil)
	heavy := func(transfers, leaf int) int64 {
		if transfers >= left[leaf] {
			return int64(n + 1)
		}
		return 0
	}
	at := 0
	for leaf := range n {
		for ; at < len(chosen) && chosen[at].out == leaf; at++ {
			j := chosen[at]
			if j.lane != none || !x.tree.LaneUp(j.out, lane) || !x.tree.LaneUp(j.in, lane) {
				continue
			}
			if len(edges) > int(start[leaf]) && edges[len(edges)-1] == int32(j.in) {
				continue // another transfer between the two
			}
			edges, by = append(edges, int32(j.in)), append(by, j)
			weight = append(weight, 1+heavy(out[j.out], j.out)+heavy(in[j.in], j.in))
		}
		start[leaf+1] = int32(len(edges))
	}
	pick, err := x.weigher.Match(ctx, n, start, edges, weight)
	if err != nil {
		return nil, err
	}
	for _, edge := range pick {
		if edge >= 0 {
			match = append(match, by[edge])
		}
	}
	return match, nil
}

// over is v/m rounded up.
func over(v, m int64) int64 { return (v + m - 1) / m }
