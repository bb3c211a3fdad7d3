package e2e

import (
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Reachable walks from every leaf to every LID of the fabric, on three levels only to those
// of hosts: tops may have no path up and down. A switch's own LID without such a path may be
// left out if every entry that would lead to it closes a ring of channels.
func (s *Sight) Reachable() error {
	lids := lft.LIDs(s.Tree.Fabric)
	if s.Pods != nil {
		lids = lids[:0]
		for i := range s.Pods.Hosts {
			for o := range 1 << s.Pods.Hosts[i].LMC {
				lids = append(lids, s.Pods.Hosts[i].LID+ib.LID(o))
			}
		}
	}
	switches := map[ib.LID]bool{}
	for i := range s.Tree.Fabric.Nodes {
		if n := &s.Tree.Fabric.Nodes[i]; n.Kind == topology.Switch {
			switches[n.LID()] = true
		}
	}
	var c *channels
	for l := range s.Tree.Leaves {
		leaf := &s.Tree.Leaves[l]
		if leaf.Node == topology.None {
			continue
		}
		for _, lid := range lids {
			_, err := s.Tables.Trace(s.Tree.Fabric, topology.PortRef{Node: leaf.Node}, lid)
			if err != nil && switches[lid] {
				if c == nil {
					c = newChannels(s)
				}
				if !c.left(leaf.Node, lid) { // it has no entry, and can have none
					continue
				}
			}
			if err != nil {
				return fmt.Errorf("from leaf %s: %w", leaf.Name, err)
			}
		}
	}
	return nil
}

// channels are the cables of switches, each in both directions by the port that sends, with
// the next channels of the LIDs that pass them.
type channels struct {
	*Sight
	follows map[topology.PortRef]map[topology.PortRef]bool
}

func newChannels(s *Sight) *channels {
	c := &channels{s, map[topology.PortRef]map[topology.PortRef]bool{}}
	f := s.Tree.Fabric
	for _, lid := range lft.LIDs(f) {
		for i := range f.Nodes {
			at, ok := c.by(int32(i), lid)
			if !ok {
				continue
			}
			if next, ok := c.by(f.At(at).Peer, lid); ok {
				if c.follows[at] == nil {
					c.follows[at] = map[topology.PortRef]bool{}
				}
				c.follows[at][next] = true
			}
		}
	}
	return c
}

// by is the channel to another switch by which a LID leaves a switch.
func (c *channels) by(node int32, lid ib.LID) (topology.PortRef, bool) {
	f := c.Tree.Fabric
	i := c.Tables.Find(f.Nodes[node].GUID)
	if i < 0 {
		return topology.PortRef{}, false
	}
	out := topology.PortRef{Node: node, Port: c.Tables.Port(i, lid)}
	ok := out.Port != lft.NoPath && int(out.Port) < len(f.Nodes[node].Ports) && f.At(out).Up() && f.Nodes[f.At(out).Peer].Kind == topology.Switch
	return out, ok
}

// left reports whether a switch without an entry for a LID could have one: by a neighbour that
// has one, without a ring of channels that wait for each other.
func (c *channels) left(node int32, lid ib.LID) bool {
	f := c.Tree.Fabric
	if i := c.Tables.Find(f.Nodes[node].GUID); i < 0 || c.Tables.Port(i, lid) != lft.NoPath {
		return true // it has an entry that does not lead there
	}
	for _, p := range f.Trunks(node) {
		at := topology.PortRef{Node: node, Port: p}
		peer := f.At(at).Peer
		if f.Nodes[peer].LID() == lid {
			return true
		}
		if next, ok := c.by(peer, lid); ok && !c.leads(next, at, map[topology.PortRef]bool{}) {
			return true
		}
	}
	return false
}

// leads reports whether a channel waits for another one, directly or by others.
func (c *channels) leads(from, to topology.PortRef, seen map[topology.PortRef]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for next := range c.follows[from] {
		if !seen[next] && c.leads(next, to, seen) {
			return true
		}
	}
	return false
}
