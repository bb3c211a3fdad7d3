package exclusions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Cause is a reason to keep a cable out of the plan, or several.
type Cause uint8

// The causes.
const (
	Isolated Cause = 1 << iota // its counters are bad
	Drained                    // in maintenance
	Any      = Isolated | Drained
)

// Set lists the cables that are kept out of the plan by decision, with the causes. Its zero value
// is empty.
type Set struct{ causes map[ib.End]Cause }

// Replace replaces the cables of a cause.
func (s *Set) Replace(why Cause, cables []ib.End) {
	if s.causes == nil {
		s.causes = map[ib.End]Cause{}
	}
	for c := range s.causes {
		if s.causes[c] &^= why; s.causes[c] == 0 {
			delete(s.causes, c)
		}
	}
	for _, c := range cables {
		s.causes[c] |= why
	}
}

// Has reports whether a cable is excluded for one of the causes.
func (s *Set) Has(why Cause, c ib.End) bool { return s.causes[c]&why != 0 }

// Lanes lists the lanes of a tree whose cables are excluded for one of the causes, in ascending
// order.
func (s *Set) Lanes(t *topology.FatTree, why Cause) (out []controller.Lane) {
	if len(s.causes) == 0 {
		return nil
	}
	for _, x := range Links(t) {
		if s.Has(why, x.Lower.End) {
			out = append(out, x.Lane)
		}
	}
	slices.SortFunc(out, controller.Compare)
	return out
}

// Link is a cable of a tree that plans can omit. On three levels it belongs to a leaf or to a
// mid. Its lower end, the leaf's on two levels, identifies it: the port that it is plugged into,
// or the baseline's port for a missing cable. Unlike the numbers of lanes, that remains valid when
// the baseline is accepted again.
type Link struct {
	Lane         controller.Lane // as the controller numbers it
	Index        int             // of the leaf's lane or, on three levels, of the plane or lane
	Lower, Upper SwitchEnd
	State        topology.CableState
	Meant        uint8 // the baseline's port at the lower end
}

// SwitchEnd is the end of a cable at a switch.
type SwitchEnd struct {
	ib.End
	Node int32 // topology.None if absent
	Name string
}

func switchEnd(node int32, guid ib.GUID, name string, port uint8) SwitchEnd {
	return SwitchEnd{ib.End{GUID: guid, Port: port}, node, name}
}

// Links lists the cables of a tree that are present, or that the baseline has.
func Links(t *topology.FatTree) []Link {
	all := make([]Link, 0, len(t.Leaves)*t.Lanes)
	add := func(lane controller.Lane, index int, lower, upper SwitchEnd, state topology.CableState, meant topology.Uplink) {
		switch state {
		case topology.NoCable:
			return
		case topology.Missing:
			lower.Port, upper.Port = meant.LeafPort, meant.SpinePort
		}
		if lower.Port != 0 {
			all = append(all, Link{lane, index, lower, upper, state, meant.LeafPort})
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
			add(controller.Lane{Leaf: l, Lane: k}, k, switchEnd(leaf.Node, leaf.GUID, leaf.Name, c.LeafPort), switchEnd(spine.Node, spine.GUID, spine.Name, c.SpinePort), c.State, t.Baseline.Leaves[l].Uplinks[k])
		}
	}
	return all
}

// podLinks is Links for three levels. The controller's lanes are the planes of the leaves and,
// after these, the lanes of the mids.
func podLinks(t *topology.PodTree, add func(lane controller.Lane, index int, lower, upper SwitchEnd, state topology.CableState, meant topology.Uplink)) {
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		for j, c := range leaf.Cables {
			mid := t.Mid(leaf.Pod, j)
			add(controller.Lane{Leaf: l, Lane: j}, j, switchEnd(leaf.Node, leaf.GUID, leaf.Name, c.LeafPort), switchEnd(mid.Node, mid.GUID, mid.Name, c.SpinePort), c.State, t.Baseline.Leaves[l].Uplinks[j])
		}
	}
	for m := range t.Mids {
		mid := &t.Mids[m]
		first, end := t.LanesOf(m)
		for k := first; k < end; k++ {
			c, top := mid.Cables[k], &t.Tops[t.Lanes[k].Top]
			add(controller.Lane{Leaf: m, Lane: t.Planes + k}, k, switchEnd(mid.Node, mid.GUID, mid.Name, c.LeafPort), switchEnd(top.Node, top.GUID, top.Name, c.SpinePort), c.State, t.Baseline.Mids[m].Uplinks[k-first])
		}
	}
}

// Event is an input of the machine.
type Event interface{ event() }

// Tick reports that time has passed; see Drains.Wake.
type Tick struct{}

// Load replaces all drains by stored ones, or by those of the leader. Unless Led is set, parts
// may have come into use since, and none is safe to pull until it is looked at.
type Load struct {
	Drains []Drain
	Led    bool // this forsd follows the leader
}

// Order drains a part at its time.
type Order struct{ Drain }

// End gives a part back.
type End struct{ Part }

// Settled reports that plans and tables in force fit the fabric and the withheld parts.
type Settled struct{}

// Looked answers Look with the remaining uses of each examined part.
type Looked struct{ Uses map[Part][]string }

func (Tick) event()    {}
func (Load) event()    {}
func (Order) event()   {}
func (End) event()     {}
func (Settled) event() {}
func (Looked) event()  {}

// Action is an output of the machine; its String is its form in transcripts.
type Action interface{ String() string }

// Follow requests that plans and tables follow a changed set of drained parts, and that the
// drains are stored. Why describes the decision.
type Follow struct{ Why string }

// Keep requests that the drains are stored.
type Keep struct{}

// Look requests the uses of the drained parts. Looked answers it, unless another Look follows.
type Look struct{}

// Tell reports a change of a drain.
type Tell struct {
	Drain Drain
	What  string
}

func (a Follow) String() string { return "follow: " + a.Why }
func (Keep) String() string     { return "keep" }
func (Look) String() string     { return "look" }

func (a Tell) String() string {
	s := fmt.Sprintf("%s: %s", a.Drain.Name, a.What)
	if len(a.Drain.Uses) > 0 {
		s += " (" + strings.Join(a.Drain.Uses, "; ") + ")"
	}
	return s
}
