package topology

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"github.com/forsd/forsd/ib"
)

// A topology file of ibdm (ibdm-topo-file(1)): a line `TYPE NAME`, and for each cable of
// that system a line `P1 -> TYPE NAME P1`, which may tell its width and speed within the
// arrow, as in `P1 -4x-10G-> MT23108 H-1 P1`. A cable may be listed at one of its ends only.
var (
	topoCable  = regexp.MustCompile(`^(\S+)\s+-(?:(\d+)x-([0-9A-Z.]+?)G?-)?>\s+(\S+)\s+(\S+)\s+(\S+)$`)
	topoSystem = regexp.MustCompile(`^(\S+)\s+(\S+)(?:\s+CFG:.*)?$`)
	topoPort   = regexp.MustCompile(`^(?:U1/)?P?([0-9]+)$`)
)

// topoGUID is where the GUIDs of nodes count up from, in steps that leave room for those of
// ports.
const topoGUID ib.GUID = 0x10000000

// ReadTopo reads a topology file of ibdm, by which a fabric is planned before it is there.
// Every system is one switch or one adapter: systems are switches where one of their type
// has a port above 2, and the ports of directors are not known without their own files. The file
// tells no GUIDs and no LIDs: nodes are numbered in the order in which they come, LIDs are
// given to adapters first. Ports count as Active.
func ReadTopo(data []byte) (*Fabric, error) {
	r := topoReader{index: map[string]int32{}, types: map[string]bool{}}
	for number, more := 1, true; more; number++ {
		var line []byte
		line, data, more = bytes.Cut(data, newline)
		if err := r.line(bytes.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("read .topo file line %d: %w", number, err)
		}
	}
	if len(r.cables) == 0 {
		return nil, fmt.Errorf("read .topo file: no cable is described: %w", ErrIncomplete)
	}
	f, err := r.fabric()
	if err != nil {
		return nil, fmt.Errorf("read .topo file: %w", err)
	}
	return f, nil
}

// topoReader gathers systems and cables.
type topoReader struct {
	nodes  []Node
	kinds  []string         // [node] its type
	ports  []int            // [node] its highest port
	index  map[string]int32 // [name]
	types  map[string]bool  // those of switches
	cables []topoLink
	open   int32 // the system whose cables are listed
	begun  bool  // whether there is one
}

// topoLink is a cable.
type topoLink struct {
	a, b PortRef
	rate ib.Rate
}

func (r *topoReader) line(line []byte) error {
	if len(line) == 0 || line[0] == '#' {
		return nil
	}
	if m := topoCable.FindStringSubmatch(string(line)); m != nil {
		if !r.begun {
			return fmt.Errorf("%s belongs to no system: a line with its type and its name has to come before it", quote(line))
		}
		return r.cable(m)
	}
	m := topoSystem.FindStringSubmatch(string(line))
	if m == nil {
		return fmt.Errorf("expected a system, such as `MQM8700 leaf1`, or a cable, such as `P1 -> MQM8700 spine1 P4`, not %s", quote(line))
	}
	var err error
	r.open, err = r.system(m[1], m[2])
	r.begun = true
	return err
}

// system finds or adds a system.
func (r *topoReader) system(kind, name string) (int32, error) {
	i, known := r.index[name]
	if !known {
		i = int32(len(r.nodes))
		r.index[name] = i
		g := topoGUID + ib.GUID(i)<<8
		r.nodes, r.kinds, r.ports = append(r.nodes, Node{GUID: g, System: g, Name: name}), append(r.kinds, kind), append(r.ports, 0)
	}
	if r.kinds[i] != kind {
		return i, fmt.Errorf("system %s is a %s here and a %s on an earlier line", name, kind, r.kinds[i])
	}
	return i, nil
}

// cable reads a cable of the open system.
func (r *topoReader) cable(m []string) error {
	near, err := r.port(r.open, m[1])
	if err != nil {
		return err
	}
	peer, err := r.system(m[4], m[5])
	if err != nil {
		return err
	}
	far, err := r.port(peer, m[6])
	if err != nil {
		return err
	}
	if near == far {
		return fmt.Errorf("the cable joins %s %s to itself", m[5], m[6])
	}
	link := topoLink{a: near, b: far, rate: ib.Rate{Speed: lstSpeed([]byte(m[3]))}}
	if w, err := strconv.ParseUint(m[2], 10, 8); err == nil {
		link.rate.Width = uint8(w)
	}
	r.cables = append(r.cables, link)
	return nil
}

// port reads the name of a port.
func (r *topoReader) port(i int32, name string) (PortRef, error) {
	m := topoPort.FindStringSubmatch(name)
	if m == nil {
		return PortRef{}, fmt.Errorf("port %s of %s is not of the form P1: describe the switches of a director one by one", name, r.nodes[i].Name)
	}
	p, err := strconv.Atoi(m[1])
	if err != nil || p < 1 || p > 254 {
		return PortRef{}, fmt.Errorf("port %s of %s is not one of 1 to 254", name, r.nodes[i].Name)
	}
	r.ports[i] = max(r.ports[i], p)
	if p > 2 {
		r.types[r.kinds[i]] = true
	}
	return PortRef{i, uint8(p)}, nil
}

// fabric joins the cables.
func (r *topoReader) fabric() (*Fabric, error) {
	var slab []Port
	for i := range r.nodes {
		n := &r.nodes[i]
		n.Kind, n.Ports = Adapter, newPorts(&slab, r.ports[i])
		if r.types[r.kinds[i]] {
			n.Kind = Switch
		}
	}
	f := &Fabric{Nodes: r.nodes}
	for _, c := range r.cables {
		a, b := f.At(c.a), f.At(c.b)
		told := a.Peer == c.b.Node && a.PeerPort == c.b.Port
		for _, end := range []PortRef{c.a, c.b} {
			if p := f.At(end); p.Peer != None && !told {
				return nil, fmt.Errorf("%s has two cables: %s, and one between %s and %s", f.PortLabel(end), f.CableLabel(end), f.PortLabel(c.a), f.PortLabel(c.b))
			}
		}
		if !told || !b.Rate.Known() {
			f.Connect(c.a, c.b, c.rate)
		}
	}
	next := ib.LID(1)
	for _, kind := range []Kind{Adapter, Switch} {
		for _, e := range f.EndPorts() {
			p := f.At(e.PortRef)
			if n := &f.Nodes[e.Node]; n.Kind != kind || kind == Adapter && !p.Connected() {
				continue
			} else if p.GUID = n.GUID + ib.GUID(e.Port); next > ib.MaxUnicastLID {
				return nil, fmt.Errorf("there are more end ports than the %d LIDs of a subnet", ib.MaxUnicastLID)
			}
			p.LID, p.State = next, Active
			next++
		}
	}
	return NewFabric(f.Nodes, 0)
}
