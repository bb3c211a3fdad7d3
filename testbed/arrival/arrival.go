// Package arrival walks forwarding tables, for tests. It is independent of ranks, of trees
// and of how tables are made.
package arrival

import (
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// channel is a cable in one direction.
type channel struct {
	node int32
	port uint8
}

// walk is a check under way.
type walk struct {
	fabric *topology.Fabric
	tables *lft.Tables
	all    bool    // LIDs have to arrive
	index  []int   // [node] of the switch in the tables, −1 without one
	part   []int32 // [node] of the fabric, connected by cables; −1 without one
	waits  map[channel]map[channel]bool
	state  map[channel]int
}

// Check walks every LID from every switch that cables join to a node. The error is the first
// entry that leads to a dead port or to another owner, the first LID that does not arrive
// though cables lead on, or a ring of channels that wait for one another.
func Check(f *topology.Fabric, from int32, tables *lft.Tables) error {
	return check(f, from, tables, true)
}

// Sound is Check, but for LIDs that do not arrive because a switch has no entry.
func Sound(f *topology.Fabric, from int32, tables *lft.Tables) error {
	return check(f, from, tables, false)
}

func check(f *topology.Fabric, from int32, tables *lft.Tables, all bool) error {
	w := walk{f, tables, all, make([]int, len(f.Nodes)), parts(f), map[channel]map[channel]bool{}, map[channel]int{}}
	for i := range f.Nodes {
		w.index[i] = tables.Find(f.Nodes[i].GUID)
	}
	for _, end := range f.EndPorts() {
		for lid := end.LID; end.LID != 0 && lid < end.LID+1<<end.LMC; lid++ {
			for s := range f.Nodes {
				if f.Nodes[s].Kind != topology.Switch || w.part[s] != w.part[from] {
					continue
				}
				if err := w.follow(int32(s), end.Node, lid); err != nil {
					return err
				}
			}
		}
	}
	for c := range w.waits {
		if err := w.acyclic(c); err != nil {
			return err
		}
	}
	return nil
}

// follow walks a LID from a switch to its owner, and records which channels follow which.
func (w *walk) follow(from, owner int32, lid ib.LID) error {
	f := w.fabric
	var last *channel
	for at, steps := from, 0; at != owner; steps++ {
		node := &f.Nodes[at]
		port := lft.NoPath
		if w.index[at] >= 0 {
			port = w.tables.Port(w.index[at], lid)
		}
		switch {
		case node.Kind != topology.Switch:
			return fmt.Errorf("LID %d from %s is delivered to %s", lid, &f.Nodes[from], node)
		case steps > len(f.Nodes):
			return fmt.Errorf("LID %d from %s runs in a ring", lid, &f.Nodes[from])
		case port == lft.NoPath && w.all && w.part[from] == w.part[owner]:
			return fmt.Errorf("LID %d from %s is lost at %s, and cables lead on", lid, &f.Nodes[from], node)
		case port == lft.NoPath:
			return nil
		case port == 0 || int(port) >= len(node.Ports) || !node.Ports[port].Up():
			return fmt.Errorf("LID %d at %s leads to the dead port %d", lid, node, port)
		}
		next := channel{at, port}
		if last != nil {
			if w.waits[*last] == nil {
				w.waits[*last] = map[channel]bool{}
			}
			w.waits[*last][next] = true
		}
		last, at = &next, node.Ports[port].Peer
	}
	return nil
}

// acyclic looks for a ring among the channels that follow on one.
func (w *walk) acyclic(c channel) error {
	const open, done = 1, 2
	switch w.state[c] {
	case open:
		return fmt.Errorf("channels wait for one another in a ring at %s port %d", &w.fabric.Nodes[c.node], c.port)
	case done:
		return nil
	}
	w.state[c] = open
	for next := range w.waits[c] {
		if err := w.acyclic(next); err != nil {
			return err
		}
	}
	w.state[c] = done
	return nil
}

// parts numbers the parts of a fabric that cables hold together, [node].
func parts(f *topology.Fabric) []int32 {
	part := make([]int32, len(f.Nodes))
	for i := range part {
		part[i] = -1
	}
	for i := range f.Nodes {
		if part[i] >= 0 || f.Nodes[i].Kind != topology.Switch {
			continue
		}
		part[i] = int32(i)
		for ahead := []int32{int32(i)}; len(ahead) > 0; ahead = ahead[1:] {
			for p := range f.Nodes[ahead[0]].Ports {
				port := &f.Nodes[ahead[0]].Ports[p]
				if !port.Up() || part[port.Peer] >= 0 {
					continue
				}
				part[port.Peer] = int32(i)
				if f.Nodes[port.Peer].Kind == topology.Switch {
					ahead = append(ahead, port.Peer)
				}
			}
		}
	}
	return part
}
