// Package withheld records the cables that must stay out of the plan by decision, and the
// origin of each decision: cables with bad counters, and cables in maintenance. The reasons for
// a decision are up to the packages that decide.
package withheld

import (
	"slices"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Cable identifies a cable between switches by its lower end, the leaf's on two levels: the
// port that it is plugged into, or the baseline's port for a missing cable. Unlike the numbers
// of lanes, it remains valid when the baseline is accepted again.
type Cable struct {
	Leaf ib.GUID `json:"leaf"`
	Port uint8   `json:"port"`
}

// Link is a cable of a tree that plans can omit. On three levels it belongs to a leaf or to a
// mid.
type Link struct {
	Cable
	Lane         controller.Lane // as the controller numbers it
	Index        int             // of the leaf's lane or, on three levels, of the plane or lane
	Lower, Upper End
	State        topology.CableState
	Meant        uint8 // the baseline's port at the lower end
}

// End is a switch with the port of a cable.
type End struct {
	Node int32 // topology.None if absent
	GUID ib.GUID
	Name string
	Port uint8
}

// Links lists the cables of a tree that are present, or that the baseline has.
func Links(t *topology.FatTree) []Link {
	all := make([]Link, 0, len(t.Leaves)*t.Lanes)
	add := func(lane controller.Lane, index int, lower, upper End, state topology.CableState, meant topology.Uplink) {
		switch state {
		case topology.NoCable:
			return
		case topology.Missing:
			lower.Port, upper.Port = meant.LeafPort, meant.SpinePort
		}
		if lower.Port != 0 {
			all = append(all, Link{Cable{lower.GUID, lower.Port}, lane, index, lower, upper, state, meant.LeafPort})
		}
	}
	if t.Pods != nil {
		podLinks(t.Pods, add)
		return all
	}
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		for k, c := range leaf.Cables {
			spine := &t.Spines[t.LaneOf[k]]
			add(controller.Lane{Leaf: l, Lane: k}, k, End{leaf.Node, leaf.GUID, leaf.Name, c.LeafPort}, End{spine.Node, spine.GUID, spine.Name, c.SpinePort}, c.State, t.Baseline.Leaves[l].Uplinks[k])
		}
	}
	return all
}

// podLinks is Links for three levels. The controller's lanes are the planes of the leaves and,
// after these, the lanes of the mids.
func podLinks(t *topology.PodTree, add func(lane controller.Lane, index int, lower, upper End, state topology.CableState, meant topology.Uplink)) {
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		for j, c := range leaf.Cables {
			mid := t.Mid(leaf.Pod, j)
			add(controller.Lane{Leaf: l, Lane: j}, j, End{leaf.Node, leaf.GUID, leaf.Name, c.Port}, End{mid.Node, mid.GUID, mid.Name, c.PeerPort}, c.State, t.Baseline.Leaves[l].Uplinks[j])
		}
	}
	for m := range t.Mids {
		mid := &t.Mids[m]
		first, end := t.LanesOf(m)
		for k := first; k < end; k++ {
			c, top := mid.Cables[k], &t.Tops[t.Lanes[k].Top]
			add(controller.Lane{Leaf: m, Lane: t.Planes + k}, k, End{mid.Node, mid.GUID, mid.Name, c.Port}, End{top.Node, top.GUID, top.Name, c.PeerPort}, c.State, t.Baseline.Mids[m].Uplinks[k-first])
		}
	}
}

// Cause is the origin of a decision.
type Cause string

// The causes.
const (
	Isolated Cause = "isolated" // its counters are bad
	Drained  Cause = "drained"  // in maintenance
)

// Book records decisions. Its zero value is empty.
type Book struct{ by map[Cause]map[Cable]bool }

// Set replaces the decisions of a cause.
func (b *Book) Set(why Cause, cables []Cable) {
	if b.by == nil {
		b.by = map[Cause]map[Cable]bool{}
	}
	set := make(map[Cable]bool, len(cables))
	for _, c := range cables {
		set[c] = true
	}
	b.by[why] = set
}

// Has reports whether a cable is withheld for a cause.
func (b *Book) Has(why Cause, c Cable) bool { return b.by[why][c] }

// Lanes lists the lanes of a tree whose cables are withheld for one of the causes, in ascending
// order. Without causes it lists those for any cause.
func (b *Book) Lanes(t *topology.FatTree, causes ...Cause) []controller.Lane {
	if len(causes) == 0 {
		causes = []Cause{Isolated, Drained}
	}
	causes = slices.DeleteFunc(slices.Clone(causes), func(why Cause) bool { return len(b.by[why]) == 0 })
	if len(causes) == 0 {
		return nil
	}
	var out []controller.Lane
	for _, x := range Links(t) {
		if slices.ContainsFunc(causes, func(why Cause) bool { return b.Has(why, x.Cable) }) {
			out = append(out, x.Lane)
		}
	}
	slices.SortFunc(out, controller.Compare)
	return out
}
