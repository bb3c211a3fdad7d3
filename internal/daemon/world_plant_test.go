package daemon

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// plant is a model of a fabric: what is there, and what its switches hold. Only the healthy
// fabric that it is made from comes from the product.
type plant struct {
	whole  *topology.Fabric // healthy
	nodes  []machine        // as in whole
	cables []cable
	at     [][]int // [node][port] its cable, −1 without
	owner  []int   // [LID] the node that answers to it, −1 without one
	lids   [][]int // [node] its LIDs
}

// machine is a switch or a host.
type machine struct {
	isSwitch bool
	off      bool
	blank    bool         // it has lost its table, and no manager has sent it a new one
	table    []uint8      // of a switch, by LID
	mended   [][]uint8    // tables that OpenSM's plugin has made without forsd since all was at rest
	strays   map[int]bool // [LID] entries that were not those that the plugin held
}

// cable joins two ports.
type cable struct {
	a, b   topology.PortRef
	pulled bool
	slow   bool
	active bool // a manager has brought it up since it came
	trains int  // how often it has gone or come

	bounces   int // that are to come
	perSecond int // errors
	errors    uint64
	counted   time.Time // they were that many
	bad       bool      // it has ever had some
}

const noEntry = 0xff

func newPlant(whole *topology.Fabric) *plant {
	p := &plant{whole: whole, nodes: make([]machine, len(whole.Nodes)), at: make([][]int, len(whole.Nodes)), lids: make([][]int, len(whole.Nodes))}
	most := 0
	for i := range whole.Nodes {
		n := &whole.Nodes[i]
		p.nodes[i].isSwitch = n.Kind == topology.Switch
		p.at[i] = make([]int, len(n.Ports))
		for k := range n.Ports {
			p.at[i][k] = -1
			port := &n.Ports[k]
			for j := range 1 << port.LMC {
				if port.LID != 0 {
					p.lids[i] = append(p.lids[i], int(port.LID)+j)
					most = max(most, int(port.LID)+j)
				}
			}
		}
	}
	for i := range whole.Nodes {
		for k := range whole.Nodes[i].Ports {
			port := &whole.Nodes[i].Ports[k]
			if port.Peer == topology.None || p.at[i][k] >= 0 {
				continue
			}
			p.at[i][k], p.at[port.Peer][port.PeerPort] = len(p.cables), len(p.cables)
			p.cables = append(p.cables, cable{a: topology.PortRef{Node: int32(i), Port: uint8(k)}, b: topology.PortRef{Node: port.Peer, Port: port.PeerPort}})
		}
	}
	p.owner = make([]int, most+1)
	for lid := range p.owner {
		p.owner[lid] = -1
	}
	for i := range p.lids {
		for _, lid := range p.lids[i] {
			p.owner[lid] = i
		}
		if p.nodes[i].isSwitch {
			p.nodes[i].table = p.empty()
		}
	}
	return p
}

// empty returns a table without entries.
func (p *plant) empty() []uint8 {
	t := make([]uint8, len(p.owner))
	for i := range t {
		t[i] = noEntry
	}
	return t
}

// trunk reports whether a cable joins switches.
func (p *plant) trunk(c int) bool {
	return p.nodes[p.cables[c].a.Node].isSwitch && p.nodes[p.cables[c].b.Node].isSwitch
}

// live reports whether the link of a cable is up.
func (p *plant) live(c int) bool {
	x := &p.cables[c]
	return !x.pulled && !p.nodes[x.a.Node].off && !p.nodes[x.b.Node].off
}

// carries reports whether a cable carries data.
func (p *plant) carries(c int) bool { return p.live(c) && p.cables[c].active }

// far returns the port at the other end of a port's cable, which must exist.
func (p *plant) far(r topology.PortRef) topology.PortRef {
	c := &p.cables[p.at[r.Node][r.Port]]
	if c.a == r {
		return c.b
	}
	return c.a
}

// cableAt returns the cable at a port, −1 without one.
func (p *plant) cableAt(node, port int) int {
	if port <= 0 || port >= len(p.at[node]) {
		return -1
	}
	return p.at[node][port]
}

// uplink returns the switch that a host is attached to, and its cable.
func (p *plant) uplink(host int) (sw, c int) {
	for k, c := range p.at[host] {
		if c >= 0 {
			return int(p.far(topology.PortRef{Node: int32(host), Port: uint8(k)}).Node), c
		}
	}
	return -1, -1
}

// near returns the nodes that a manager at a host can reach by directed routes.
func (p *plant) near(host int) []bool {
	seen := make([]bool, len(p.nodes))
	if p.nodes[host].off {
		return seen
	}
	seen[host] = true
	for queue := []int{host}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at != host && !p.nodes[at].isSwitch {
			continue
		}
		for k, c := range p.at[at] {
			if c < 0 || !p.live(c) {
				continue
			}
			if to := int(p.far(topology.PortRef{Node: int32(at), Port: uint8(k)}).Node); !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return seen
}

// shown returns the fabric as a manager at a host discovers it. Links that it has not brought
// up are Init, or Active if it is about to.
func (p *plant) shown(host int, swept bool) (*topology.Fabric, error) {
	seen := p.near(host)
	index := make([]int32, len(p.nodes))
	var nodes []topology.Node
	for i := range p.nodes {
		index[i] = topology.None
		if seen[i] {
			index[i] = int32(len(nodes))
			nodes = append(nodes, p.whole.Nodes[i])
		}
	}
	for i := range p.nodes {
		if !seen[i] {
			continue
		}
		n := &nodes[index[i]]
		n.Ports = append([]topology.Port(nil), n.Ports...)
		for k, c := range p.at[i] {
			if c < 0 {
				continue
			}
			port := &n.Ports[k]
			if !p.live(c) {
				*port = topology.Port{GUID: port.GUID, LID: port.LID, LMC: port.LMC, Peer: topology.None}
				continue
			}
			port.Peer = index[port.Peer]
			if p.cables[c].slow {
				port.Rate.Width = 1
			}
			if port.State = topology.Active; !swept && !p.cables[c].active {
				port.State = topology.Init
			}
		}
	}
	return topology.NewFabric(nodes, p.whole.Nodes[host].GUID)
}

// route follows the tables of the switches from a switch to a LID, and appends the ports by
// which it leaves switches. ok is false if it does not arrive; dead cables are passed if blind.
func (p *plant) route(ports []topology.PortRef, from, lid int, blind bool) (way []topology.PortRef, ok bool) {
	at := from
	for range 2 * len(p.nodes) {
		if p.owner[lid] == at {
			return ports, true
		}
		if !p.nodes[at].isSwitch {
			return ports, false
		}
		out := int(p.nodes[at].table[lid])
		c := p.cableAt(at, out)
		if c < 0 || !blind && !p.carries(c) {
			return ports, false
		}
		r := topology.PortRef{Node: int32(at), Port: uint8(out)}
		ports = append(ports, r)
		at = int(p.far(r).Node)
	}
	return ports, false
}

// probe is the wire of a forsd's reader at a host's port: the fabric answers its datagrams.
type probePort struct {
	*plant
	host   int
	seed   uint64
	asked  map[[3]int]uint64 // [node, attribute, modifier] how often
	loses  int               // of 1000 datagrams
	coming []answer
	came   bool // an answer has just been received
}

type answer struct {
	at   time.Time
	data [256]byte
}

func (w *probePort) Send(m *[256]byte, dlid uint16) error {
	to := w.target(m, dlid)
	// What becomes of a question does not depend on the order in which goroutines ask.
	key := [3]int{to, int(binary.BigEndian.Uint16(m[16:])), int(binary.BigEndian.Uint32(m[20:]))}
	w.asked[key]++
	rng := rand.New(rand.NewPCG(w.seed^uint64(key[0])<<40^uint64(key[1])<<20^uint64(key[2]), w.asked[key]))
	if to < 0 || rng.IntN(1000) < w.loses {
		return nil
	}
	a := answer{at: time.Now().Truncate(time.Microsecond).Add(time.Duration(20_000+rng.IntN(180_000)) * time.Nanosecond), data: *m}
	w.answer(&a.data, to)
	w.coming = append(w.coming, a)
	return nil
}

func (w *probePort) Receive(m *[256]byte, wait time.Duration) bool {
	if w.came { // the one who asked may ask more, at this moment
		w.came = false
		time.Sleep(time.Nanosecond)
		return false
	}
	first := -1
	for i := range w.coming {
		if first < 0 || w.coming[i].at.Before(w.coming[first].at) {
			first = i
		}
	}
	if first < 0 || time.Until(w.coming[first].at) > wait {
		time.Sleep(wait + time.Nanosecond) // not to the instant of a deadline
		return false
	}
	a := w.coming[first]
	w.coming = append(w.coming[:first], w.coming[first+1:]...)
	time.Sleep(time.Until(a.at))
	*m, w.came = a.data, true
	return true
}

// target returns the node that a datagram reaches, −1 if it is lost on the way or its answer
// would be.
func (w *probePort) target(m *[256]byte, dlid uint16) int {
	leaf, up := w.uplink(w.host)
	if m[1] == 1 { // by LID
		if !w.carries(up) || int(dlid) >= len(w.owner) || w.owner[dlid] < 0 {
			return -1
		}
		to := w.owner[dlid]
		if to == w.host {
			return to
		}
		if _, ok := w.route(nil, leaf, int(dlid), false); !ok || w.nodes[to].off {
			return -1
		}
		back := to
		if !w.nodes[to].isSwitch {
			back, _ = w.uplink(to)
		}
		if _, ok := w.route(nil, back, w.lids[w.host][0], false); !ok {
			return -1
		}
		return to
	}
	at := w.host
	if w.nodes[at].off {
		return -1
	}
	for _, port := range m[129 : 129+int(m[7])] {
		c := w.cableAt(at, int(port))
		if c < 0 || !w.live(c) {
			return -1
		}
		at = int(w.far(topology.PortRef{Node: int32(at), Port: port}).Node)
	}
	return at
}

// answer turns a question to a node into its answer.
func (w *probePort) answer(m *[256]byte, node int) {
	n := &w.whole.Nodes[node]
	attr, mod := binary.BigEndian.Uint16(m[16:]), int(binary.BigEndian.Uint32(m[20:]))
	m[3] |= 0x80
	data := m[64:128]
	switch attr {
	case 0x11: // NodeInfo
		data[0], data[1], data[2], data[3], data[36] = 1, 1, 1, uint8(len(n.Ports)-1), 1
		if w.nodes[node].isSwitch {
			data[2] = 2
		}
		binary.BigEndian.PutUint64(data[12:], uint64(n.GUID))
	case 0x12: // SwitchInfo
		binary.BigEndian.PutUint16(data[6:], uint16(len(w.owner)-1))
	case 0x15: // PortInfo
		binary.BigEndian.PutUint16(data[18:], uint16(w.lids[w.host][0]))
		if mod == 0 && w.nodes[node].isSwitch {
			binary.BigEndian.PutUint16(data[16:], uint16(n.LID()))
			data[32] = 4
			break
		}
		data[31], data[32], data[62], data[35] = 2, 1, 0x40, 0x40
		if c := w.cableAt(node, mod); c >= 0 && w.live(c) {
			if data[32] = 2; w.cables[c].active {
				data[32] = 4
			}
			if w.cables[c].slow {
				data[31] = 1
			}
		}
	case 0x19: // LinearForwardingTable
		for i := range data {
			data[i] = noEntry
		}
		if from := 64 * mod; from < len(w.nodes[node].table) {
			copy(data, w.nodes[node].table[from:])
		}
	}
	if m[1] == 0x81 {
		m[4] |= 0x80
	}
}

// guid returns the GUID of a node.
func (p *plant) guid(node int) ib.GUID { return p.whole.Nodes[node].GUID }
