package lft

import (
	"bytes"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// completion adds the entries that the rules of the tree leave out though cables lead on:
// under heavy damage a switch may only be reachable by going down and up again at leaves
// other than the relay leaf. Each such entry leads to a neighbour that has one for the LID;
// it is added only if the channel dependency graph of all entries stays acyclic, so entries
// that might deadlock stay out.
type completion struct {
	fabric *topology.Fabric
	tables *Tables
	nodes  []int32 // [switch of the tables] node
	of     []int32 // [node] switch of the tables, -1 for adapters
	slow   map[topology.PortRef]bool
	order  [][]uint8   // [switch] its ports to switches, those with most cables first
	ports  int         // of the largest switch, port 0 included
	after  [][4]uint64 // [channel] ports of the next switch that some LID goes on by
	never  [][4]uint64 // [channel] those that would close a cycle
	found  []bool      // scratch memory of leads
	ahead  []int       // its stack
	added  []completed // in the current round
}

type completed struct {
	sw  int
	out uint8
}

// complete completes tables. Cables excluded from schedules are used last.
func complete(t *topology.FatTree, tables *Tables) {
	lids := LIDs(t.Fabric)
	if !slices.ContainsFunc(tables.Switches, func(s Table) bool { return bytes.Count(s.Out, []byte{NoPath}) > len(s.Out)-len(lids) }) {
		return
	}
	c := newCompletion(t, tables, lids)
	for _, e := range t.Fabric.EndPorts() {
		for lid := int(e.LID); e.LID != 0 && lid < int(e.LID)+1<<e.LMC; lid++ {
			for c.round(ib.LID(lid)) {
			}
		}
	}
}

func newCompletion(t *topology.FatTree, tables *Tables, lids []ib.LID) *completion {
	f := t.Fabric
	c := &completion{fabric: f, tables: tables, of: make([]int32, len(f.Nodes)), slow: map[topology.PortRef]bool{}}
	for i := range c.of {
		c.of[i] = -1
	}
	for i := range tables.Switches {
		node := f.Find(tables.Switches[i].GUID)
		c.nodes, c.of[node] = append(c.nodes, node), int32(i)
		c.ports = max(c.ports, len(f.Nodes[node].Ports))
	}
	for l := range t.Leaves {
		for _, cable := range t.Leaves[l].Cables {
			if cable.State == topology.Degraded {
				r := topology.PortRef{Node: t.Leaves[l].Node, Port: cable.LeafPort}
				p := f.At(r)
				c.slow[r], c.slow[topology.PortRef{Node: p.Peer, Port: p.PeerPort}] = true, true
			}
		}
	}
	c.sort()
	c.after = make([][4]uint64, len(c.nodes)*c.ports)
	c.never = make([][4]uint64, len(c.after))
	c.found = make([]bool, len(c.after))
	for _, lid := range lids {
		for s := range c.nodes {
			if out := tables.Port(s, lid); out != NoPath {
				if next := c.next(s, out); next >= 0 {
					c.follow(s, out, tables.Port(next, lid))
				}
			}
		}
	}
	return c
}

// sort fills order.
func (c *completion) sort() {
	c.order = make([][]uint8, len(c.nodes))
	for s, node := range c.nodes {
		for p := range min(len(c.fabric.Nodes[node].Ports), int(NoPath)) {
			if c.next(s, uint8(p)) >= 0 {
				c.order[s] = append(c.order[s], uint8(p))
			}
		}
	}
	cables := make([]int, len(c.nodes))
	for s := range c.nodes {
		cables[s] = len(c.order[s])
	}
	for s := range c.order {
		slices.SortStableFunc(c.order[s], func(a, b uint8) int { return cables[c.next(s, b)] - cables[c.next(s, a)] })
	}
}

// next returns the switch that a switch's port leads to, -1 if none.
func (c *completion) next(s int, port uint8) int {
	ports := c.fabric.Nodes[c.nodes[s]].Ports
	if port == 0 || int(port) >= len(ports) || !ports[port].Up() {
		return -1
	}
	return int(c.of[ports[port].Peer])
}

func (c *completion) channel(s int, port uint8) int { return s*c.ports + int(port) }

// follow records that some LID leaves a switch by a port and the next one by out.
func (c *completion) follow(s int, port, out uint8) {
	if out != NoPath {
		set(&c.after[c.channel(s, port)], out)
	}
}

func set(bits *[4]uint64, n uint8)      { bits[n/64] |= 1 << (n % 64) }
func has(bits *[4]uint64, n uint8) bool { return bits[n/64]&(1<<(n%64)) != 0 }

// round adds the entries for a LID that lead to switches which had one before. It reports
// whether there were any.
func (c *completion) round(lid ib.LID) bool {
	c.added = c.added[:0]
	for s := range c.nodes {
		if c.tables.Port(s, lid) == NoPath {
			if out := c.way(s, lid); out != NoPath {
				c.added = append(c.added, completed{s, out})
			}
		}
	}
	for _, e := range c.added {
		c.tables.Switches[e.sw].Out[lid] = e.out
	}
	return len(c.added) > 0
}

// way finds a port by which a LID may leave a switch: first one that other LIDs already use
// in the same way, then one to the neighbours with most cables. So packets turn up again at
// few switches, and channels depend on each other as little as possible.
func (c *completion) way(s int, lid ib.LID) uint8 {
	for _, slow := range []bool{false, true} {
		for _, known := range []bool{true, false} {
			for _, p := range c.order[s] {
				next := c.next(s, p)
				out := c.tables.Port(next, lid)
				if out == NoPath || c.slow[topology.PortRef{Node: c.nodes[s], Port: p}] != slow ||
					known && c.next(next, out) >= 0 && !has(&c.after[c.channel(s, p)], out) {
					continue
				}
				if c.mayFollow(s, p, next, out) && c.mayLead(s, p, lid) {
					return p
				}
			}
		}
	}
	return NoPath
}

// mayFollow reports whether a LID may go on from one channel to another without closing a
// cycle, and records it if so.
func (c *completion) mayFollow(s int, port uint8, next int, out uint8) bool {
	from, to := c.channel(s, port), c.channel(next, out)
	switch {
	case c.next(next, out) < 0 || has(&c.after[from], out):
		return true // the LID is delivered there, or another one already continues so
	case has(&c.never[from], out):
		return false
	case c.leads(to, from):
		set(&c.never[from], out)
		return false
	}
	set(&c.after[from], out)
	return true
}

// mayLead reports whether switches that already send a LID to a switch without an entry for
// it may have it continue by a port.
func (c *completion) mayLead(s int, out uint8, lid ib.LID) bool {
	for from := range c.nodes {
		if p := c.tables.Port(from, lid); p != NoPath && c.next(from, p) == s && !c.mayFollow(from, p, s, out) {
			return false
		}
	}
	return true
}

// leads reports whether one channel depends on another, directly or not.
func (c *completion) leads(from, to int) bool {
	clear(c.found)
	c.ahead = append(c.ahead[:0], from)
	for len(c.ahead) > 0 {
		at := c.ahead[len(c.ahead)-1]
		c.ahead = c.ahead[:len(c.ahead)-1]
		if at == to {
			return true
		}
		if c.found[at] {
			continue
		}
		c.found[at] = true
		next := c.next(at/c.ports, uint8(at%c.ports))
		if next < 0 {
			continue
		}
		for out := range c.ports {
			if out <= int(NoPath) && has(&c.after[at], uint8(out)) {
				c.ahead = append(c.ahead, c.channel(next, uint8(out)))
			}
		}
	}
	return false
}
