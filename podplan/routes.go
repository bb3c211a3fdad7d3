package podplan

import (
	"context"
	"fmt"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
)

// byRoutes plans for whole leaves on the tables that the tree has without any plan, by base
// LIDs alone: each unit goes to the first block in which its cables are free and its server
// idles. It is longer than other plans, and takes any number of LIDs.
func byRoutes(ctx context.Context, t *topology.PodTree, shape *pods.Tree) (*Result, error) {
	tables, err := lft.BuildPods(ctx, t, nil)
	if err != nil {
		return nil, err
	}
	p := &pods.Plan{Engine: pods.Routes, Bounds: pods.ComputeBounds(shape), Unreachable: pods.Unreachable(shape), First: []int32{0}, Base: []int32{0}}
	for a := range shape.Leaves {
		p.Group = max(p.Group, len(shape.Leaves[a].Slots))
	}
	for a := range shape.Leaves {
		p.First = append(p.First, p.First[a]+int32(p.Group))
		p.Base = append(p.Base, p.Base[a]+int32(len(shape.Leaves[a].Slots)))
	}
	x := &router{Plan: p, t: t, tables: tables, none: map[[2]int32]bool{}}
	for _, u := range p.Unreachable {
		x.none[[2]int32{int32(u.Src), int32(u.Dst)}] = true
	}
	leaves := len(shape.Leaves)
	for shift := range leaves {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for a := range leaves {
			b := (a + shift) % leaves
			for d := p.Base[b]; d < p.Base[b+1]; d++ {
				if err := x.put(a, b, d); err != nil {
					return nil, err
				}
			}
		}
	}
	return &Result{Tree: t, Plan: p, LIDs: 1, shape: shape, fixed: true}, nil
}

// router knows what the blocks of a plan by routes have in use.
type router struct {
	*pods.Plan
	t      *topology.PodTree
	tables *lft.Tables
	none   map[[2]int32]bool
	taken  []map[topology.PortRef]bool // [block] output ports of switches
	heard  []map[int32]bool            // [block] servers
	path   []topology.PortRef
}

// put puts the unit from a leaf to a server into the first block that has room for it.
func (x *router) put(a, b int, d int32) error {
	if x.none[[2]int32{x.Base[a], d}] {
		return nil
	}
	way := int16(-1)
	x.path = x.path[:0]
	if a != b {
		hops, err := x.tables.Trace(x.t.Fabric, x.t.Hosts[x.t.Servers[x.Base[a]]].PortRef, x.t.Hosts[x.t.Servers[d]].LID)
		if err != nil {
			return fmt.Errorf("plan by routes: %w", err)
		}
		for _, h := range hops[1 : len(hops)-2] {
			x.path = append(x.path, topology.PortRef{Node: h.Node, Port: h.Out})
		}
		way = x.wayOf(x.t.Hosts[x.t.Servers[x.Base[a]]].Leaf)
	}
	slots := int(x.First[len(x.First)-1])
	for block := 0; ; block++ {
		if block == x.Blocks {
			x.Blocks++
			x.taken, x.heard = append(x.taken, map[topology.PortRef]bool{}), append(x.heard, map[int32]bool{})
			for range slots {
				x.To, x.Way = append(x.To, pods.Idle), append(x.Way, -1)
			}
		}
		if slot := x.free(block, a, d, slots); slot >= 0 {
			x.heard[block][d] = true
			for _, r := range x.path {
				x.taken[block][r] = true
			}
			x.To[slot], x.Way[slot] = d, way
			return nil
		}
	}
}

// free is a free slot of a leaf in a block that can carry the path, −1 for none.
func (x *router) free(block, a int, d int32, slots int) int {
	if x.heard[block][d] {
		return -1
	}
	for _, r := range x.path {
		if x.taken[block][r] {
			return -1
		}
	}
	for s := x.First[a]; s < x.First[a+1]; s++ {
		if at := block*slots + int(s); x.To[at] == pods.Idle {
			return at
		}
	}
	return -1
}

// wayOf names the path: by the lane that it goes up by, or by its plane within a pod.
func (x *router) wayOf(leaf int) int16 {
	t := x.t
	l := &t.Leaves[leaf]
	for j, c := range l.Cables {
		if !c.Usable() || c.Port != x.path[0].Port {
			continue
		}
		for k, up := range t.Mid(l.Pod, j).Cables {
			if len(x.path) > 2 && up.Usable() && up.Port == x.path[1].Port {
				return int16(k)
			}
		}
		return int16(len(t.Lanes) + j)
	}
	return -1
}
