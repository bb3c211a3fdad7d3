package plugin

import (
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// readFabric reads the message fabric. err is that of a message that cannot be
// read; a fabric that does not hold together is in Sight.Err: the manager has
// one in memory at times, and the next one may be sound.
func readFabric(body []byte) (s Sight, err error) {
	c := cursor{rest: body}
	s.Generation = c.u64()
	manager, count := c.guid(), int(c.u32())
	const least = 30 // bytes of a node
	if count > len(c.rest)/least {
		return Sight{}, errLength
	}
	r := fabricReader{nodes: make([]topology.Node, 0, count), index: make(map[ib.GUID]int32, count)}
	for range count {
		if err := r.node(&c, manager); err != nil {
			return Sight{}, err
		}
	}
	if err := c.end(); err != nil {
		return Sight{}, err
	}
	if s.Err = r.join(); s.Err == nil {
		s.Fabric, s.Err = topology.NewFabric(r.nodes, r.manager)
	}
	if s.Err != nil {
		s.Fabric, s.Err = nil, fmt.Errorf("read the fabric in OpenSM's memory: %w", s.Err)
	}
	return s, nil
}

// fabricReader gathers nodes, and cables by the GUIDs of their far ends.
type fabricReader struct {
	nodes   []topology.Node
	index   map[ib.GUID]int32
	cables  []cable
	manager ib.GUID // the node that has the manager's port
}

// cable is a port whose far end is known by GUID.
type cable struct {
	near topology.PortRef
	far  ib.GUID
	port uint8
}

// node reads a node and its port records.
func (r *fabricReader) node(c *cursor, manager ib.GUID) error {
	n := topology.Node{GUID: c.guid(), System: c.guid(), Kind: topology.Kind(c.u8())}
	ports, records := int(c.u8()), int(c.u16())
	n.Vendor, n.Device = c.u32(), uint32(c.u16())
	c.u16()
	n.Name = c.text()
	switch {
	case c.short:
		return errLength
	case n.Kind < topology.Switch || n.Kind > topology.Router:
		return fmt.Errorf("node %s is of kind %d", n.GUID, n.Kind)
	case ports == 0 || ports == 255:
		return fmt.Errorf("node %s has %d ports", n.GUID, ports)
	}
	if _, dup := r.index[n.GUID]; dup || n.GUID == 0 {
		return fmt.Errorf("node %s is there twice, or has no GUID", n.GUID)
	}
	i := int32(len(r.nodes))
	n.Ports = make([]topology.Port, ports+1)
	for p := range n.Ports {
		n.Ports[p].Peer = topology.None
	}
	last := -1
	for range records {
		number, err := r.port(c, &n, i)
		if err != nil {
			return err
		}
		if number <= last {
			return fmt.Errorf("node %s: port %d comes after port %d", n.GUID, number, last)
		}
		last = number
		if g := n.Ports[number].GUID; g != 0 && g == manager {
			r.manager = n.GUID
		}
	}
	r.index[n.GUID] = i
	r.nodes = append(r.nodes, n)
	return nil
}

// port reads a port record of n, which becomes node i, and returns its number.
func (r *fabricReader) port(c *cursor, n *topology.Node, i int32) (int, error) {
	number := c.u8()
	p := topology.Port{Peer: topology.None, State: topology.PortState(c.u8())}
	p.Rate = ib.Rate{Width: c.u8(), Speed: ib.Speed(c.u8())}
	p.LMC = c.u8()
	peerPort := c.u8()
	p.LID, p.GUID = ib.LID(c.u16()), c.guid()
	peer := c.guid()
	switch {
	case c.short:
		return 0, errLength
	case int(number) >= len(n.Ports) || number == 0 && n.Kind != topology.Switch:
		return 0, fmt.Errorf("port %d is not on node %s (%d ports)", number, n.GUID, len(n.Ports)-1)
	case p.State > topology.Active || p.Rate.Speed > ib.XDR || p.LMC > ib.MaxLMC:
		return 0, fmt.Errorf("node %s port %d has state %d, speed %d and LMC %d", n.GUID, number, p.State, p.Rate.Speed, p.LMC)
	}
	if peer != 0 {
		r.cables = append(r.cables, cable{topology.PortRef{Node: i, Port: number}, peer, peerPort})
	}
	n.Ports[number] = p
	return int(number), nil
}

// join finds the far ends of all cables.
func (r *fabricReader) join() error {
	for _, l := range r.cables {
		n := &r.nodes[l.near.Node]
		far, known := r.index[l.far]
		if !known {
			return fmt.Errorf("%s port %d leads to node %s, which is not there: %w", n, l.near.Port, l.far, topology.ErrIncomplete)
		}
		p := &n.Ports[l.near.Port]
		p.Peer, p.PeerPort = far, l.port
	}
	return nil
}
