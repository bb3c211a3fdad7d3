package podplan

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
)

// ErrOther is the error of Repair where the tree has other leaves or servers than the plan.
var ErrOther = errors.New("the plan is for other leaves or servers: plan anew")

// Repair makes a plan for a tree in which more has failed, or less, of this one: what uses
// a cable that is dead now goes to another way, in its block or in another one, and all
// else stays as it is. The tables change accordingly. The plan may be longer than one made
// anew. The result is verified; this one is not changed.
func (r *Result) Repair(ctx context.Context, t *topology.PodTree) (*Result, error) {
	out, err := r.mend(t)
	if err != nil {
		return nil, err
	}
	if err := out.finish(ctx); err != nil {
		return nil, err
	}
	out.warn()
	return out, nil
}

// mend does so without tables.
func (r *Result) mend(t *topology.PodTree) (*Result, error) {
	start := time.Now()
	shape := Shape(t)
	if !pods.SameServers(r.shape, shape) || len(t.Lanes) != len(r.Tree.Lanes) {
		return nil, ErrOther
	}
	out := &Result{Tree: t, shape: shape, LIDs: 1}
	out.Plan, out.Offset = r.Plan.InBlocks(r.shape), append([]uint8(nil), r.Offset...)
	p := out.Plan
	if r.Offset == nil {
		out.Offset = make([]uint8, len(p.To))
	}
	var bounds sync.WaitGroup // which nothing asks for before it is clear what stays
	bounds.Go(func() { p.Bounds, p.Unreachable = pods.ComputeBounds(shape), pods.Unreachable(shape) })
	x := out.newAddresses()
	if r.Tables != nil {
		x.remember(r.Tables)
	}
	var late []int
	out.crossing(func(at, a int, d int32) {
		if shape.Lives(a, int(out.home(d)), p.Way[at]) {
			x.take(a, d, p.Way[at], int(out.Offset[at]))
		} else {
			late = append(late, at)
		}
	})
	if bounds.Wait(); len(p.Unreachable) > 0 || len(r.Plan.Unreachable) > 0 {
		return nil, ErrOther
	}
	if err := out.place(x, late); err != nil {
		return nil, err
	}
	out.LIDs = x.lids
	out.Times.Plan = time.Since(start)
	return out, nil
}

// crossing calls for each unit that crosses cables, with its slot as block·slots + slot, its
// leaf and its server.
func (r *Result) crossing(unit func(at, a int, d int32)) {
	at := 0
	for range r.Plan.Blocks {
		for a := range r.shape.Leaves {
			for end := at + int(r.Plan.First[a+1]-r.Plan.First[a]); at < end; at++ {
				if r.Plan.To[at] != pods.Idle && r.Plan.Way[at] >= 0 {
					unit(at, a, r.Plan.To[at])
				}
			}
		}
	}
}

// home is the leaf of a server, as the plan numbers leaves.
func (r *Result) home(d int32) int32 {
	if r.homes == nil {
		r.homes = make([]int32, len(r.Tree.Servers))
		for a := range r.shape.Leaves {
			for s := r.Plan.Base[a]; s < r.Plan.Base[a+1]; s++ {
				r.homes[s] = int32(a)
			}
		}
	}
	return r.homes[d]
}

// remember takes in the tables before, and which of their blocks change whatever ways are
// chosen: those with entries that lead to a dead port, or see stranded.
func (x *addresses) remember(tables *lft.Tables) {
	f := x.Tree.Fabric
	x.was, x.sent = make([][]uint8, len(f.Nodes)), make([][]bool, len(f.Nodes))
	for i := range tables.Switches {
		node, out := f.Find(tables.Switches[i].GUID), tables.Switches[i].Out
		if node == topology.None {
			continue
		}
		x.was[node], x.sent[node] = out, make([]bool, len(out)/lft.Block+2)
		var dead [256]bool
		some := false
		for p := range f.Nodes[node].Ports {
			dead[uint8(p)] = p != 0 && !f.Nodes[node].Ports[p].Up()
			some = some || dead[uint8(p)]
		}
		for lid := 0; some && lid < len(out); lid++ {
			if dead[out[lid]] {
				x.sent[node][lid/lft.Block] = true
			}
		}
	}
	x.stranded()
}

// stranded notes the blocks with entries that lead to a switch from which no way at full rate
// goes up and then down.
func (x *addresses) stranded() {
	t := x.Tree
	// over notes the blocks of a switch with entries that leave by a port, of some LIDs.
	over := func(node int32, port uint8, lids []topology.LID) {
		for _, lid := range lids {
			if x.before(node, int(lid)) == port {
				x.sent[node][int(lid)/lft.Block] = true
			}
		}
	}
	var all []topology.LID
	onLeaf, inPod := make([][]topology.LID, len(t.Leaves)), make([][]topology.LID, t.Pods)
	for i := range t.Hosts {
		h := &t.Hosts[i]
		for o := topology.LID(0); h.Leaf >= 0 && o < 1<<h.LMC; o++ {
			all, onLeaf[h.Leaf] = append(all, h.LID+o), append(onLeaf[h.Leaf], h.LID+o)
			inPod[t.Leaves[h.Leaf].Pod] = append(inPod[t.Leaves[h.Leaf].Pod], h.LID+o)
		}
	}
	for l := range t.Leaves {
		for j, c := range t.Leaves[l].Cables {
			if c.State == topology.Degraded {
				over(t.Leaves[l].Node, c.Port, all)
			}
			for i := 0; c.State != topology.Full && i < len(t.Leaves); i++ { // nothing of plane j leads there any more
				if t.LeafUp(i, j) {
					over(t.Leaves[i].Node, t.Leaves[i].Cables[j].Port, onLeaf[l])
				}
			}
		}
	}
	for p := range t.Pods {
		for k, lane := range t.Lanes {
			mid := t.Mid(p, lane.Plane)
			c := mid.Cables[k]
			if c.State == topology.Degraded {
				over(mid.Node, c.Port, all)
			}
			for q := 0; c.State != topology.Full && q < t.Pods; q++ {
				if t.LaneUp(q, k) {
					over(t.Mid(q, lane.Plane).Node, t.Mid(q, lane.Plane).Cables[k].Port, inPod[p])
				}
			}
		}
	}
}
