// Package lft builds, writes, reads and checks linear forwarding tables: for
// every switch, the output port of every LID in use.
package lft

import (
	"slices"
	"sort"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// NoPath in a table means that the LID has no entry.
const NoPath uint8 = 0xFF

// Table is the linear forwarding table of one switch.
type Table struct {
	GUID  ib.GUID
	LID   ib.LID // the switch's own LID, 0 if not known
	Name  string
	Ports int     // number of external ports, 0 if not known
	Out   []uint8 // [LID] output port, NoPath without an entry; 0 delivers to the switch itself
}

// Tables is the forwarding of a whole fabric. Switches are in ascending order
// of GUID; all Out slices have the same length.
type Tables struct {
	Switches []Table
}

// Clone returns a copy of the tables.
func (t *Tables) Clone() *Tables {
	out := &Tables{Switches: slices.Clone(t.Switches)}
	for i := range out.Switches {
		out.Switches[i].Out = slices.Clone(out.Switches[i].Out)
	}
	return out
}

// Find returns the index of the switch with GUID g, or -1.
func (t *Tables) Find(g ib.GUID) int {
	i := sort.Search(len(t.Switches), func(i int) bool { return t.Switches[i].GUID >= g })
	if i < len(t.Switches) && t.Switches[i].GUID == g {
		return i
	}
	return -1
}

// Port returns the output port of lid at switch i, NoPath beyond the table.
func (t *Tables) Port(i int, lid ib.LID) uint8 {
	if out := t.Switches[i].Out; int(lid) < len(out) {
		return out[lid]
	}
	return NoPath
}

// LIDs lists the LIDs in use in f, in ascending order.
func LIDs(f *topology.Fabric) []ib.LID {
	var used [int(ib.MaxUnicastLID) + 1]bool
	count := 0
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if port.LID == 0 {
				continue
			}
			for lid := int(port.LID); lid < min(len(used), int(port.LID)+1<<port.LMC); lid++ {
				if !used[lid] {
					used[lid] = true
					count++
				}
			}
		}
	}
	lids := make([]ib.LID, 0, count)
	for lid, u := range used {
		if u {
			lids = append(lids, ib.LID(lid))
		}
	}
	return lids
}
