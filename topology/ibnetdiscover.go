package topology

import (
	"bytes"
	"fmt"

	"github.com/forsd/forsd/ib"
)

// ReadIbnetdiscover parses the output of ibnetdiscover, with or without grouping by
// chassis, external port numbers and the details of --full; and ibdiagnet2.ibnetdiscover of
// ibdiagnet, with the labels of ports. Descriptions are taken from a node's own block.
// Comments may be missing: LIDs and LMCs are then 0 and rates unknown. The states of ports
// are not in the output: a port with a cable counts as Active. Fabric.SM stays 0.
//
// Lines of other programs before the first line of the output and after the last one, such
// as errors and a prompt, are ignored, and so are tabs that a terminal has lost.
//
// Every cable is printed at both its ends. A cable printed at one end only, a peer without
// a block of its own, no cable at all, or a last line without a newline mean that the
// output was truncated: the error wraps ErrIncomplete.
func ReadIbnetdiscover(data []byte) (*Fabric, error) {
	r := ndReader{index: make(map[ib.GUID]int32)}
	for more := true; more; {
		var line []byte
		r.number++
		line, data, more = bytes.Cut(data, newline)
		line = bytes.TrimRight(line, "\r")
		if !more && lineKind(line) > silentLine {
			return nil, fmt.Errorf("read ibnetdiscover: the last line has no end: %w", ErrIncomplete)
		}
		if err := r.line(line); err != nil {
			return nil, fmt.Errorf("read ibnetdiscover line %w", err)
		}
	}
	if len(r.cables) == 0 {
		return nil, fmt.Errorf("read ibnetdiscover: no cable is described: %w", ErrIncomplete)
	}
	if err := r.resolve(); err != nil {
		return nil, fmt.Errorf("read ibnetdiscover line %w", err)
	}
	f, err := NewFabric(r.nodes, 0)
	if err != nil {
		return nil, fmt.Errorf("read ibnetdiscover: %w", err)
	}
	return f, nil
}

// ndLine is the kind of a line of ibnetdiscover.
type ndLine uint8

const (
	unknownLine ndLine = iota
	silentLine         // empty, a comment, or a chassis's heading
	idLine             // vendid= and the like
	nodeLine
	portLine
)

// lineKind returns the kind of a line by its beginning.
func lineKind(line []byte) ndLine {
	trimmed := bytes.TrimLeft(line, " \t")
	if len(trimmed) == 0 || trimmed[0] == '#' {
		return silentLine
	}
	begins := func(behind string, words ...string) bool {
		for _, w := range words {
			if rest, is := bytes.CutPrefix(line, []byte(w)); is && (behind == "" || len(rest) > 0 && bytes.IndexByte([]byte(behind), rest[0]) >= 0) {
				return true
			}
		}
		return false
	}
	switch {
	case begins("0123456789", "["):
		if end := bytes.IndexByte(line, ']'); end < 0 || end+1 == len(line) || bytes.IndexByte([]byte("\"([ \t"), line[end+1]) >= 0 {
			return portLine
		}
	case begins("", "vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid="):
		return idLine
	case begins("\t 0123456789", "Switch", "Ca", "Rt"):
		return nodeLine
	case begins("", "Chassis ", "Non-Chassis Nodes", "Hostname: "):
		return silentLine
	}
	return unknownLine
}

// ndCable is a port line: a cable as seen from one of its ends.
type ndCable struct {
	line       int
	at         PortRef // of the reader's nodes
	kind       Kind    // of the peer, which has GUID guid
	guid       ib.GUID
	port       uint8
	remotePort ib.GUID // the peer's port GUID, 0 if missing
	remoteLID  ib.LID  // 0 if missing
}

// ndReader gathers node blocks line by line; cables are joined at the end.
type ndReader struct {
	nodes  []Node
	lines  []int // [node] the line that began it
	index  map[ib.GUID]int32
	cables []ndCable
	slab   []Port
	number int   // of the present line
	begun  bool  // whether there was a line of ibnetdiscover
	stray  error // the first unrecognized line after that

	current        int32   // the node whose ports are listed
	open           bool    // whether there is one
	system         ib.GUID // of the block that begins, as the following
	vendor, device uint32
	guid, portGUID ib.GUID
	guidOf         Kind
}

func (r *ndReader) line(line []byte) (err error) {
	kind := lineKind(line)
	if kind > silentLine && r.stray != nil {
		return r.stray
	}
	switch kind {
	case idLine:
		err = r.id(line)
	case nodeLine:
		err = r.node(line)
	case portLine:
		err = r.port(line)
	case unknownLine:
		if r.begun && r.stray == nil {
			r.stray = fmt.Errorf("%d: %s is not a line of ibnetdiscover, and there are more of these behind it: take it out", r.number, quote(line))
		}
		return nil
	default:
		return nil
	}
	r.begun = true
	if err != nil {
		return fmt.Errorf("%d: %w", r.number, err)
	}
	return nil
}

// id reads the lines that begin a node's block.
func (r *ndReader) id(line []byte) error {
	c := cursor{rest: line}
	guid := func() ib.GUID {
		c.lit("0x")
		return ib.GUID(c.hex(16, "a GUID"))
	}
	switch {
	case c.has("vendid="):
		r.open, r.system, r.vendor, r.device, r.guid, r.portGUID, r.guidOf = false, 0, 0, 0, 0, 0, 0
		c.lit("0x")
		r.vendor = uint32(c.hex(8, "a vendor"))
	case c.has("devid="):
		c.lit("0x")
		r.device = uint32(c.hex(8, "a device"))
	case c.has("sysimgguid="):
		r.system = guid()
	case c.has("switchguid="):
		r.guid, r.guidOf = guid(), Switch
		if c.has("(") {
			r.portGUID = ib.GUID(c.hex(16, "a port GUID"))
			c.lit(")")
		}
	case c.has("caguid="):
		r.guid, r.guidOf = guid(), Adapter
	case c.has("rtguid="):
		r.guid, r.guidOf = guid(), Router
	}
	if !c.ok() {
		return c.err(line)
	}
	return nil
}

// nodeID reads "S-0002c90200400001": a node's kind and GUID.
func nodeID(c *cursor) (kind Kind, guid ib.GUID) {
	c.lit(`"`)
	switch {
	case c.has("S-"):
		kind = Switch
	case c.has("H-"):
		kind = Adapter
	case c.has("R-"):
		kind = Router
	default:
		c.stop("S-, H- or R-")
	}
	guid = ib.GUID(c.hex(16, "a GUID"))
	c.lit(`"`)
	return kind, guid
}

// node reads the line that names a node, such as
// Switch 40 "S-…" # "Leaf000" base port 0 lid 64 lmc 0.
func (r *ndReader) node(line []byte) error {
	c := cursor{rest: line}
	n := Node{System: r.system, Vendor: r.vendor, Device: r.device}
	switch {
	case c.has("Switch"):
		n.Kind = Switch
	case c.has("Ca"):
		n.Kind = Adapter
	case c.has("Rt"):
		n.Kind = Router
	}
	c.spaces()
	ports := c.decimal(255, "a number of ports")
	c.spaces()
	kind, guid := nodeID(&c)
	comment, err := ndComment(&c, line)
	if err != nil {
		return err
	}
	if kind != n.Kind || r.guidOf != 0 && (r.guidOf != n.Kind || r.guid != guid) {
		return fmt.Errorf("%s is not the node that its block began with", quote(line))
	}
	if at, dup := r.index[guid]; dup {
		return fmt.Errorf("%s %s is described a second time, first on line %d", kind, guid, r.lines[at])
	}
	n.GUID, n.Name, n.Ports = guid, string(comment.name), newPorts(&r.slab, ports)
	if n.Kind == Switch {
		n.Ports[0] = Port{GUID: r.portGUID, LID: comment.after.lid, LMC: comment.after.lmc, Peer: None, State: Active}
		if r.portGUID == 0 {
			n.Ports[0].GUID = guid
		}
	}
	r.current, r.open = int32(len(r.nodes)), true
	r.index[guid] = r.current
	r.nodes, r.lines = append(r.nodes, n), append(r.lines, r.number)
	r.system, r.vendor, r.device, r.guid, r.portGUID, r.guidOf = 0, 0, 0, 0, 0, 0
	return nil
}

// port reads a port's line, such as
// [1](100001) "S-…"[2] # lid 96 lmc 5 "Leaf000" lid 64 4xHDR.
func (r *ndReader) port(line []byte) error {
	if !r.open {
		return fmt.Errorf("%s belongs to no node: no Switch, Ca or Rt line comes before it", quote(line))
	}
	n := &r.nodes[r.current]
	c := cursor{rest: line}
	number, own := ndPort(&c)
	c.spaces()
	cable := ndCable{line: r.number, at: PortRef{r.current, uint8(number)}}
	cable.kind, cable.guid = nodeID(&c)
	var far int
	far, cable.remotePort = ndPort(&c)
	comment, err := ndComment(&c, line)
	if err != nil {
		return err
	}
	if number == 0 || number >= len(n.Ports) {
		return fmt.Errorf("port %d is not on %s (%d ports)", number, n, len(n.Ports)-1)
	}
	p := &n.Ports[number]
	if p.State == Active {
		return fmt.Errorf("%s port %d is listed twice", n, number)
	}
	cable.port, cable.remoteLID = uint8(far), comment.after.lid
	r.cables = append(r.cables, cable)
	p.State, p.Rate = Active, comment.after.rate
	if n.Kind != Switch {
		p.GUID, p.LID, p.LMC = own, comment.before.lid, comment.before.lmc
	}
	return nil
}

// ndPort parses a port number with optional suffixes: [1], [1][ext 3], [1](100001), [1][ext
// 3] (100001), and with labels [1](1/1/1), [1](1/1/1)(100001).
func ndPort(c *cursor) (number int, guid ib.GUID) {
	c.lit("[")
	number = c.decimal(255, "a port number")
	c.lit("]")
	if c.has("[ext ") {
		c.decimal(1<<16, "an external port number")
		c.lit("]")
	}
	for c.spaces(); c.has("("); c.spaces() {
		if end := bytes.IndexByte(c.rest, ')'); end > 0 && bytes.IndexByte(c.rest[:end], '/') > 0 {
			c.rest = c.rest[end+1:] // a label
			continue
		}
		guid = ib.GUID(c.hex(16, "a port GUID"))
		c.lit(")")
	}
	return number, guid
}

// ndFields is the content of a comment other than the description.
type ndFields struct {
	lid  ib.LID
	lmc  uint8
	rate ib.Rate
}

// ndRemark is the comment that ends a node's or port's line.
type ndRemark struct {
	name          []byte
	before, after ndFields // what stands before and after the description
}

// ndComment reads the comment that ends line, which may be missing. A
// description can hold anything, quotes included, and nothing else in a comment
// holds a quote: it reaches from the first to the last.
func ndComment(c *cursor, line []byte) (ndRemark, error) {
	var out ndRemark
	c.spaces()
	if c.ok() && len(c.rest) == 0 {
		return out, nil
	}
	c.lit("#")
	if !c.ok() {
		return out, c.err(line)
	}
	first, last := bytes.IndexByte(c.rest, '"'), bytes.LastIndexByte(c.rest, '"')
	if first == last {
		c.stop("a description in quotes")
		return out, c.err(line)
	}
	out.name = c.rest[first+1 : last]
	for _, part := range []struct {
		text   []byte
		fields *ndFields
	}{{c.rest[:first], &out.before}, {c.rest[last+1:], &out.after}} {
		if err := part.fields.read(part.text, line); err != nil {
			return out, err
		}
	}
	return out, nil
}

// read finds "lid N", "lmc N" and a rate such as 4xHDR among text's words, and
// passes over the others.
func (f *ndFields) read(text, line []byte) error {
	c := cursor{rest: text}
	for c.spaces(); c.ok() && len(c.rest) > 0; c.spaces() {
		switch {
		case c.has("lid "):
			f.lid = assigned(ib.LID(c.decimal(0xFFFF, "a LID")))
		case c.has("lmc "):
			f.lmc = uint8(c.decimal(ib.MaxLMC, "an LMC from 0 to 7"))
		default:
			word := c.rest
			if i := bytes.IndexAny(word, " \t"); i >= 0 {
				word = word[:i]
			}
			if rate, ok := ndRate(word); ok {
				f.rate = rate
			}
			c.rest = c.rest[len(word):]
		}
	}
	if !c.ok() {
		return fmt.Errorf("expected %s at %s in the comment of %s", c.want, quote(c.rest), quote(line))
	}
	return nil
}

// ndRate parses a rate such as 4xHDR and reports whether word is one; width and speed can
// be unknown: ??HDR, 4x???.
func ndRate(word []byte) (ib.Rate, bool) {
	digits := 0
	for digits < len(word) && word[digits] >= '0' && word[digits] <= '9' {
		digits++
	}
	switch {
	case digits > 0 && digits < len(word) && word[digits] == 'x':
		return ib.ParseRate(string(word)), true
	case bytes.HasPrefix(word, []byte("??")):
		return ib.Rate{Speed: ib.ParseRate("4x" + string(word[2:])).Speed}, true
	}
	return ib.Rate{}, false
}

// resolve joins the cables, each described by both its ends.
func (r *ndReader) resolve() error {
	for i := range r.cables {
		c := &r.cables[i]
		peer, known := r.index[c.guid]
		if !known {
			return fmt.Errorf("%d: %s port %d leads to %s %s, which has no block of its own: %w",
				c.line, &r.nodes[c.at.Node], c.at.Port, c.kind, c.guid, ErrIncomplete)
		}
		n := &r.nodes[peer]
		if c.kind != n.Kind {
			return fmt.Errorf("%d: %s is a %s, not a %s", c.line, n, n.Kind, c.kind)
		}
		if c.port == 0 || int(c.port) >= len(n.Ports) {
			return fmt.Errorf("%d: port %d is not on %s (%d ports)", c.line, c.port, n, len(n.Ports)-1)
		}
		p := &r.nodes[c.at.Node].Ports[c.at.Port]
		p.Peer, p.PeerPort = peer, c.port
		if err := r.compare(c, n); err != nil {
			return err
		}
	}
	for i := range r.cables {
		c := &r.cables[i]
		near, far := &r.nodes[c.at.Node], &r.nodes[r.index[c.guid]]
		switch back := &far.Ports[c.port]; {
		case back.Peer == None:
			return fmt.Errorf("%d: cable %s port %d – %s port %d is printed at its first end only: %w",
				c.line, near.Label(), c.at.Port, far.Label(), c.port, ErrIncomplete)
		case back.Peer != c.at.Node || back.PeerPort != c.at.Port:
			return fmt.Errorf("%d: %s port %d leads to %s port %d, which leads to %s port %d",
				c.line, near, c.at.Port, far, c.port, &r.nodes[back.Peer], back.PeerPort)
		}
	}
	return nil
}

// compare checks a cable's line against the line of its far end, and adds the details that
// the far end omits.
func (r *ndReader) compare(c *ndCable, n *Node) error {
	own := &n.Ports[c.port]
	if n.Kind == Switch {
		own = &n.Ports[0]
	}
	if own.GUID == 0 {
		own.GUID = c.remotePort
	}
	if own.LID == 0 {
		own.LID = c.remoteLID
	}
	if c.remotePort != 0 && own.GUID != c.remotePort {
		return fmt.Errorf("%d: %s port %d has port GUID %s here and %s in its own block", c.line, n, c.port, c.remotePort, own.GUID)
	}
	if c.remoteLID != 0 && own.LID != c.remoteLID {
		return fmt.Errorf("%d: %s port %d has LID %d here and %d in its own block", c.line, n, c.port, c.remoteLID, own.LID)
	}
	return nil
}
