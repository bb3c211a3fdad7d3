package topology

import (
	"fmt"
	"regexp"
	"sort"
)

// placeHosts gives every end port its index α and role.
func (t *fitter) placeHosts(exclude *regexp.Regexp) error {
	onLeaf, onSpine, present := t.attached()
	t.settle(onLeaf, present)
	t.absentees(present)
	for _, group := range [][]Host{onLeaf, onSpine} {
		for i := range group {
			h := &group[i]
			node := &t.Fabric.Nodes[h.Node]
			h.Server = h.Leaf >= 0 && node.Kind == Adapter && (exclude == nil || !exclude.MatchString(node.Name))
		}
	}
	sort.Slice(onLeaf, func(a, b int) bool {
		x, y := &onLeaf[a], &onLeaf[b]
		return x.Leaf < y.Leaf || x.Leaf == y.Leaf && x.Alpha < y.Alpha
	})
	t.Hosts = append(onLeaf, onSpine...)
	for i := range t.Hosts {
		if h := &t.Hosts[i]; h.Server {
			if h.LID == 0 {
				return fmt.Errorf("%s has no LID: the subnet manager has not brought it up yet", t.Fabric.PortLabel(h.PortRef))
			}
			t.Servers = append(t.Servers, i)
		}
	}
	return nil
}

// attached lists the end ports on leaves, in order of leaf and leaf port, those
// on spines, in order of GUID, and the set of all port GUIDs that are attached.
func (t *fitter) attached() (onLeaf, onSpine []Host, present map[GUID]bool) {
	f := t.Fabric
	present = make(map[GUID]bool, len(f.Nodes))
	for _, e := range f.EndPorts() {
		n := &f.Nodes[e.Node]
		port := f.At(e.PortRef)
		if n.Kind == Switch || !port.Up() {
			continue
		}
		h := Host{EndPort: e, Name: n.Name, At: PortRef{port.Peer, port.PeerPort}, Leaf: t.leafAt[port.Peer], Spine: t.spineAt[port.Peer]}
		switch {
		case h.Leaf >= 0:
			onLeaf = append(onLeaf, h)
		case h.Spine >= 0:
			t.report(HostOnSpine, "%s is on spine %s: it stays routed and takes no part in the exchange", f.PortLabel(e.PortRef), t.Spines[h.Spine].Name)
			onSpine = append(onSpine, h)
		default:
			continue
		}
		present[e.GUID] = true
	}
	sort.SliceStable(onLeaf, func(a, b int) bool {
		x, y := &onLeaf[a], &onLeaf[b]
		return x.Leaf < y.Leaf || x.Leaf == y.Leaf && x.At.Port < y.At.Port
	})
	return onLeaf, onSpine, present
}

// settle finds each host's α in the baseline. A known port keeps its index; one
// on a port whose former adapter is gone from the fabric takes that index over;
// any other newcomer takes the lowest free one.
func (t *fitter) settle(hosts []Host, present map[GUID]bool) {
	type place struct{ leaf, alpha int }
	known := make(map[GUID]place)
	first := true // nothing known yet: this is a new baseline, and nothing is news
	for l := range t.Baseline.Leaves {
		for a, s := range t.Baseline.Leaves[l].Slots {
			if s.GUID != 0 {
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
			t.Baseline.Leaves[at.leaf].Slots[at.alpha] = Slot{}
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
}

// takeSlot gives a newcomer its index, records it in the baseline, and tells
// whether the newcomer took the place of an adapter that is gone.
func (t *fitter) takeSlot(h *Host, present map[GUID]bool) (replaced bool) {
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
	leaf.Slots[free] = Slot{h.GUID, h.Name, h.At.Port}
	h.Alpha = free
	return replaced
}

// absentees reports the baseline's host ports that the fabric lacks, unless
// their whole leaf is absent.
func (t *fitter) absentees(present map[GUID]bool) {
	for l := range t.Baseline.Leaves {
		if t.Leaves[l].Node == None {
			continue
		}
		for _, s := range t.Baseline.Leaves[l].Slots {
			if s.GUID != 0 && !present[s.GUID] {
				t.report(HostAbsent, "%s (%s) on %s port %d is absent", s.Name, s.GUID, t.Leaves[l].Name, s.LeafPort)
			}
		}
	}
}
