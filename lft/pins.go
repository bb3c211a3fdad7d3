package lft

import (
	"fmt"

	"github.com/forsd/forsd/topology"
)

// Pins says over which lane a leaf sends to a server by each of its LIDs, where
// that is not LID base+j over lane FatTree.LIDLane as everywhere: with fewer LIDs
// than lanes, every leaf chooses for itself.
type Pins struct {
	LIDs int // of a server that are pinned, from its base LID on
	// Lane is [leaf][server][LID], leaves and servers as in FatTree.Leaves and
	// FatTree.Servers; negative where the rule holds.
	Lane []int16
}

// Pin says over which lane a leaf sends to a host on another leaf by one of its LIDs.
// Leaf and Host are as in FatTree.
type Pin struct {
	Leaf, Host int
	LID        int // from its base LID on
	Lane       int
}

// BuildPinned makes tables as Build does, but for the entries that are pinned; pins
// may be nil, and where there are more, these count. It fails, too, where a pinned lane is not Full at both leaves,
// where the server has no such LID, and where the lane's spine has several cables
// to a leaf: the spine knows the destination alone, and not over which cable a
// packet came.
func BuildPinned(t *topology.FatTree, pins *Pins, more ...Pin) (*Tables, error) {
	if err := t.Fabric.Validate(); err != nil {
		return nil, fmt.Errorf("build tables: %w", err)
	}
	if pins != nil {
		if err := pins.check(t); err != nil {
			return nil, fmt.Errorf("build tables: %w", err)
		}
	}
	for _, p := range more {
		if err := p.check(t); err != nil {
			return nil, fmt.Errorf("build tables: %w", err)
		}
	}
	tables := makeTables(t, pins)
	for _, p := range more {
		leaf := tables.Find(t.Leaves[p.Leaf].GUID)
		tables.Switches[leaf].Out[int(t.Hosts[p.Host].LID)+p.LID] = t.Leaves[p.Leaf].Cables[p.Lane].LeafPort
	}
	return tables, nil
}

// check tells whether the tree can carry the pin.
func (p Pin) check(t *topology.FatTree) error {
	h := &t.Hosts[p.Host]
	switch {
	case p.LID >= 1<<h.LMC:
		return fmt.Errorf("LID %d of %s is pinned, whose LMC is %d", p.LID, h.Name, h.LMC)
	case p.Lane >= t.Lanes || p.Leaf == h.Leaf || h.Leaf < 0 || !t.LaneUp(p.Leaf, p.Lane) || !t.LaneUp(h.Leaf, p.Lane):
		return fmt.Errorf("lane %d is pinned from leaf %d to %s on leaf %d: it does not join them", p.Lane, p.Leaf, h.Name, h.Leaf)
	case t.Spines[t.LaneOf[p.Lane]].Cables != 1:
		return fmt.Errorf("lane %d is pinned from leaf %d to %s: its spine has %d cables to a leaf, which need one LID a lane", p.Lane, p.Leaf, h.Name, t.Spines[t.LaneOf[p.Lane]].Cables)
	}
	return nil
}

// check tells whether the tree can carry the pins.
func (p *Pins) check(t *topology.FatTree) error {
	servers := len(t.Servers)
	if p.LIDs < 1 || len(p.Lane) != len(t.Leaves)*servers*p.LIDs {
		return fmt.Errorf("%d lanes are pinned, want one for each of %d leaves, %d servers and %d LIDs", len(p.Lane), len(t.Leaves), servers, p.LIDs)
	}
	for i, k := range p.Lane {
		if k < 0 {
			continue
		}
		leaf, j := i/p.LIDs/servers, i%p.LIDs
		if err := (Pin{leaf, t.Servers[i/p.LIDs%servers], j, int(k)}).check(t); err != nil {
			return err
		}
	}
	return nil
}

// pin replaces the pinned entries of the table of leaf l.
func (b *builder) pin(p *Pins, l int, out []uint8) {
	row := p.Lane[l*len(b.Servers)*p.LIDs:][:len(b.Servers)*p.LIDs]
	for s, i := range b.Servers {
		for j, k := range row[s*p.LIDs : (s+1)*p.LIDs] {
			if k >= 0 {
				out[int(b.Hosts[i].LID)+j] = b.Leaves[l].Cables[k].LeafPort
			}
		}
	}
}
