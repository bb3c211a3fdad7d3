package verify

import (
	"fmt"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// A place is what a cable leads to: the index of a switch below the number of
// switches, an end port from there on (see network.firstEnd), or nowhere.
type place = int32

const nowhere place = -1

// A channel is a directed link: the switch it leaves, shifted by portBits, and
// the output port. Every uint8 is a valid port index here, so an entry of a
// table needs no bound check before it is looked up.
type channel = int32

const (
	portBits = 8
	ports    = 1 << portBits
)

// network is a fabric and its tables, flat, for walking.
type network struct {
	fabric   *topology.Fabric
	nodes    []int32   // [switch] index of its node
	switchOf []int32   // [node] its switch index, −1 for other nodes
	firstEnd []place   // [node] place of its port 0
	next     []place   // [channel] where the cable leads, nowhere when it is down; port 0 leads to the switch's own end
	out      [][]uint8 // [switch][LID], longer than every LID in use
	owner    []place   // [LID] the end port that it belongs to, nowhere when not in use
	home     []int32   // [LID] the switch that its owner is cabled to, or is
	bare     int32     // the first switch without a table, −1 when there is none
}

// newNetwork flattens the fabric and its tables.
func newNetwork(f *topology.Fabric, tables *lft.Tables) *network {
	n := &network{fabric: f, bare: -1, switchOf: make([]int32, len(f.Nodes)), firstEnd: make([]place, len(f.Nodes))}
	for i := range f.Nodes {
		n.switchOf[i] = -1
		if f.Nodes[i].Kind == topology.Switch {
			n.switchOf[i] = int32(len(n.nodes))
			n.nodes = append(n.nodes, int32(i))
		}
	}
	end := place(len(n.nodes))
	for i := range f.Nodes {
		n.firstEnd[i] = end
		if f.Nodes[i].Kind == topology.Switch {
			end++
		} else {
			end += place(len(f.Nodes[i].Ports))
		}
	}
	n.wire()
	n.own()
	n.adopt(tables)
	return n
}

// wire fills next.
func (n *network) wire() {
	n.next = make([]place, len(n.nodes)*ports)
	for i := range n.next {
		n.next[i] = nowhere
	}
	for s, node := range n.nodes {
		row := n.next[s*ports : (s+1)*ports]
		row[0] = n.firstEnd[node]
		for p := range n.fabric.Nodes[node].Ports {
			if port := &n.fabric.Nodes[node].Ports[p]; p != int(lft.NoPath) && port.Up() {
				if to := n.switchOf[port.Peer]; to >= 0 {
					row[p] = to
				} else {
					row[p] = n.firstEnd[port.Peer] + place(port.PeerPort)
				}
			}
		}
	}
}

// own fills owner and home. A LID is in use when its port is cabled to a
// switch, or is a switch's own.
func (n *network) own() {
	ends := n.fabric.EndPorts()
	size := 0
	for _, e := range ends {
		size = max(size, int(e.LID)+1<<e.LMC)
	}
	n.owner, n.home = make([]place, size), make([]int32, size)
	for i := range n.owner {
		n.owner[i], n.home[i] = nowhere, -1
	}
	for _, e := range ends {
		home := n.switchOf[e.Node]
		if port := n.fabric.At(e.PortRef); port.Up() { // a switch's own port has no cable
			home = n.switchOf[port.Peer]
		}
		if e.LID == 0 || home < 0 {
			continue
		}
		for lid := int(e.LID); lid < int(e.LID)+1<<e.LMC; lid++ {
			n.owner[lid], n.home[lid] = n.firstEnd[e.Node]+place(e.Port), home
		}
	}
}

// adopt takes over the tables. One that ends before the last LID in use is
// continued without entries; a switch without a table has none at all.
func (n *network) adopt(tables *lft.Tables) {
	n.out = make([][]uint8, len(n.nodes))
	for s, node := range n.nodes {
		var out []uint8
		if i := tables.Find(n.fabric.Nodes[node].GUID); i >= 0 {
			out = tables.Switches[i].Out
		} else if n.bare < 0 {
			n.bare = int32(s)
		}
		if len(out) < len(n.owner) {
			padded := make([]uint8, len(n.owner))
			for j := copy(padded, out); j < len(padded); j++ {
				padded[j] = lft.NoPath
			}
			out = padded
		}
		n.out[s] = out
	}
}

// switches returns the number of switches.
func (n *network) switches() int { return len(n.nodes) }

// isSwitch reports whether a place is a switch.
func (n *network) isSwitch(p place) bool { return uint32(p) < uint32(len(n.nodes)) }

// through returns the channel by which switch s forwards the LID.
func (n *network) through(s int32, lid int) channel { return s<<portBits | channel(n.out[s][lid]) }

// label returns the switch's name.
func (n *network) label(s int32) string { return n.fabric.Nodes[n.nodes[s]].Label() }

// portLabel names the output port of a channel: "Leaf007 port 31".
func (n *network) portLabel(c channel) string {
	return fmt.Sprintf("%s port %d", n.label(c>>portBits), c&(ports-1))
}

// placeLabel names an end port.
func (n *network) placeLabel(p place) string {
	for node := len(n.firstEnd) - 1; node >= 0; node-- {
		if n.firstEnd[node] <= p {
			return n.fabric.PortLabel(topology.PortRef{Node: int32(node), Port: uint8(p - n.firstEnd[node])})
		}
	}
	return "nowhere"
}

// lidLabel names a LID and its owner: "LID 417 of Hca0012 port 1".
func (n *network) lidLabel(lid int) string {
	return fmt.Sprintf("LID %d of %s", lid, n.placeLabel(n.owner[lid]))
}

// fault returns the code and the reason why a channel leads nowhere.
func (n *network) fault(c channel) (code, why string) {
	port := int(c & (ports - 1))
	node := &n.fabric.Nodes[n.nodes[c>>portBits]]
	switch {
	case port >= len(node.Ports):
		return NoSuchPort, fmt.Sprintf("%s has no port %d: it has %d ports", node.Label(), port, len(node.Ports)-1)
	case node.Ports[port].Connected():
		return DownPort, fmt.Sprintf("%s is down", n.portLabel(c))
	default:
		return DownPort, fmt.Sprintf("%s is down: it has no cable", n.portLabel(c))
	}
}
