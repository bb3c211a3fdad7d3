package planner

import (
	"context"
	"slices"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Job is the part of a job that planning needs.
type Job struct {
	ID      uint64    `json:"id"`
	Members []ib.GUID `json:"members"` // host ports
	// Lanes are reserved for the job at their leaves, whether they are up or not; empty if
	// it uses the lanes reserved for no job.
	Lanes []JobLane `json:"lanes,omitempty"`
	// Routed means that the members' base LIDs take lanes of the job's own plan from each
	// other's leaves.
	Routed bool `json:"routed,omitempty"`
}

// JobLane is a lane at a leaf, by identifiers that survive renumbering of lanes.
type JobLane struct {
	Leaf  ib.GUID `json:"leaf"`
	Spine ib.GUID `json:"spine"`
	Cable int     `json:"cable,omitempty"` // index among the cables between the two
}

// holders returns, [leaf·lanes + lane], the number of the job that the lane is reserved
// for, 0 if none.
func holders(t *topology.FatTree, jobs []Job) []uint64 {
	out := make([]uint64, len(t.Leaves)*t.Lanes)
	leaves, spines := map[ib.GUID]int{}, map[ib.GUID]int{}
	for i := range t.Leaves {
		leaves[t.Leaves[i].GUID] = i
	}
	for i := range t.Spines {
		spines[t.Spines[i].GUID] = i
	}
	for _, j := range jobs {
		for _, x := range j.Lanes {
			leaf, on := leaves[x.Leaf]
			spine, below := spines[x.Spine]
			if on && below && x.Cable < t.Spines[spine].Cables {
				out[leaf*t.Lanes+t.Spines[spine].First+x.Cable] = j.ID
			}
		}
	}
	return out
}

// JobTree returns the tree on which a job plans: its members are the servers, and
// unavailable lanes are disabled. A job with reserved lanes uses these; others use the
// lanes reserved for no job. If those do not reach all of its members, the job shares the
// lanes of the jobs whose numbers are returned.
func JobTree(t *topology.FatTree, job *Job, jobs []Job) (sub *topology.FatTree, shares []uint64) {
	held := holders(t, jobs)
	sub = Restrict(t, job.Members)
	free := only(sub, func(leaf, lane int) bool {
		by := held[leaf*t.Lanes+lane]
		return by == job.ID && job.ID != 0 || by == 0 && len(job.Lanes) == 0
	})
	pairs, _ := LaneLess(free)
	if least, _ := LaneLess(sub); pairs <= least || len(job.Lanes) > 0 {
		return free, nil
	}
	for _, leaf := range leavesWithServers(sub) {
		shares = append(shares, held[leaf*t.Lanes:][:t.Lanes]...)
	}
	slices.Sort(shares)
	shares = slices.DeleteFunc(slices.Compact(shares), func(by uint64) bool { return by == 0 })
	return sub, shares
}

// only returns the tree without unwanted lanes at leaves with servers.
func only(t *topology.FatTree, wanted func(leaf, lane int) bool) *topology.FatTree {
	out := *t
	out.Leaves = slices.Clone(t.Leaves)
	for _, leaf := range leavesWithServers(t) {
		out.Leaves[leaf].Cables = slices.Clone(t.Leaves[leaf].Cables)
		for k := range t.Lanes {
			if !wanted(leaf, k) {
				out.Hold(leaf, k)
			}
		}
	}
	return &out
}

// leavesWithServers lists them, ascending.
func leavesWithServers(t *topology.FatTree) (leaves []int) {
	for _, i := range t.Servers {
		if leaf := t.Hosts[i].Leaf; len(leaves) == 0 || leaves[len(leaves)-1] != leaf {
			leaves = append(leaves, leaf)
		}
	}
	return leaves
}

// OwnLanes chooses lanes to reserve for a job at its leaves, of those that are up and not
// reserved for others; lanes already reserved for it stay. A job on one leaf needs none. It
// fails with fors.ErrNoOwnLanes if these do not suffice.
func OwnLanes(ctx context.Context, t *topology.FatTree, job *Job, jobs []Job) ([]JobLane, error) {
	sub := Restrict(t, job.Members)
	if len(sub.Servers) == 0 {
		return nil, ErrNoMember
	}
	leaves := leavesWithServers(sub)
	if len(leaves) == 1 || t.Lanes == 0 {
		return nil, nil
	}
	held := holders(t, jobs)
	tree := forsTree(sub)
	offer := fors.Offer{Tree: tree, Alive: slices.Clone(tree.Up), Rest: restOf(t, job, jobs, leaves), Elsewhere: make([]int, t.Lanes)}
	tree.Up, tree.Closed = nil, nil
	for leaf := range t.Leaves {
		at, ours := slices.BinarySearch(leaves, leaf)
		up := make([]bool, t.Lanes)
		for k := range up {
			by := held[leaf*t.Lanes+k]
			if up[k] = t.LaneUp(leaf, k) && (by == 0 || by == job.ID); up[k] && !ours {
				offer.Elsewhere[k]++
			}
		}
		if ours && at == len(tree.Up) {
			tree.Up = append(tree.Up, up)
		}
	}
	own, err := fors.OwnLanes(ctx, offer)
	if err != nil {
		return nil, err
	}
	var lanes []JobLane
	for i, leaf := range leaves {
		for k, mine := range own[i] {
			if mine || held[leaf*t.Lanes+k] == job.ID && job.ID != 0 {
				spine := &t.Spines[t.LaneOf[k]]
				lanes = append(lanes, JobLane{t.Leaves[leaf].GUID, spine.GUID, k - spine.First})
			}
		}
	}
	return lanes, nil
}

// restOf counts, at some leaves, the hosts outside the job and outside jobs with reserved
// lanes.
func restOf(t *topology.FatTree, job *Job, jobs []Job, leaves []int) []int {
	taken := map[ib.GUID]bool{}
	for _, j := range append([]Job{*job}, jobs...) {
		for _, g := range j.Members {
			taken[g] = taken[g] || j.ID == job.ID || len(j.Lanes) > 0
		}
	}
	rest := make([]int, len(leaves))
	for i := range t.Hosts {
		if h := &t.Hosts[i]; !taken[h.GUID] {
			if at, found := slices.BinarySearch(leaves, h.Leaf); found {
				rest[at]++
			}
		}
	}
	return rest
}
