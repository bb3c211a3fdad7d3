package fabgen

import (
	"fmt"
	"math/rand/v2"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// OddFabric is a fat tree with parts that a fat tree does not have.
type OddFabric struct {
	Tree   *topology.Fabric // before
	Fabric *topology.Fabric // with the odd parts, and other LIDs
	What   []string         // the odd parts in words
	// The parts that the tree does not cover: switches by node GUID, hosts by port GUID,
	// and the number of cables.
	Switches map[ib.GUID]bool
	Hosts    map[ib.GUID]bool
	Cables   int
}

// GUIDs of odd nodes count up from here, in steps that leave room for port GUIDs.
const oddGUID ib.GUID = 0x900000

// Odd draws a fat tree with one to four odd parts. One in twenty is so large that a host
// is less than a hundredth of it.
func Odd(rng *rand.Rand) *OddFabric {
	s := Spec{Spines: 2 + rng.IntN(5), Leaves: 4 + rng.IntN(5), Cables: 1 + rng.IntN(2), LMC: uint8(rng.IntN(4)), Shuffle: rng.Uint64()}
	if s.Cables > 1 {
		s.LMC = 4 // an LID a lane, which parallel cables need
	}
	if rng.IntN(20) == 0 {
		s.Spines, s.Leaves, s.Cables = 15+rng.IntN(6), 15+rng.IntN(6), 1
	}
	s.Hosts = []int{max(3, s.Spines), max(3, s.Spines-1)}
	o := &odd{rng: rng, spec: s, f: Generate(s), next: oddGUID, out: &OddFabric{Switches: map[ib.GUID]bool{}, Hosts: map[ib.GUID]bool{}}}
	o.out.Tree = o.f
	o.f = o.f.Clone()
	parts := []func(){o.chain, o.chain, o.bridge, o.hostOnSpine, o.sameLevel, o.noLID, o.twoPorts, o.aggregation, o.router, o.island, o.twins}
	for range 1 + rng.IntN(4) {
		if len(o.out.Hosts) < s.Leaves { // a third of the tree's, at most
			parts[rng.IntN(len(parts))]()
		}
	}
	o.out.Fabric = finished(o.f, s.LMC)
	for g := range o.out.Hosts {
		for _, e := range o.out.Fabric.EndPorts() {
			if e.GUID == g && o.waits[g] {
				o.out.Fabric.At(e.PortRef).LID = 0
			}
		}
	}
	return o.out
}

// odd adds parts to a fabric.
type odd struct {
	rng   *rand.Rand
	spec  Spec
	f     *topology.Fabric
	next  ib.GUID
	waits map[ib.GUID]bool // host ports that have no LID
	out   *OddFabric
}

func (o *odd) say(format string, args ...any) {
	o.out.What = append(o.out.What, fmt.Sprintf(format, args...))
}

func (o *odd) leaf() int32 { return o.f.Find(LeafGUID + ib.GUID(o.rng.IntN(o.spec.Leaves))) }

func (o *odd) spine() int32 { return o.f.Find(SpineGUID + ib.GUID(o.rng.IntN(o.spec.Spines))) }

// node adds a node at the end; indices found before stay valid.
func (o *odd) node(n topology.Node) int32 {
	o.next += 0x10
	o.f.Nodes = append(o.f.Nodes, n)
	return int32(len(o.f.Nodes) - 1)
}

// aSwitch adds a switch, one in three without a name.
func (o *odd) aSwitch() int32 {
	name := fmt.Sprintf("Odd%06x", uint64(o.next))
	if o.rng.IntN(3) == 0 {
		name = ""
	}
	return o.node(newSwitch(o.next, name, 0))
}

// port adds a port to a node.
func (o *odd) port(i int32) topology.PortRef {
	n := &o.f.Nodes[i]
	n.Ports = append(n.Ports, topology.Port{Peer: topology.None})
	return topology.PortRef{Node: i, Port: uint8(len(n.Ports) - 1)}
}

func (o *odd) join(a, b int32) { o.f.Connect(o.port(a), o.port(b), rate) }

// host adds an adapter with a port on each of the switches, and returns the GUID of the
// first.
func (o *odd) host(name string, at ...int32) ib.GUID {
	g := o.next
	i := o.node(topology.Node{Kind: topology.Adapter, GUID: g, System: g, Name: name, Ports: []topology.Port{{Peer: topology.None}}})
	for p, to := range at {
		r := o.port(i)
		o.f.At(r).GUID = g + 1 + ib.GUID(p)
		o.f.Connect(r, o.port(to), rate)
	}
	return g + 1
}

// chain hangs switches in a row on a leaf or a spine, with hosts on the last, and on some
// of the others if a leaf is before them.
func (o *odd) chain() {
	at, on, length := o.leaf(), "leaf", 1+o.rng.IntN(3)
	if o.rng.IntN(3) == 0 {
		at, on, length = o.spine(), "spine", 2+o.rng.IntN(2)
	}
	o.say("%d switches in a row on a %s", length, on)
	for k := range length {
		s := o.aSwitch()
		o.join(at, s)
		o.out.Switches[o.f.Nodes[s].GUID] = true
		at = s
		if k == length-1 || on == "leaf" && o.rng.IntN(2) == 0 {
			o.out.Hosts[o.host(fmt.Sprintf("behind%06x", uint64(o.next)), s)] = true
		}
	}
}

// bridge joins two leaves by a switch with a host.
func (o *odd) bridge() {
	a, b := o.leaf(), o.leaf()
	o.say("a switch with a host joined to %s and %s", o.f.Nodes[a].Name, o.f.Nodes[b].Name)
	s := o.aSwitch()
	o.join(a, s)
	o.join(s, b)
	o.out.Switches[o.f.Nodes[s].GUID] = true
	o.out.Hosts[o.host("bridged", s)] = true
}

func (o *odd) hostOnSpine() {
	o.say("a host on a spine")
	o.out.Hosts[o.host("on spine", o.spine())] = true
}

// sameLevel joins two leaves or two spines.
func (o *odd) sameLevel() {
	a, b := o.leaf(), o.leaf()
	if o.rng.IntN(2) == 0 {
		a, b = o.spine(), o.spine()
	}
	if a == b {
		return
	}
	o.say("a cable %s – %s", o.f.Nodes[a].Name, o.f.Nodes[b].Name)
	o.join(a, b)
	o.out.Cables++
}

// noLID takes the LID from a host on a leaf.
func (o *odd) noLID() {
	g := HostGUID + 2*ib.GUID(o.rng.IntN(o.spec.Spines)) + 1
	o.say("a host without an LID")
	if o.waits == nil {
		o.waits = map[ib.GUID]bool{}
	}
	o.waits[g] = true
	o.out.Hosts[g] = true
}

func (o *odd) twoPorts() {
	a, b := o.leaf(), o.leaf()
	o.say("an adapter with two ports on %s and %s", o.f.Nodes[a].Name, o.f.Nodes[b].Name)
	o.host("double", a, b)
}

// twins plugs in two adapters with one description.
func (o *odd) twins() {
	o.say("two adapters of one name")
	o.host("twin", o.leaf())
	o.host("twin", o.leaf())
}

// aggregation gives some switches an aggregation node, recognizable in different ways.
func (o *odd) aggregation() {
	o.say("aggregation nodes on some switches")
	for i := range len(o.f.Nodes) {
		n := &o.f.Nodes[i]
		if n.Kind != topology.Switch || o.rng.IntN(2) == 0 {
			continue
		}
		g, system := o.next, o.next
		add := topology.Node{Kind: topology.Adapter, GUID: g, Name: fmt.Sprintf("an%06x", uint64(g)), Ports: []topology.Port{{Peer: topology.None}, {Peer: topology.None, GUID: g}}}
		switch o.rng.IntN(4) {
		case 0:
			add.Vendor, add.Device = aggregationVendor, aggregationDevice
		case 1:
			add.Name = aggregationName
		case 2:
			add.Name = "Quantum SHARP"
		case 3:
			system = n.System
		}
		add.System = system
		o.f.Connect(topology.PortRef{Node: o.node(add), Port: 1}, o.port(int32(i)), rate)
	}
}

// router plugs a router into a leaf or a spine.
func (o *odd) router() {
	at := o.leaf()
	if o.rng.IntN(2) == 0 {
		at = o.spine()
	}
	o.say("a router on %s", o.f.Nodes[at].Name)
	o.host("router", at)
	o.f.Nodes[len(o.f.Nodes)-1].Kind = topology.Router
}

// island joins a small tree to spines by switches above both.
func (o *odd) island() {
	o.say("a third level on one side")
	var tops, mids [2]int32
	for t := range tops {
		tops[t], mids[t] = o.aSwitch(), o.aSwitch()
		o.out.Switches[o.f.Nodes[tops[t]].GUID], o.out.Switches[o.f.Nodes[mids[t]].GUID] = true, true
		for k := range 2 {
			o.join(o.f.Find(SpineGUID+ib.GUID(k)), tops[t])
		}
	}
	for _, m := range mids {
		for _, t := range tops {
			o.join(m, t)
		}
	}
	for range 2 {
		l := o.aSwitch()
		o.out.Switches[o.f.Nodes[l].GUID] = true
		for _, m := range mids {
			o.join(l, m)
		}
		o.out.Hosts[o.host("far away", l)] = true
	}
}

// WithChain hangs switches Odd900000… in a row on the switch of a name, with a host
// "behind" on the last. LIDs are given afresh, with the LMC that the hosts have.
func WithChain(f *topology.Fabric, name string, length int) *topology.Fabric {
	o := &odd{f: f.Clone(), next: oddGUID}
	var at int32
	lmc := uint8(0)
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			at = int32(i)
		}
	}
	for _, e := range f.EndPorts() {
		lmc = max(lmc, e.LMC)
	}
	for range length {
		s := o.node(newSwitch(o.next, fmt.Sprintf("Odd%06x", uint64(o.next)), 0))
		o.join(at, s)
		at = s
	}
	o.host("behind", at)
	return finished(o.f, lmc)
}
