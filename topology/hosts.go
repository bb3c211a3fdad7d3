package topology

import (
	"fmt"
	"regexp"
	"slices"
	"sort"

	"github.com/forsd/forsd/ib"
)

// placeHosts gives every end port its index α, and decides which take part.
func (t *fitter) placeHosts(exclude *regexp.Regexp) {
	onLeaf, onSpine, present := t.attached(exclude)
	t.indexHosts(onLeaf, present)
	t.absentees(present)
	sort.Slice(onLeaf, func(a, b int) bool {
		x, y := &onLeaf[a], &onLeaf[b]
		return x.Leaf < y.Leaf || x.Leaf == y.Leaf && x.Alpha < y.Alpha
	})
	t.Hosts = slices.Concat(onLeaf, onSpine)
	for i := range t.Hosts {
		h := &t.Hosts[i]
		if h.Server = h.Leaf >= 0 && h.LID != 0 && takesPart(h, exclude); h.Server {
			t.Servers = append(t.Servers, i)
		}
	}
}

// takesPart reports whether a host should take part in the exchange, on or off the tree.
func takesPart(h *Host, exclude *regexp.Regexp) bool {
	return h.Role.TakesPart() && (exclude == nil || !exclude.MatchString(h.Name))
}

// attached lists the end ports on leaves, in order of leaf and leaf port, those
// on spines, in order of GUID, and the set of all port GUIDs that are attached. The
// others go to Routed. Those that should take part and cannot are uncovered.
func (t *fitter) attached(exclude *regexp.Regexp) (onLeaf, onSpine []Host, present map[ib.GUID]bool) {
	f := t.Fabric
	present = make(map[ib.GUID]bool, len(f.Nodes))
	holders := make(map[ib.GUID]PortRef, len(f.Nodes))
	for _, e := range f.EndPorts() {
		n := &f.Nodes[e.Node]
		port := f.At(e.PortRef)
		if n.Kind == Switch || !port.Up() || f.Nodes[port.Peer].Kind != Switch {
			continue
		}
		h := Host{EndPort: e, Name: n.Name, Role: n.Role, At: PortRef{port.Peer, port.PeerPort}, Leaf: t.leafAt[port.Peer], Spine: t.spineAt[port.Peer]}
		var why string
		switch at := &f.Nodes[port.Peer]; {
		case n.Role == AggregationNode:
		case t.level(port.Peer) == noSide:
			why = "is behind switch " + at.String()
		case h.Leaf < 0:
			why = "is on spine " + at.Label()
		case h.GUID == 0:
			why = "has no port GUID"
		case present[h.GUID]:
			why = fmt.Sprintf("at %s has the port GUID %s, as the one at %s", f.PortLabel(h.At), h.GUID, f.PortLabel(holders[h.GUID]))
		case h.LID == 0:
			why = "has no LID yet"
		}
		if why != "" && takesPart(&h, exclude) {
			t.strayHost(e.PortRef, "%s", why)
		}
		switch {
		case h.Leaf < 0 && h.Spine < 0: // lft finds them by their switch
		case n.Role == AggregationNode || h.GUID == 0 || present[h.GUID]:
			h.Alpha = max(h.Leaf, 0)
			t.Routed = append(t.Routed, h)
		case h.Leaf >= 0:
			onLeaf = append(onLeaf, h)
			present[h.GUID], holders[h.GUID] = true, h.At
		default:
			onSpine = append(onSpine, h)
			present[h.GUID], holders[h.GUID] = true, h.At
		}
	}
	sort.SliceStable(onLeaf, func(a, b int) bool {
		x, y := &onLeaf[a], &onLeaf[b]
		return x.Leaf < y.Leaf || x.Leaf == y.Leaf && x.At.Port < y.At.Port
	})
	return onLeaf, onSpine, present
}

// indexHosts finds each host's α in the baseline. A known port keeps its index; one
// on a port whose former adapter is gone from the fabric takes that index over;
// any other newcomer takes the lowest free one.
func (t *fitter) indexHosts(hosts []Host, present map[ib.GUID]bool) {
	type place struct{ leaf, alpha int }
	inside := make(map[ib.GUID]bool, len(t.Routed)) // old baselines may hold aggregation nodes
	for i := range t.Routed {
		inside[t.Routed[i].GUID] = !present[t.Routed[i].GUID]
	}
	known := make(map[ib.GUID]place)
	first := true // nothing is known yet: in a new baseline, nothing is news
	vacant := make([]bool, len(t.Baseline.Leaves))
	for l := range t.Baseline.Leaves {
		vacant[l] = len(t.Baseline.Leaves[l].Slots) == 0
		for a, s := range t.Baseline.Leaves[l].Slots {
			if inside[s.GUID] {
				t.Baseline.Leaves[l].Slots[a] = Slot{Place: s.Place}
			} else if s.GUID != 0 {
				known[s.GUID] = place{l, a}
				first = false
			}
		}
	}
	var newcomers []*Host
	for i := range hosts {
		h := &hosts[i]
		at, ok := known[h.GUID]
		if ok && at.leaf == h.Leaf {
			slot := &t.Baseline.Leaves[h.Leaf].Slots[at.alpha]
			h.Alpha, slot.Name, slot.LeafPort = at.alpha, h.Name, h.At.Port
			continue
		}
		if ok {
			was := &t.Baseline.Leaves[at.leaf].Slots[at.alpha]
			*was = Slot{Place: was.Place}
			t.report(HostMoved, "%s moved from leaf %s to leaf %s", t.Fabric.PortLabel(h.PortRef), t.Leaves[at.leaf].Name, t.Leaves[h.Leaf].Name)
		}
		newcomers = append(newcomers, h)
	}
	for _, h := range newcomers {
		replaced := t.takeSlot(h, present)
		if _, moved := known[h.GUID]; !moved && !replaced && !first {
			t.report(HostNew, "%s is new on %s: it has index %d", t.Fabric.PortLabel(h.PortRef), t.Fabric.PortLabel(h.At), h.Alpha)
		}
	}
	if first {
		t.Baseline.turn()
	} else {
		t.Baseline.turnNew(vacant)
	}
	for i := range hosts {
		hosts[i].First = t.Baseline.Leaves[hosts[i].Leaf].First
	}
}

// takeSlot gives a newcomer its index, records it in the baseline, and reports whether the
// newcomer replaced an adapter that is gone.
func (t *fitter) takeSlot(h *Host, present map[ib.GUID]bool) (replaced bool) {
	leaf := &t.Baseline.Leaves[h.Leaf]
	free := len(leaf.Slots)
	for a, s := range leaf.Slots {
		if s.GUID != 0 && s.LeafPort == h.At.Port && !present[s.GUID] {
			t.report(HostReplaced, "%s replaces port %s on %s", t.Fabric.PortLabel(h.PortRef), s.GUID, t.Fabric.PortLabel(h.At))
			free, replaced = a, true
			break
		}
		if s.GUID == 0 {
			free = min(free, a)
		}
	}
	if free == len(leaf.Slots) {
		leaf.Slots = append(leaf.Slots, Slot{})
	}
	leaf.Slots[free] = Slot{h.GUID, h.Name, h.At.Port, leaf.Slots[free].Place}
	h.Alpha = free
	return replaced
}

// absentees reports the baseline's host ports that the fabric lacks, unless
// their whole leaf is absent.
func (t *fitter) absentees(present map[ib.GUID]bool) {
	for l := range t.Baseline.Leaves {
		if t.Leaves[l].Node == None {
			continue
		}
		for _, s := range t.Baseline.Leaves[l].Slots {
			if s.GUID != 0 && !present[s.GUID] {
				t.reportAt(t.Leaves[l].GUID, s.LeafPort, HostAbsent, "%s (%s) on %s port %d is absent", s.Name, s.GUID, t.Leaves[l].Name, s.LeafPort)
			}
		}
	}
}
