package lanes

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/forsd/forsd/bipartite"
	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/topology"
)

// pinner pins stages.
type pinner struct {
	tree    *topology.FatTree
	host    []int   // [rank]
	rate    float64 // bytes a second
	latency float64 // seconds of a part
	living  []int   // [leaf] lanes
	lists   *bipartite.Lists
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
	for i, t := range s {
		j := job{Send: t, out: x.tree.Hosts[x.host[t.From]].Leaf, in: x.tree.Hosts[x.host[t.To]].Leaf}
		if j.out < 0 || j.in < 0 {
			return nil, 0, fmt.Errorf("%s or %s is on no leaf: its lanes are not planned", x.tree.Hosts[x.host[t.From]].Name, x.tree.Hosts[x.host[t.To]].Name)
		}
		jobs[i] = j
	}
	length, shortest, tried := s.Length(), 0.0, map[int64]bool{}
	for _, parts := range x.cuts() {
		if len(best) == 1 {
			break // it is not cut
		}
		if best != nil && ctx.Err() != nil {
			break // the first way is the quickest to find
		}
		if parts = min(parts, length); tried[parts] {
			continue
		}
		tried[parts] = true
		list, err := x.parts(number, jobs, over(length, parts))
		if err != nil {
			return nil, 0, err
		}
		time := x.time(list)
		if best == nil || time < shortest {
			best, shortest = list, time
		}
	}
	if bound = length; len(best) > 1 {
		bound = max(bound, x.bound(jobs))
	}
	for i := range best {
		slices.SortFunc(best[i].Transfers, func(a, b Transfer) int { return cmp.Compare(a.From, b.From) })
	}
	return best, bound, nil
}

// cuts returns the numbers of parts to try for a stage. If lanes do not suffice, these are two and
// three, for long latencies, and the number of lanes of each leaf and twice that number, which leave
// less data at the end.
func (x *pinner) cuts() []int64 {
	cuts := []int64{1}
	for _, lanes := range x.living {
		if lanes > 1 {
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
func (x *pinner) parts(stage int, all []job, most int64) (parts []Part, err error) {
	jobs := slices.Clone(all)
	for i := range jobs {
		jobs[i].left = jobs[i].Bytes
	}
	for len(jobs) > 0 {
		x.choose(jobs, most)
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
// have lanes for, and to others if some of these get none.
func (x *pinner) choose(jobs []job, most int64) {
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
	var edges [][2]int32
	var cross []*job
	for i := range jobs {
		if j := &jobs[i]; j.out == j.in {
			j.lane = -1
		} else {
			edges, cross = append(edges, [2]int32{int32(j.out), int32(j.in)}), append(cross, j)
		}
	}
	for i, lane := range x.lists.Choose(edges) {
		if cross[i].lane = int(lane); lane < 0 {
			cross[i].lane = none
		}
	}
}

// bound is the time that the lanes of the busiest leaf take for a stage, in bytes.
func (x *pinner) bound(jobs []job) (most int64) {
	n := len(x.living)
	out, in := make([]int, n*n), make([]int, n*n) // [leaf][other leaf] bytes
	for _, j := range jobs {
		if j.out != j.in {
			out[j.out*n+j.in] += int(j.Bytes)
			in[j.in*n+j.out] += int(j.Bytes)
		}
	}
	for leaf := range n {
		joined := make([]fors.LaneSet, n)
		for other := range joined {
			joined[other] = fors.NewLaneSet(x.tree.Lanes)
			for lane := range x.tree.Lanes {
				if x.tree.LaneUp(leaf, lane) && x.tree.LaneUp(other, lane) {
					joined[other].Add(lane)
				}
			}
		}
		for _, bytes := range [][]int{out, in} {
			most = max(most, int64(fors.LeastCapacity(x.tree.Lanes, joined, bytes[leaf*n:][:n])))
		}
	}
	return most
}

// over is v/m rounded up.
func over(v, m int64) int64 { return (v + m - 1) / m }
