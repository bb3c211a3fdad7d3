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
// may be nil, and where there are more, these count. Entries that only complete tables
// depend on all others, lest packets wait in a ring, and so on the pins. It fails, too,
// where a pinned lane is not Full at both leaves, and where the server has no such LID.
// Where the lane's spine has several cables to a leaf, it has the LID down the cable of
// that lane, whatever it came by; so it fails where others come to the LID by another
// lane of the spine.
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
	if err := tables.pinSpines(t, pins, more); err != nil {
		return nil, fmt.Errorf("build tables: %w", err)
	}
	complete(t, tables)
	return tables, nil
}

// pinSpines has spines with several cables to a leaf lead pinned LIDs down the cable of
// their lane.
func (tables *Tables) pinSpines(t *topology.FatTree, pins *Pins, more []Pin) error {
	if t.Lanes == len(t.Spines) {
		return nil
	}
	all := more
	if pins != nil {
		for i, k := range pins.Lane {
			if k >= 0 {
				all = append(all, Pin{i / pins.LIDs / len(t.Servers), t.Servers[i/pins.LIDs%len(t.Servers)], i % pins.LIDs, int(k)})
			}
		}
	}
	type place struct {
		spine int
		lid   topology.LID
	}
	taken, pinned := map[place]int{}, map[Pin]bool{}
	served := make([]bool, len(t.Leaves))
	for _, i := range t.Servers {
		served[t.Hosts[i].Leaf] = true
	}
	for _, p := range all {
		pinned[Pin{p.Leaf, p.Host, p.LID, 0}] = true
	}
	carries := func(own int, p Pin) bool { // its own lane has the LID from servers to the host's leaf
		to := t.Hosts[p.Host].Leaf
		for l := range t.Leaves {
			if l != to && served[l] && t.LaneUp(l, own) && !pinned[Pin{l, p.Host, p.LID, 0}] {
				return t.LaneUp(to, own)
			}
		}
		return false
	}
	for _, p := range all {
		h := &t.Hosts[p.Host]
		at, own := place{t.LaneOf[p.Lane], h.LID + topology.LID(p.LID)}, t.LIDLane(h, p.LID)
		k, again := taken[at]
		if !again && t.LaneOf[own] == at.spine && carries(own, p) {
			k, again = own, true
		}
		if again && k != p.Lane {
			return fmt.Errorf("lane %d is pinned from leaf %d to LID %d of %s, and others come to it by lane %d of the same spine", p.Lane, p.Leaf, p.LID, h.Name, k)
		}
		taken[at] = p.Lane
		tables.Switches[tables.Find(t.Spines[at.spine].GUID)].Out[at.lid] = t.Leaves[h.Leaf].Cables[p.Lane].SpinePort
	}
	return nil
}

// check tells whether the tree can carry the pin.
func (p Pin) check(t *topology.FatTree) error {
	h := &t.Hosts[p.Host]
	switch {
	case p.LID >= 1<<h.LMC:
		return fmt.Errorf("LID %d of %s is pinned, whose LMC is %d", p.LID, h.Name, h.LMC)
	case p.Lane >= t.Lanes || p.Leaf == h.Leaf || h.Leaf < 0 || !t.LaneUp(p.Leaf, p.Lane) || !t.LaneUp(h.Leaf, p.Lane):
		return fmt.Errorf("lane %d is pinned from leaf %d to %s on leaf %d: it does not join them", p.Lane, p.Leaf, h.Name, h.Leaf)
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
