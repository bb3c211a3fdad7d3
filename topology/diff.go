package topology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/forsd/forsd/ib"
)

// ChangeKind is the kind of a Change, a stable code.
type ChangeKind string

// The kinds of changes, in the order in which Diff lists them.
const (
	ChangeNodeGone    ChangeKind = "node-gone"
	ChangeNodeNew     ChangeKind = "node-new"
	ChangeNodeRenamed ChangeKind = "node-renamed"
	ChangeCableDown   ChangeKind = "cable-down"
	ChangeCableMoved  ChangeKind = "cable-moved"
	ChangeCableUp     ChangeKind = "cable-up"
	ChangeCableRate   ChangeKind = "cable-rate"
	ChangeLID         ChangeKind = "lid-changed"
	ChangeLMC         ChangeKind = "lmc-changed"
)

// CableEnd is an end of a cable in terms that outlast a fabric's node indices.
type CableEnd struct {
	Node ib.GUID `json:"node"`
	Port uint8   `json:"port"`
}

// Change is one difference between two fabrics.
type Change struct {
	Kind ChangeKind `json:"kind"`
	Text string     `json:"text"` // the change in words, such as "Leaf007 port 31 – Spine010 port 8 went down"
	// At is the cable's end nearer to the hosts, the port whose LID or LMC changed, or the
	// node, with port 0. Peer is the cable's other end, zero if the change is not about a
	// cable. A moved cable is given at its present place.
	At   CableEnd `json:"at"`
	Peer CableEnd `json:"peer"`
}

// Diff lists what changed from old to new, in a fixed order: by kind, switches
// before other nodes, then by GUID and port. A cable counts as there while both
// its ends are Active, a node while it has such a cable; a node that appears or
// disappears is one change, and its cables are none. A cable that went down
// while another came up between the same two nodes, or at one of its two ports,
// has moved.
func Diff(before, after *Fabric) []Change {
	d := differ{old: &half{Fabric: before, live: liveNodes(before)}, new: &half{Fabric: after, live: liveNodes(after), later: true}}
	d.old.other, d.new.other = d.new, d.old
	d.old.twin, d.new.twin = twins(before, after)
	d.nodes()
	d.cables()
	d.lids()
	order := map[ChangeKind]int{}
	for i, k := range []ChangeKind{ChangeNodeGone, ChangeNodeNew, ChangeNodeRenamed, ChangeCableDown, ChangeCableMoved, ChangeCableUp, ChangeCableRate, ChangeLID, ChangeLMC} {
		order[k] = i
	}
	slices.SortStableFunc(d.changes, func(a, b Change) int { return cmp.Compare(order[a.Kind], order[b.Kind]) })
	return d.changes
}

// differ compares two fabrics.
type differ struct {
	old, new *half
	names    map[string]ib.GUID // the node with a name, 0 if several have it; built on first use
	changes  []Change
}

// half is one of the two fabrics compared.
type half struct {
	*Fabric
	later bool // it is the new one
	other *half
	live  []bool  // [node] whether the node has a cable that is up
	twin  []int32 // [node] the same GUID's index in the other fabric, or None
}

// liveNodes returns, by node, whether it has a cable that is up at both ends.
func liveNodes(f *Fabric) []bool {
	live := make([]bool, len(f.Nodes))
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if f.cableUp(PortRef{int32(i), uint8(p)}) {
				live[i] = true
				break
			}
		}
	}
	return live
}

// cableUp reports whether the port has a cable that is up at both its ends.
func (f *Fabric) cableUp(r PortRef) bool {
	p := f.At(r)
	return p.Up() && f.Nodes[p.Peer].Ports[p.PeerPort].Up()
}

// twins pairs the nodes of two fabrics by GUID; both lists ascend.
func twins(before, after *Fabric) (old, young []int32) {
	old, young = slices.Repeat([]int32{None}, len(before.Nodes)), slices.Repeat([]int32{None}, len(after.Nodes))
	for i, j := 0, 0; i < len(before.Nodes) && j < len(after.Nodes); {
		switch a, b := before.Nodes[i].GUID, after.Nodes[j].GUID; {
		case a == b:
			old[i], young[j] = int32(j), int32(i)
			i, j = i+1, j+1
		case a < b:
			i++
		default:
			j++
		}
	}
	return old, young
}

// shared reports whether several nodes of either fabric have a name.
func (d *differ) shared(name string) bool {
	if d.names == nil {
		d.names = make(map[string]ib.GUID, len(d.old.Nodes))
		for _, f := range []*half{d.old, d.new} {
			for i := range f.Nodes {
				n := &f.Nodes[i]
				if g, seen := d.names[n.Name]; seen && g != n.GUID {
					d.names[n.Name] = 0
				} else {
					d.names[n.Name] = n.GUID
				}
			}
		}
	}
	return d.names[name] == 0
}

// label names a node by its description, with its GUID where that is shared.
func (d *differ) label(n *Node) string {
	if d.shared(n.Name) {
		return n.String()
	}
	return n.Label()
}

func (d *differ) portLabel(f *half, r PortRef) string {
	n := &f.Nodes[r.Node]
	if n.Kind == Switch && r.Port == 0 {
		return d.label(n)
	}
	return fmt.Sprintf("%s port %d", d.label(n), r.Port)
}

func (f *half) end(r PortRef) CableEnd { return CableEnd{f.Nodes[r.Node].GUID, r.Port} }

func (d *differ) add(kind ChangeKind, at, peer CableEnd, format string, args ...any) {
	d.changes = append(d.changes, Change{kind, fmt.Sprintf(format, args...), at, peer})
}

// stays reports whether a node is live in both fabrics.
func (f *half) stays(node int32) bool {
	twin := f.twin[node]
	return f.live[node] && twin != None && f.other.live[twin]
}

// nodes reports nodes that disappeared, appeared or were renamed.
func (d *differ) nodes() {
	for _, f := range []*half{d.old, d.new} {
		kind, verb := ChangeNodeGone, "disappeared"
		if f.later {
			kind, verb = ChangeNodeNew, "appeared"
		}
		for _, i := range switchesFirst(f.Fabric) {
			n := &f.Nodes[i]
			if f.live[i] && !f.stays(i) && n.Role != AggregationNode { // which comes and goes with its switch
				d.add(kind, CableEnd{Node: n.GUID}, CableEnd{}, "%s %s %s (%s)", n.Kind, d.label(n), verb, f.attachment(i, d.label))
			}
		}
	}
	for _, i := range switchesFirst(d.new.Fabric) {
		if !d.new.stays(i) {
			continue
		}
		was, is := &d.old.Nodes[d.new.twin[i]], &d.new.Nodes[i]
		if was.Name != is.Name {
			d.add(ChangeNodeRenamed, CableEnd{Node: is.GUID}, CableEnd{}, "%s %s is now called %q (was %q)", is.Kind, is.GUID, is.Name, was.Name)
		}
	}
}

// switchesFirst lists the nodes' indices, switches before the others.
func switchesFirst(f *Fabric) []int32 {
	order := make([]int32, 0, len(f.Nodes))
	for _, switches := range []bool{true, false} {
		for i := range f.Nodes {
			if (f.Nodes[i].Kind == Switch) == switches {
				order = append(order, int32(i))
			}
		}
	}
	return order
}

// attachment says in words what a node's live cables are: the far end of the
// only one, or their number.
func (f *half) attachment(node int32, label func(*Node) string) string {
	cables := 0
	var last PortRef
	for p := range f.Nodes[node].Ports {
		if f.cableUp(PortRef{node, uint8(p)}) && !f.inside(PortRef{node, uint8(p)}) {
			cables++
			last = PortRef{node, uint8(p)}
		}
	}
	if cables == 1 {
		far := f.At(last)
		return fmt.Sprintf("on %s port %d", label(&f.Nodes[far.Peer]), far.PeerPort)
	}
	return fmt.Sprintf("%d cables", cables)
}

// lids reports new LIDs and LMCs of ports that have a LID in both fabrics.
func (d *differ) lids() {
	for _, i := range switchesFirst(d.new.Fabric) {
		j := d.new.twin[i]
		if j == None {
			continue
		}
		was, is := &d.old.Nodes[j], &d.new.Nodes[i]
		if is.Role == AggregationNode {
			continue
		}
		for p := 0; p < min(len(was.Ports), len(is.Ports)); p++ {
			a, b, ref := &was.Ports[p], &is.Ports[p], PortRef{i, uint8(p)}
			if a.LID == 0 || b.LID == 0 {
				continue
			}
			if a.LID != b.LID {
				d.add(ChangeLID, d.new.end(ref), CableEnd{}, "%s has LID %d (was %d)", d.portLabel(d.new, ref), b.LID, a.LID)
			}
			if a.LMC != b.LMC {
				d.add(ChangeLMC, d.new.end(ref), CableEnd{}, "%s has LMC %d (was %d)", d.portLabel(d.new, ref), b.LMC, a.LMC)
			}
		}
	}
}
