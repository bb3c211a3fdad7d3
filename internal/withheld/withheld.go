// Package withheld records the cables that must stay out of the plan by decision, and the
// origin of each decision: cables with bad counters, and cables in maintenance. The reasons for
// a decision are up to the packages that decide.
package withheld

import (
	"iter"
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

// Links goes over the cables of a tree that are present, or that the baseline has.
func Links(t *topology.FatTree) iter.Seq[Link] {
	return func(yield func(Link) bool) {
		if t.Pods != nil {
			podLinks(t.Pods, yield)
			return
		}
		for l := range t.Leaves {
			leaf := &t.Leaves[l]
			for k, c := range leaf.Cables {
				spine := &t.Spines[t.LaneOf[k]]
				x := Link{Lane: controller.Lane{Leaf: l, Lane: k}, Index: k, Lower: End{leaf.Node, leaf.GUID, leaf.Name, c.LeafPort}, Upper: End{spine.Node, spine.GUID, spine.Name, c.SpinePort}, State: c.State}
				if x.present(t.Baseline.Leaves[l].Uplinks[k]) && !yield(x) {
					return
				}
			}
		}
	}
}

// present reports whether a cable is present or the baseline has it, and completes it.
func (x *Link) present(meant topology.Uplink) bool {
	if x.State == topology.Missing {
		x.Lower.Port, x.Upper.Port = meant.LeafPort, meant.SpinePort
	}
	x.Cable, x.Meant = Cable{x.Lower.GUID, x.Lower.Port}, meant.LeafPort
	return x.State != topology.NoCable && x.Port != 0
}

// podLinks is Links for three levels. The controller's lanes are the planes of the leaves and,
// after these, the lanes of the mids.
func podLinks(t *topology.PodTree, yield func(Link) bool) {
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		for j, c := range leaf.Cables {
			mid := t.Mid(leaf.Pod, j)
			x := Link{Lane: controller.Lane{Leaf: l, Lane: j}, Index: j, Lower: End{leaf.Node, leaf.GUID, leaf.Name, c.Port}, Upper: End{mid.Node, mid.GUID, mid.Name, c.PeerPort}, State: c.State}
			if x.present(t.Baseline.Leaves[l].Uplinks[j]) && !yield(x) {
				return
			}
		}
	}
	for m := range t.Mids {
		mid := &t.Mids[m]
		first, end := t.LanesOf(m)
		for k := first; k < end; k++ {
			c, top := mid.Cables[k], &t.Tops[t.Lanes[k].Top]
			x := Link{Lane: controller.Lane{Leaf: m, Lane: t.Planes + k}, Index: k, Lower: End{mid.Node, mid.GUID, mid.Name, c.Port}, Upper: End{top.Node, top.GUID, top.Name, c.PeerPort}, State: c.State}
			if x.present(t.Baseline.Mids[m].Uplinks[k-first]) && !yield(x) {
				return
			}
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
	for x := range Links(t) {
		if slices.ContainsFunc(causes, func(why Cause) bool { return b.Has(why, x.Cable) }) {
			out = append(out, x.Lane)
		}
	}
	slices.SortFunc(out, controller.Compare)
	return out
}
