// Package umad reads switches by management datagrams of its own: the forwarding
// tables of all of them, and the states of one's ports. Questions are pipelined
// over all nodes, so that a fabric is read in the time that its slowest part
// takes. It also subscribes to the subnet manager's traps from whatever host.
//
// Datagrams go through libibumad where the program is built with the tag umad and
// cgo; otherwise everything fails with ErrNotBuiltIn. The layouts are those of
// the InfiniBand Architecture, volume 1, release 1.4.
package umad

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// ErrNotBuiltIn is the error of a program that was built without libibumad.
var ErrNotBuiltIn = errors.New("libibumad is not built in: build forsd where libibumad-dev is installed")

// LocalPort is a port of this machine.
type LocalPort struct {
	Device     string // such as mlx5_0
	Number     int
	GUID       ib.GUID // of the port
	State      topology.PortState
	InfiniBand bool // its link layer is InfiniBand
}

// String names the port as ibstat does, such as mlx5_0:1.
func (p LocalPort) String() string { return fmt.Sprintf("%s:%d", p.Device, p.Number) }

// guidOf reads a GUID as it is in datagrams.
func guidOf(b []byte) ib.GUID { return ib.GUID(binary.BigEndian.Uint64(b)) }

// Options limit what is on the wire at a time.
type Options struct {
	// Window is the number of questions that are under way at a time, and
	// PerNode of those to one node; 0 means 16 and 4. Management agents of
	// switches answer one question after the other, by software: more than a few
	// only fill their queues.
	Window, PerNode int
	// Timeout is the time for an answer, and Tries how often a question is asked
	// on each way; 0 means 200 ms and 3.
	Timeout time.Duration
	Tries   int
}

// withDefaults replaces what is 0.
func (o Options) withDefaults() limits {
	return limits{window: cmp.Or(o.Window, 16), perNode: cmp.Or(o.PerNode, 4),
		timeout: cmp.Or(o.Timeout, 200*time.Millisecond), tries: cmp.Or(o.Tries, 3)}
}

// Reader asks nodes of the fabric by one local port. Its methods may be called
// concurrently; they share the window. A process should have one Reader for a
// port, and keep it.
type Reader struct {
	loop *loop
	port LocalPort
}

// Open opens a local port. It fails where the program is built without libibumad,
// with ErrNotBuiltIn, and where the device is not there or must not be used.
func Open(p LocalPort, o Options) (*Reader, error) {
	l := o.withDefaults()
	d, err := open(p, 0, l.timeout, agent{class: classSubnLID, version: 1}, agent{class: classSubnDirected, version: 1})
	if err != nil {
		return nil, fmt.Errorf("open port %s for management datagrams: %w", p, err)
	}
	return &Reader{loop: newLoop(d, l), port: p}, nil
}

// Port returns the local port.
func (r *Reader) Port() LocalPort { return r.port }

// Close ends what is under way and closes the port.
func (r *Reader) Close() error { return r.loop.close() }

// Self asks the local port for its node's GUID, its number, and its PortInfo, which has the
// master subnet manager's LID.
func (r *Reader) Self(ctx context.Context) (node ib.GUID, number int, p PortInfo, err error) {
	b := &burst{ctx: ctx, urgent: true, peers: []peer{{ways: []way{{}}}}}
	b.known = func(int) error {
		b.ask(0, attrPortInfo, uint32(b.peers[0].info.port))
		return nil
	}
	b.answer = func(_ question, data []byte) (err error) {
		p, err = parsePortInfo(data)
		return err
	}
	if err = r.askOne(b); err != nil {
		return 0, 0, PortInfo{}, fmt.Errorf("ask local port %s: %w", r.port, err)
	}
	return b.peers[0].info.guid, int(b.peers[0].info.port), p, nil
}

// askOne carries out a burst to a single node.
func (r *Reader) askOne(b *burst) error {
	if err := r.loop.do(b); err != nil {
		return err
	}
	return b.peers[0].err
}

// Node is a node to be asked.
type Node struct {
	GUID ib.GUID // who must answer; 0 means any
	LID  ib.LID  // 0 if not known
	// Route is a directed route, the output ports from the local port on, which
	// is taken where the LID is 0 or leads nowhere; nil if none is known.
	Route []uint8
}

// ways lists the ways to the node in the order in which they are tried.
func (n Node) ways() []way {
	var ways []way
	if n.LID != 0 {
		ways = append(ways, way{lid: n.LID})
	}
	if n.Route != nil && len(n.Route) <= maxHops {
		ways = append(ways, way{ports: n.Route})
	}
	return ways
}

// Ports asks a node for the states of its ports: [port], 0 being a switch's
// management port, and unused on other nodes. Where numbers are given, those ports
// alone are asked for, and the others are left zero. The questions go before those of
// Tables.
func (r *Reader) Ports(ctx context.Context, n Node, numbers ...uint8) ([]PortInfo, error) {
	var ports []PortInfo
	b := &burst{ctx: ctx, urgent: true, peers: []peer{{guid: n.GUID, ways: n.ways()}}}
	if len(b.peers[0].ways) == 0 {
		return nil, fmt.Errorf("read the ports of node %s: neither a LID nor a route to it is known", n.GUID)
	}
	b.known = func(int) error {
		info := &b.peers[0].info
		ports = make([]PortInfo, info.ports+1)
		first := 0
		if info.kind != topology.Switch {
			first = 1
		}
		for p := first; p < len(ports); p++ {
			if len(numbers) == 0 || slices.Contains(numbers, uint8(p)) {
				b.ask(0, attrPortInfo, uint32(p))
			}
		}
		return nil
	}
	b.answer = func(q question, data []byte) (err error) {
		ports[q.mod], err = parsePortInfo(data)
		return err
	}
	if err := r.askOne(b); err != nil {
		return nil, fmt.Errorf("read the ports of node %s, LID %d: %w", n.GUID, n.LID, err)
	}
	return ports, nil
}

// Routes returns the shortest directed route to every node of a fabric from a node's port:
// [node], nil if there is none. Only active cables are used, and adapters are not passed
// through. The local node itself has an empty route.
func Routes(f *topology.Fabric, from int32, port int) [][]uint8 {
	routes := make([][]uint8, len(f.Nodes))
	if from < 0 || int(from) >= len(f.Nodes) {
		return routes
	}
	routes[from] = []uint8{}
	queue := []int32{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		n := &f.Nodes[at]
		if at != from && n.Kind != topology.Switch || len(routes[at]) == maxHops {
			continue
		}
		for p := range n.Ports {
			if at == from && n.Kind != topology.Switch && p != port {
				continue
			}
			if peer := n.Ports[p].Peer; n.Ports[p].Up() && routes[peer] == nil {
				routes[peer] = append(slices.Clip(routes[at]), uint8(p))
				queue = append(queue, peer)
			}
		}
	}
	return routes
}

// notOpened explains why a port could not be opened: libibumad returns EIO for any failure
// at the device node; cause has the reason.
func notOpened(answer, cause error) error {
	if errors.Is(answer, syscall.EIO) && cause != nil {
		answer = cause
	}
	switch {
	case errors.Is(answer, fs.ErrPermission):
		return fmt.Errorf("%w: this user may not use /dev/infiniband/umad*, which 70-forsd.rules opens to the group forsd-umad: install it, then run udevadm control --reload and udevadm trigger -s infiniband_mad; forsd.service puts forsd into that group", answer)
	case errors.Is(answer, fs.ErrNotExist), errors.Is(answer, syscall.ENXIO), errors.Is(answer, syscall.ENODEV):
		return fmt.Errorf("%w: the port has no node in /dev/infiniband: run modprobe ib_umad, then udevadm trigger -s infiniband_mad", answer)
	}
	return fmt.Errorf("%w: check the rights on /dev/infiniband/umad*, and that the device is there", answer)
}

// Wire carries datagrams in place of a local port, as a simulated fabric does. One goroutine
// uses it.
type Wire interface {
	// Send takes a datagram for a LID.
	Send(datagram *[madSize]byte, dlid uint16) error
	// Receive waits at most the given time for a datagram, and returns false if none came.
	Receive(datagram *[madSize]byte, wait time.Duration) bool
}

// On returns a reader on a wire, which is not closed with it.
func On(w Wire, p LocalPort, o Options) *Reader {
	return &Reader{loop: newLoop(carrier{w}, o.withDefaults()), port: p}
}

type carrier struct{ Wire }

func (c carrier) send(m *mad, dlid uint16) error { return c.Send((*[madSize]byte)(m), dlid) }

func (c carrier) receive(m *mad, wait time.Duration) (ok, lost bool, err error) {
	return c.Receive((*[madSize]byte)(m), wait), false, nil
}

func (carrier) close() error { return nil }
