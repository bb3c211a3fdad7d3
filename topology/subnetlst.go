package topology

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/forsd/forsd/ib"
)

// ReadSubnetLst reads OpenSM's opensm-subnet.lst (osm_dump.c,
// dump_topology_node): a line for every port with a cable, which describes
// both ends of the cable and the state, width and speed of the first. The node
// marked -SM becomes Fabric.SM; it stays 0 where no node, or more than one, is
// marked. The file does not hold the LMC: see SetLMC and ApplyGUID2LID.
//
// OpenSM writes the file in place, so a reader can meet one that is half
// written. Every cable is printed once from each end, and no set of nodes of a
// connected fabric can be told apart without parting a cable; a cable seen from
// one end only, a last line without its newline, and an empty file therefore
// give an error that wraps ErrIncomplete. What escapes is a cut at a line's end
// within the lines of a node whose other ports lead to nodes that are not
// printed yet and hang on that node alone. In a fat tree with two spines or more
// that node is a leaf, and the file then shows either nothing but this leaf and
// some of its hosts, or everything but some of its hosts (spines that have lost
// all other cables count as hosts here); the next reading puts
// it right.
//
// ibdiagnet writes the same lines as ibdiagnet2.lst, each cable from one end, between
// comments that tell who writes and where the file ends.
func ReadSubnetLst(data []byte) (*Fabric, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("read opensm-subnet.lst: no line yet: %w", ErrIncomplete)
	}
	if data[len(data)-1] != '\n' {
		return nil, fmt.Errorf("read opensm-subnet.lst: the last line has no end: %w", ErrIncomplete)
	}
	r := lstReader{index: make(map[ib.GUID]int32, 512)}
	diag, closed := false, false
	for number := 1; len(data) > 0; number++ {
		end := bytes.IndexByte(data, '\n')
		line := bytes.TrimSuffix(data[:end], carriageReturn)
		data = data[end+1:]
		if len(line) == 0 || line[0] == '#' {
			diag = diag || bytes.Contains(line, ibdiagnetOpens)
			closed = closed || bytes.HasPrefix(line, ibdiagnetCloses)
			continue
		}
		if err := r.line(line); err != nil {
			return nil, fmt.Errorf("read opensm-subnet.lst line %d: %w", number, err)
		}
	}
	if diag && !closed {
		return nil, fmt.Errorf("read ibdiagnet2.lst: the line %q that ends it is not there: %w", ibdiagnetCloses, ErrIncomplete)
	}
	if err := r.bothEnds(diag); err != nil {
		return nil, fmt.Errorf("read opensm-subnet.lst: %w", err)
	}
	f, err := NewFabric(r.nodes, r.manager())
	if err != nil {
		return nil, fmt.Errorf("read opensm-subnet.lst: %w", err)
	}
	return f, nil
}

// lstEnd is one end of a cable as a line describes it.
type lstEnd struct {
	kind               Kind
	marked             bool // as the subnet manager's
	ports, number      uint8
	system, node, port ib.GUID
	vendor, device     uint32
	name               []byte
	lid                ib.LID
}

// lstLine is a parsed line: both ends, and the state and rate of the near one.
type lstLine struct {
	near, far lstEnd
	rate      ib.Rate
	state     PortState
}

// parseLstLine takes a line apart. Descriptions can hold anything: the near
// one ends where the description of a far end follows, the far one ends at the
// last "} LID:" of the line.
func parseLstLine(line []byte) (l lstLine, err error) {
	c := cursor{rest: line}
	l.near.head(&c)
	if !c.ok() {
		return l, c.err(line)
	}
	if !l.joint(&c) {
		return l, c.err(line)
	}
	i := bytes.LastIndex(c.rest, lidMark)
	if i < 0 {
		c.lit(string(lidMark))
		return l, c.err(line)
	}
	l.far.name = c.rest[:i]
	c.rest = c.rest[i:]
	l.far.tail(&c)
	l.link(&c)
	if !c.ok() {
		return l, c.err(line)
	}
	return l, nil
}

// joint finds where the near description ends and reads on to the far one. When
// it is nowhere, c stops where the first candidate fails.
func (l *lstLine) joint(c *cursor) bool {
	text := c.rest
	for from := 0; ; from++ {
		i := bytes.Index(text[from:], lidMark)
		if i < 0 {
			c.lit(string(lidMark))
			return false
		}
		from += i
		try := cursor{rest: text[from:]}
		l.near.tail(&try)
		l.far.head(&try)
		if try.ok() {
			l.near.name, *c = text[:from], try
			return true
		}
		if c.ok() {
			*c = try
		}
	}
}

var lidMark = []byte("} LID:")

// head reads an end up to its description.
func (e *lstEnd) head(c *cursor) {
	c.lit("{ ")
	switch {
	case c.has("SW"):
		e.kind = Switch
	case c.has("CA"):
		e.kind = Adapter
	case c.has("Rt"):
		e.kind = Router
	default:
		c.stop("SW, CA or Rt")
	}
	e.marked = c.has("-SM")
	c.lit(" Ports:")
	e.ports = uint8(c.hex(2, "a number of ports"))
	c.lit(" SystemGUID:")
	e.system = ib.GUID(c.hex(16, "a GUID"))
	c.lit(" NodeGUID:")
	e.node = ib.GUID(c.hex(16, "a GUID"))
	c.lit(" PortGUID:")
	e.port = ib.GUID(c.hex(16, "a GUID"))
	c.lit(" VenID:")
	e.vendor = uint32(c.hex(8, "a vendor"))
	c.lit(" DevID:")
	// OpenSM prints the 16 bits of the device as the upper half of 32.
	if e.device = uint32(c.hex(8, "a device")); e.device&0xFFFF == 0 {
		e.device >>= 16
	}
	c.lit(" Rev:")
	c.hex(8, "a revision")
	c.lit(" {")
}

// tail reads an end from behind its description.
func (e *lstEnd) tail(c *cursor) {
	c.lit("} LID:")
	e.lid = assigned(ib.LID(c.hex(4, "a LID of four hexadecimal digits")))
	c.lit(" PN:")
	e.number = uint8(c.hex(2, "a port number"))
	c.lit(" } ")
}

// link reads the width, state and speed that end a line.
func (l *lstLine) link(c *cursor) {
	c.lit("PHY=")
	if !c.has("??x") && !c.has("??") {
		l.rate.Width = uint8(c.decimal(255, "a width such as 4x"))
		c.lit("x")
	}
	c.lit(" LOG=")
	switch {
	case c.has("ACT"):
		l.state = Active
	case c.has("ARM"):
		l.state = Armed
	case c.has("INI"):
		l.state = Init
	case c.has("DWN"):
		l.state = Down
	default:
		c.stop("ACT, ARM, INI or DWN")
	}
	c.lit(" SPD=")
	if len(c.rest) == 0 || bytes.ContainsAny(c.rest, " \t") {
		c.stop("a speed, and nothing after it,")
	}
	l.rate.Speed = lstSpeed(c.rest)
}

// lstSpeed returns the generation that OpenSM prints as Gb/s of one physical lane. OpenSM
// prints "??" for those that it does not know.
func lstSpeed(word []byte) ib.Speed {
	switch string(word) {
	case "2.5":
		return ib.SDR
	case "5":
		return ib.DDR
	case "10":
		return ib.QDR
	case "FDR10":
		return ib.FDR10
	case "14":
		return ib.FDR
	case "25":
		return ib.EDR
	case "50":
		return ib.HDR
	case "100":
		return ib.NDR
	case "200":
		return ib.XDR
	}
	return ib.UnknownSpeed
}

// lstReader gathers nodes and cables line by line.
type lstReader struct {
	nodes  []Node
	index  map[ib.GUID]int32
	slab   []Port
	marked []ib.GUID // nodes marked as the subnet manager's, each once
}

func (r *lstReader) line(line []byte) error {
	l, err := parseLstLine(line)
	if err != nil {
		return err
	}
	near, err := r.end(&l.near)
	if err != nil {
		return err
	}
	far, err := r.end(&l.far)
	if err != nil {
		return err
	}
	port := &r.nodes[near].Ports[l.near.number]
	if port.Peer != None {
		return fmt.Errorf("%s port %d is printed twice", &r.nodes[near], l.near.number)
	}
	port.Peer, port.PeerPort, port.Rate, port.State = far, l.far.number, l.rate, l.state
	back := &r.nodes[far].Ports[l.far.number]
	if back.Peer != None && (back.Peer != near || back.PeerPort != l.near.number) {
		return fmt.Errorf("%s port %d leads to %s port %d, which leads to %s port %d", &r.nodes[near], l.near.number,
			&r.nodes[far], l.far.number, &r.nodes[back.Peer], back.PeerPort)
	}
	return nil
}

// end finds or adds the node of an end, notes its port's GUID and LID, and
// checks both against what earlier lines said.
func (r *lstReader) end(e *lstEnd) (int32, error) {
	i, known := r.index[e.node]
	if !known {
		if e.node == 0 {
			return None, fmt.Errorf("%q has no node GUID", e.name)
		}
		i = int32(len(r.nodes))
		r.index[e.node] = i
		r.nodes = append(r.nodes, Node{Kind: e.kind, GUID: e.node, System: e.system, Vendor: e.vendor, Device: e.device,
			Name: string(e.name), Ports: newPorts(&r.slab, int(e.ports))})
	}
	n := &r.nodes[i]
	if n.Kind != e.kind || len(n.Ports) != int(e.ports)+1 || n.System != e.system || n.Name != string(e.name) {
		return None, fmt.Errorf("node %s is here a %s called %q with %d ports in system %s, and on an earlier line a %s called %q with %d ports in system %s",
			n.GUID, e.kind, e.name, e.ports, e.system, n.Kind, n.Name, len(n.Ports)-1, n.System)
	}
	if e.number == 0 || int(e.number) >= len(n.Ports) {
		return None, fmt.Errorf("port %d is not on %s (%d ports)", e.number, n, len(n.Ports)-1)
	}
	own := &n.Ports[e.number]
	if n.Kind == Switch {
		own = &n.Ports[0]
		own.State = Active
	}
	if own.GUID == 0 {
		own.GUID, own.LID = e.port, e.lid
	}
	if own.GUID != e.port || own.LID != e.lid {
		return None, fmt.Errorf("%s port %d has port GUID %s and LID %d, which were %s and %d on an earlier line", n, e.number, e.port, e.lid, own.GUID, own.LID)
	}
	// Before LIDs are assigned both of those that OpenSM compares are 0.
	if e.marked && e.lid != 0 && !slices.Contains(r.marked, n.GUID) {
		r.marked = append(r.marked, n.GUID)
	}
	return i, nil
}

// manager returns the one node that is marked as the subnet manager's, or 0.
func (r *lstReader) manager() ib.GUID {
	if len(r.marked) != 1 {
		return 0
	}
	return r.marked[0]
}

// bothEnds finds a cable that was printed from one end only, or adds its other end where
// once is all that is printed.
func (r *lstReader) bothEnds(once bool) error {
	for i := range r.nodes {
		for p := range r.nodes[i].Ports {
			port := &r.nodes[i].Ports[p]
			if port.Peer == None {
				continue
			}
			peer := &r.nodes[port.Peer]
			switch back := &peer.Ports[port.PeerPort]; {
			case back.Peer != None:
			case once:
				back.Peer, back.PeerPort, back.Rate, back.State = int32(i), uint8(p), port.Rate, port.State
			default:
				return fmt.Errorf("cable %s port %d – %s port %d is printed from its first end only: %w",
					r.nodes[i].Label(), p, peer.Label(), port.PeerPort, ErrIncomplete)
			}
		}
	}
	return nil
}
