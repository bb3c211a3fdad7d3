package lft

import (
	"fmt"

	"github.com/forsd/forsd/topology"
)

// Pins is over which lane a leaf sends to a server by each of its LIDs, if not by the rule
// of FatTree.LIDLane: with fewer LIDs than lanes, every leaf chooses for itself.
type Pins struct {
	LIDs int // of a server that are pinned, from its base LID on
	// Lane is [leaf][server][LID], leaves and servers as in FatTree.Leaves and
	// FatTree.Servers; negative where the rule applies.
	Lane []int16
	// Down is [server][LID][lane] the lane by which the spine of a lane forwards a LID, if
	// it has several cables to the server's leaf; negative where the rule applies, nil if
	// it always does.
	Down []int16
}

// Pin is over which lane a leaf sends to a host on another leaf by one of its LIDs. Leaf
// and Host are as in FatTree.
type Pin struct {
	Leaf, Host int
	LID        int // from its base LID on
	Lane       int
}

// BuildPinned makes tables as Build does, except for the pinned entries; pins may be nil,
// and more takes precedence over it. Entries that only complete the tables depend on all
// others, and so on the pins, because they must not close a cycle. It also fails if a
// pinned lane does not lead to the server, or the server has no such LID.
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
	if pins != nil && pins.Down != nil {
		tables.pinSpines(t, pins)
	}
	complete(t, tables)
	return tables, nil
}

// pinSpines makes spines forward LIDs down the pinned lanes.
func (tables *Tables) pinSpines(t *topology.FatTree, pins *Pins) {
	for i, down := range pins.Down {
		if down < 0 {
			continue
		}
		h := &t.Hosts[t.Servers[i/t.Lanes/pins.LIDs]]
		spine := tables.Find(t.Spines[t.LaneOf[i%t.Lanes]].GUID)
		tables.Switches[spine].Out[int(h.LID)+i/t.Lanes%pins.LIDs] = t.Leaves[h.Leaf].Cables[down].SpinePort
	}
}

// check returns an error if the tree cannot carry the pin.
func (p Pin) check(t *topology.FatTree) error {
	h := &t.Hosts[p.Host]
	switch {
	case p.LID >= 1<<h.LMC:
		return fmt.Errorf("LID %d of %s is pinned, whose LMC is %d", p.LID, h.Name, h.LMC)
	case p.Lane >= t.Lanes || p.Leaf == h.Leaf || h.Leaf < 0 || !t.LaneUp(p.Leaf, p.Lane) || !leadsTo(t, h.Leaf, p.Lane):
		return fmt.Errorf("lane %d is pinned from leaf %d to %s on leaf %d: it does not join them", p.Lane, p.Leaf, h.Name, h.Leaf)
	}
	return nil
}

// leadsTo reports whether the spine of a lane has a cable to a leaf that schedules may use.
func leadsTo(t *topology.FatTree, leaf, lane int) bool {
	s := &t.Spines[t.LaneOf[lane]]
	for k := s.First; k < s.First+s.Cables; k++ {
		if t.LaneUp(leaf, k) {
			return true
		}
	}
	return false
}

// check returns an error if the tree cannot carry the pins.
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
	if p.Down != nil && len(p.Down) != servers*p.LIDs*t.Lanes {
		return fmt.Errorf("%d lanes down are pinned, want one for each of %d servers, %d LIDs and %d lanes", len(p.Down), servers, p.LIDs, t.Lanes)
	}
	for i, k := range p.Down {
		if h := &t.Hosts[t.Servers[i/t.Lanes/p.LIDs]]; k >= 0 && (int(k) >= t.Lanes || t.LaneOf[k] != t.LaneOf[i%t.Lanes] || !t.LaneUp(h.Leaf, int(k))) {
			return fmt.Errorf("lane %d is pinned down to %s for what comes up by lane %d: it is of another spine or down", k, h.Name, i%t.Lanes)
		}
	}
	return nil
}

// pin replaces the pinned entries of the table of leaf l.
func (b *builder) pin(p *Pins, l int, out []uint8) {
	row := p.Lane[l*len(b.Servers)*p.LIDs:]
	for s, i := range b.Servers {
		for j, k := range row[s*p.LIDs : (s+1)*p.LIDs] {
			if k >= 0 {
				out[int(b.Hosts[i].LID)+j] = b.Leaves[l].Cables[k].LeafPort
			}
		}
	}
}
