package packets

import (
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// network is a fabric as links. Link first[node]+port leaves node by port.
type network struct {
	f        *topology.Fabric
	first    []int32
	target   []int32 // [link] node at its end, -1 without a cable
	reverse  []int32 // [link] the other direction of the cable
	out      [][]uint8
	hosts    []topology.PortRef
	host     []int32 // [node] host, -1 for a switch
	uplink   []int32 // [host] link out of the adapter
	downlink []int32 // [host] link into it
	byGUID   map[ib.GUID]int32
	base     []int32           // [link] first virtual output queue of the switch at its end
	pairs    int               // virtual output queues
	far      map[int32][]int16 // [switch of a host] distances of nodes from it, -1 if unreachable
	toward   map[[2]int32][]int32
}

func newNetwork(f *topology.Fabric, tables *lft.Tables) (*network, error) {
	n := &network{f: f, byGUID: map[ib.GUID]int32{}, far: map[int32][]int16{}, toward: map[[2]int32][]int32{}}
	for i := range f.Nodes {
		n.first = append(n.first, int32(len(n.target)))
		for p := range f.Nodes[i].Ports {
			to := topology.None
			if port := &f.Nodes[i].Ports[p]; port.Up() {
				to = port.Peer
			}
			n.target = append(n.target, to)
		}
	}
	n.reverse = make([]int32, len(n.target))
	n.base = make([]int32, len(n.target))
	for i := range f.Nodes {
		node := &f.Nodes[i]
		var out []uint8
		host := int32(-1)
		if node.Kind == topology.Switch {
			if s := tables.Find(node.GUID); s >= 0 {
				out = tables.Switches[s].Out
			}
		}
		for p := range node.Ports {
			l, port := n.first[i]+int32(p), &node.Ports[p]
			n.reverse[l] = -1
			if n.target[l] < 0 {
				continue
			}
			n.reverse[l] = n.first[port.Peer] + int32(port.PeerPort)
			if peer := &f.Nodes[port.Peer]; peer.Kind == topology.Switch {
				n.base[l] = int32(n.pairs)
				n.pairs += len(peer.Ports)
			}
			if node.Kind != topology.Switch {
				if host >= 0 {
					return nil, fmt.Errorf("%s has two ports in the fabric: adapters of one port are simulated", node.Label())
				}
				host = int32(len(n.hosts))
				n.byGUID[port.GUID] = host
				n.hosts = append(n.hosts, topology.PortRef{Node: int32(i), Port: uint8(p)})
				n.uplink = append(n.uplink, l)
				n.downlink = append(n.downlink, n.reverse[l])
			}
		}
		n.out, n.host = append(n.out, out), append(n.host, host)
	}
	return n, nil
}

// queue is the virtual output queue of an input for an output of the same switch.
func (n *network) queue(in, out int32) int32 { return n.base[in] + out - n.first[n.target[in]] }

// route finds the hosts of a message, and its links by the tables. With adaptive routing it
// has the first and the last link.
func (n *network) route(m *message, adaptive bool) error {
	var ok [2]bool
	m.src, ok[0] = n.byGUID[m.Src]
	m.dst, ok[1] = n.byGUID[m.Dst]
	if !ok[0] || !ok[1] || m.src == m.dst {
		return fmt.Errorf("message from %s to %s: these are not two host ports of the fabric", m.Src, m.Dst)
	}
	if adaptive {
		m.route = []int32{n.uplink[m.src], n.downlink[m.dst]}
		if len(n.ways(n.target[m.route[0]], m.dst)) == 0 {
			return fmt.Errorf("no path leads from %s to %s", m.Src, m.Dst)
		}
		return nil
	}
	m.route = make([]int32, 0, 6)
	for l := n.uplink[m.src]; len(m.route) < 64; {
		m.route = append(m.route, l)
		at := n.target[l]
		if at < 0 || n.host[at] >= 0 {
			break
		}
		if l = n.next(at, m.DLID); l < 0 {
			return fmt.Errorf("%s has no entry for LID %d", n.f.Nodes[at].Label(), m.DLID)
		}
	}
	if end := n.target[m.route[len(m.route)-1]]; end < 0 || n.host[end] != m.dst {
		return fmt.Errorf("the tables lead LID %d from %s not to %s", m.DLID, m.Src, m.Dst)
	}
	return nil
}

// next is the link by which the tables send a LID out of a switch, -1 if they have none.
func (n *network) next(at int32, to ib.LID) int32 {
	if int(to) >= len(n.out[at]) || int(n.out[at][to]) >= len(n.f.Nodes[at].Ports) {
		return -1
	}
	return n.first[at] + int32(n.out[at][to])
}

// ways are the links out of a switch on shortest paths to a host.
func (n *network) ways(at, dst int32) []int32 {
	leaf := n.target[n.uplink[dst]]
	if at == leaf {
		return n.downlink[dst : dst+1]
	}
	key := [2]int32{at, leaf}
	if found, ok := n.toward[key]; ok {
		return found
	}
	far := n.distances(leaf)
	var found []int32
	for p := range n.f.Nodes[at].Ports {
		l := n.first[at] + int32(p)
		if to := n.target[l]; to >= 0 && n.host[to] < 0 && far[at] > 0 && far[to] == far[at]-1 {
			found = append(found, l)
		}
	}
	n.toward[key] = found
	return found
}

// distances of all switches from one.
func (n *network) distances(from int32) []int16 {
	if found, ok := n.far[from]; ok {
		return found
	}
	far := make([]int16, len(n.f.Nodes))
	for i := range far {
		far[i] = -1
	}
	far[from] = 0
	for queue := []int32{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for p := range n.f.Nodes[at].Ports {
			if to := n.target[n.first[at]+int32(p)]; to >= 0 && n.host[to] < 0 && far[to] < 0 {
				far[to] = far[at] + 1
				queue = append(queue, to)
			}
		}
	}
	n.far[from] = far
	return far
}
