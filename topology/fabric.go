// Package topology models an InfiniBand fabric: nodes, ports, cables, GUIDs and LIDs. It
// parses the output of subnet tools, recognizes fat trees of two and of three levels
// against baselines, and describes the difference of two fabrics in words.
package topology

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"

	"github.com/forsd/forsd/ib"
)

// Kind is the kind of a node.
type Kind uint8

// The kinds of nodes.
const (
	Switch Kind = iota + 1
	Adapter
	Router
)

// String returns the kind in words.
func (k Kind) String() string {
	switch k {
	case Switch:
		return "switch"
	case Adapter:
		return "channel adapter"
	case Router:
		return "router"
	}
	return "unknown node"
}

// PortState is the logical state of a port.
type PortState uint8

// The logical port states of the InfiniBand architecture.
const (
	Down PortState = iota
	Init
	Armed
	Active
)

// None is the node index that means "no node".
const None int32 = -1

// Port is one port of a node.
type Port struct {
	GUID     ib.GUID // port GUID; on a switch only port 0 has one
	LID      ib.LID  // base LID; on a switch only port 0 has one
	LMC      uint8   // the port answers to LIDs LID … LID+2^LMC−1
	Peer     int32   // index of the node at the other end, None without a cable
	PeerPort uint8
	Rate     ib.Rate
	State    PortState
}

// Connected reports whether a cable joins the port to another node.
func (p *Port) Connected() bool { return p.Peer != None }

// Up reports whether the port can carry traffic now.
func (p *Port) Up() bool { return p.Peer != None && p.State == Active }

// Node is a switch, a channel adapter or a router.
type Node struct {
	Kind   Kind
	GUID   ib.GUID
	System ib.GUID // system image GUID, shared by the nodes of one chassis
	Vendor uint32  // 0 if the source lacks it
	Device uint32  // 0 if the source lacks it
	Role   Role    // see SetRoles
	Name   string
	// Ports is indexed by port number. Index 0 is a switch's management port;
	// on other nodes it is unused.
	Ports []Port
}

// PortRef names a port by node index and port number.
type PortRef struct {
	Node int32
	Port uint8
}

// Fabric is a subnet as a subnet manager or a discovery saw it. Nodes are in
// ascending order of GUID; every cable is recorded at both its ends.
type Fabric struct {
	Nodes []Node
	SM    ib.GUID // node GUID of the master subnet manager, 0 if the source lacks it
}

// NewFabric sorts the nodes by GUID, translates every Peer accordingly, and
// checks the model: unique GUIDs, cables that agree at both ends, LID ranges
// that neither overlap nor leave the unicast space. Of adapters that have one port GUID
// and one LID the first keeps the LID. Nodes get the roles that they
// have by themselves; see SetRoles.
func NewFabric(nodes []Node, sm ib.GUID) (*Fabric, error) {
	order := make([]int32, len(nodes))
	for i := range order {
		order[i] = int32(i)
	}
	sort.Slice(order, func(a, b int) bool { return nodes[order[a]].GUID < nodes[order[b]].GUID })
	place := make([]int32, len(nodes))
	sorted := make([]Node, len(nodes))
	for to, from := range order {
		place[from] = int32(to)
		sorted[to] = nodes[from]
	}
	for i := range sorted {
		for p := range sorted[i].Ports {
			if port := &sorted[i].Ports[p]; port.Peer != None {
				if int(port.Peer) >= len(nodes) {
					return nil, fmt.Errorf("%s port %d: peer %d does not exist", &sorted[i], p, port.Peer)
				}
				port.Peer = place[port.Peer]
			}
		}
	}
	f := &Fabric{Nodes: sorted, SM: sm}
	f.partTwins()
	if err := f.Validate(); err != nil {
		return f, err
	}
	f.SetRoles(Roles{})
	return f, nil
}

// partTwins removes the LID from adapter ports that share it, and their port GUID, with an
// earlier port: a manager identifies ports by GUID, and gave both the same. They are
// reported like any host that does not take part.
func (f *Fabric) partTwins() {
	first := map[ib.GUID]ib.LID{}
	for _, e := range f.EndPorts() {
		if e.GUID == 0 || e.LID == 0 || f.Nodes[e.Node].Kind == Switch {
			continue
		}
		if lid, twin := first[e.GUID]; twin && lid == e.LID {
			f.At(e.PortRef).LID = 0
		} else if !twin {
			first[e.GUID] = e.LID
		}
	}
}

// String names the node as people know it: description and GUID.
func (n *Node) String() string {
	if n.Name == "" {
		return n.GUID.String()
	}
	return n.Name + " (" + n.GUID.String() + ")"
}

// Label returns the description, or the GUID of a node without one.
func (n *Node) Label() string {
	if n.Name == "" {
		return n.GUID.String()
	}
	return n.Name
}

// LID returns a switch's own LID.
func (n *Node) LID() ib.LID {
	if n.Kind == Switch && len(n.Ports) > 0 {
		return n.Ports[0].LID
	}
	return 0
}

// Validate checks that the model holds together; see NewFabric.
func (f *Fabric) Validate() error {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if i > 0 && f.Nodes[i-1].GUID == n.GUID {
			return fmt.Errorf("two nodes have GUID %s: %q and %q", n.GUID, f.Nodes[i-1].Name, n.Name)
		}
		if len(n.Ports) > 256 {
			return fmt.Errorf("%s has %d ports: at most 255 are possible", n, len(n.Ports)-1)
		}
		for p := range n.Ports {
			port := &n.Ports[p]
			if port.Peer == None {
				continue
			}
			if p == 0 {
				return fmt.Errorf("%s port 0 has a cable: only ports from 1 can", n)
			}
			peer := &f.Nodes[port.Peer]
			if int(port.PeerPort) >= len(peer.Ports) || port.PeerPort == 0 {
				return fmt.Errorf("%s port %d leads to port %d of %s, which has %d ports", n, p, port.PeerPort, peer, len(peer.Ports)-1)
			}
			back := &peer.Ports[port.PeerPort]
			if back.Peer != int32(i) || int(back.PeerPort) != p {
				return fmt.Errorf("%s port %d leads to %s port %d, which does not lead back", n, p, peer, port.PeerPort)
			}
		}
	}
	return f.validateLIDs()
}

func (f *Fabric) validateLIDs() error {
	ends := f.EndPorts()
	slices.SortStableFunc(ends, func(a, b EndPort) int { return int(a.LID) - int(b.LID) })
	next := 0
	var last EndPort
	for _, e := range ends {
		if e.LID == 0 {
			continue
		}
		if e.LMC > ib.MaxLMC {
			return fmt.Errorf("%s: LMC %d is over %d", f.PortLabel(e.PortRef), e.LMC, ib.MaxLMC)
		}
		if int(e.LID) < next {
			return fmt.Errorf("%s has LID %d, which is in the range %d–%d of %s", f.PortLabel(e.PortRef), e.LID,
				last.LID, next-1, f.PortLabel(last.PortRef))
		}
		next, last = int(e.LID)+1<<e.LMC, e
		if next-1 > int(ib.MaxUnicastLID) {
			return fmt.Errorf("%s: LIDs %d–%d leave the unicast range, which ends at %d", f.PortLabel(e.PortRef), e.LID, next-1, ib.MaxUnicastLID)
		}
	}
	return nil
}

// EndPort is a port that owns LIDs: every adapter or router port, and port 0
// of every switch.
type EndPort struct {
	PortRef
	GUID ib.GUID
	LID  ib.LID
	LMC  uint8
}

// EndPorts lists the ports that can own LIDs, in ascending order of node GUID
// and port number. Ports without a LID (0) are included.
func (f *Fabric) EndPorts() []EndPort {
	ends := make([]EndPort, 0, len(f.Nodes))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		first, end := 1, len(n.Ports)
		if n.Kind == Switch {
			first, end = 0, min(1, len(n.Ports))
		}
		for p := first; p < end; p++ {
			port := &n.Ports[p]
			ends = append(ends, EndPort{PortRef{int32(i), uint8(p)}, port.GUID, port.LID, port.LMC})
		}
	}
	return ends
}

// Find returns the index of the node with GUID g, or None.
func (f *Fabric) Find(g ib.GUID) int32 {
	i := sort.Search(len(f.Nodes), func(i int) bool { return f.Nodes[i].GUID >= g })
	if i < len(f.Nodes) && f.Nodes[i].GUID == g {
		return int32(i)
	}
	return None
}

// At returns the port that r names.
func (f *Fabric) At(r PortRef) *Port { return &f.Nodes[r.Node].Ports[r.Port] }

// PortLabel names a port in words: "Leaf007 port 31"; port 0 of a switch is
// the switch.
func (f *Fabric) PortLabel(r PortRef) string {
	n := &f.Nodes[r.Node]
	if n.Kind == Switch && r.Port == 0 {
		return n.Label()
	}
	return fmt.Sprintf("%s port %d", n.Label(), r.Port)
}

// CableLabel names the cable at r by both its ends:
// "Leaf007 port 31 – Spine010 port 8".
func (f *Fabric) CableLabel(r PortRef) string {
	p := f.At(r)
	if p.Peer == None {
		return f.PortLabel(r)
	}
	return f.PortLabel(r) + " – " + f.PortLabel(PortRef{p.Peer, p.PeerPort})
}

// Clone returns a deep copy.
func (f *Fabric) Clone() *Fabric {
	c := &Fabric{Nodes: slices.Clone(f.Nodes), SM: f.SM}
	total := 0
	for i := range f.Nodes {
		total += len(f.Nodes[i].Ports)
	}
	ports := make([]Port, 0, total)
	for i := range f.Nodes {
		first := len(ports)
		ports = append(ports, f.Nodes[i].Ports...)
		c.Nodes[i].Ports = slices.Clip(ports[first:])
	}
	return c
}

// Disconnect takes the cable at r away, from both its ends.
func (f *Fabric) Disconnect(r PortRef) {
	p := f.At(r)
	if p.Peer == None {
		return
	}
	back := &f.Nodes[p.Peer].Ports[p.PeerPort]
	for _, end := range []*Port{p, back} {
		end.Peer, end.PeerPort, end.State = None, 0, Down
	}
}

// Connect joins two ports by an active cable of the given rate.
func (f *Fabric) Connect(a, b PortRef, rate ib.Rate) {
	pa, pb := f.At(a), f.At(b)
	pa.Peer, pa.PeerPort, pa.Rate, pa.State = b.Node, b.Port, rate, Active
	pb.Peer, pb.PeerPort, pb.Rate, pb.State = a.Node, a.Port, rate, Active
}

// SetLMC sets the LMC of every end port of an adapter or router, for sources that lack it.
func (f *Fabric) SetLMC(lmc uint8) error {
	for i := range f.Nodes {
		if f.Nodes[i].Kind == Switch {
			continue
		}
		for p := range f.Nodes[i].Ports {
			f.Nodes[i].Ports[p].LMC = lmc
		}
	}
	return f.validateLIDs()
}

// Hash returns a digest of all inputs of plans and tables: GUIDs, cables, rates, states,
// LIDs and LMCs. Descriptions are left out, so that renaming a node changes nothing.
func (f *Fabric) Hash() string {
	h := sha256.New()
	var buf []byte
	for i := range f.Nodes {
		n := &f.Nodes[i]
		buf = binary.LittleEndian.AppendUint64(buf[:0], uint64(n.GUID))
		buf = append(buf, byte(n.Kind), byte(len(n.Ports)))
		for p := range n.Ports {
			port := &n.Ports[p]
			if port.Peer == None && port.LID == 0 {
				continue
			}
			buf = append(buf, byte(p), port.LMC, port.PeerPort, port.Rate.Width, byte(port.Rate.Speed), byte(port.State))
			buf = binary.LittleEndian.AppendUint16(buf, uint16(port.LID))
			buf = binary.LittleEndian.AppendUint64(buf, uint64(port.GUID))
			var peer ib.GUID
			if port.Peer != None {
				peer = f.Nodes[port.Peer].GUID
			}
			buf = binary.LittleEndian.AppendUint64(buf, uint64(peer))
		}
		h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil))
}
