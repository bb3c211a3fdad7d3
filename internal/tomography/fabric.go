package tomography

import (
	"fmt"
	"math"
	"slices"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Links numbers the directed links of a fabric: by the port at which a packet leaves.
type Links struct {
	fabric *topology.Fabric
	first  []int32 // [node] number of its port 0
	ports  map[ib.GUID]topology.PortRef
	Cables [][2]topology.PortRef
}

// Of numbers the links of a fabric.
func Of(f *topology.Fabric) *Links {
	l := &Links{fabric: f, first: make([]int32, len(f.Nodes)), ports: map[ib.GUID]topology.PortRef{}}
	n := int32(0)
	for i := range f.Nodes {
		l.first[i] = n
		n += int32(len(f.Nodes[i].Ports))
		for p := range f.Nodes[i].Ports {
			at, port := topology.PortRef{Node: int32(i), Port: uint8(p)}, &f.Nodes[i].Ports[p]
			if f.Nodes[i].Kind != topology.Switch {
				l.ports[port.GUID] = at
			}
			if port.Up() && (at.Node < port.Peer || at.Node == port.Peer && at.Port < port.PeerPort) {
				l.Cables = append(l.Cables, [2]topology.PortRef{at, {Node: port.Peer, Port: port.PeerPort}})
			}
		}
	}
	return l
}

// Number is the number of the link that leaves by a port.
func (l *Links) Number(p topology.PortRef) int32 { return l.first[p.Node] + int32(p.Port) }

// Way returns the links from a host port to the owner of a LID.
func (l *Links) Way(tables *lft.Tables, from ib.GUID, to ib.LID) ([]int32, error) {
	at, ok := l.ports[from]
	if !ok {
		return nil, fmt.Errorf("the fabric has no host port %s", from)
	}
	hops, err := tables.Trace(l.fabric, at, to)
	if err != nil {
		return nil, err
	}
	var way []int32
	for _, h := range hops {
		if h.Out != 0 { // the last hop is the owner
			way = append(way, l.Number(topology.PortRef{Node: h.Node, Port: h.Out}))
		}
	}
	return way, nil
}

// ways are the ways on tables. Hosts of a leaf share what follows their own link.
type ways struct {
	links  *Links
	tables *lft.Tables
	tails  map[tail][]int32
}

// tail is from where and whereto a way leads after a host's link.
type tail struct {
	leaf int32
	lid  ib.LID
}

func (l *Links) newWays(tables *lft.Tables) *ways { return &ways{l, tables, map[tail][]int32{}} }

// of is Links.Way.
func (w *ways) of(from ib.GUID, to ib.LID) ([]int32, error) {
	at, ok := w.links.ports[from]
	if !ok {
		return nil, fmt.Errorf("the fabric has no host port %s", from)
	}
	key := tail{w.links.fabric.At(at).Peer, to}
	rest := w.tails[key]
	if rest == nil {
		whole, err := w.links.Way(w.tables, from, to)
		if err != nil {
			return nil, err
		}
		rest = whole[min(1, len(whole)):]
		w.tails[key] = rest
	}
	return append(append(make([]int32, 0, 1+len(rest)), w.links.Number(at)), rest...), nil
}

// Transfers has logged transfers with their ways.
func (l *Links) Transfers(tables *lft.Tables, sent []Sent) ([]Transfer, error) {
	ways := l.newWays(tables)
	transfers := make([]Transfer, len(sent))
	for i := range sent {
		s := &sent[i]
		way, err := ways.of(s.Src, s.DLID)
		if err != nil {
			return nil, fmt.Errorf("a transfer from %s to %s: %w: want the tables of the time of the exchange", s.Src, s.Dst, err)
		}
		transfers[i] = Transfer{s.Phase, s.Src, s.Dst, s.Bytes, float64(s.Nanos), way}
	}
	return transfers, nil
}

// Parts lists what can be slow: each link; each cable in both directions, with which its ports
// and, at the end of a host, adapter and host are not told apart; and each switch.
func (l *Links) Parts() []Part {
	f := l.fabric
	var parts []Part
	whole := make([][]int32, len(f.Nodes))
	for i, ends := range l.Cables {
		links := []int32{l.Number(ends[0]), l.Number(ends[1])}
		label := [2]string{f.PortLabel(ends[0]), f.PortLabel(ends[1])}
		parts = append(parts, Part{label[0] + " → " + label[1], links[:1], int32(i)}, Part{label[1] + " → " + label[0], links[1:], int32(i)},
			Part{f.CableLabel(ends[0]), links, int32(i)})
		for _, end := range ends {
			whole[end.Node] = append(whole[end.Node], links...)
		}
	}
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch && whole[i] != nil {
			parts = append(parts, Part{f.Nodes[i].Label(), whole[i], -1})
		}
	}
	return parts
}

// Find finds the slow parts of the fabric, and the throughput of each cable. The clocks of the
// hosts need not agree, unless they are one.
func (l *Links) Find(transfers []Transfer, oneClock bool) (*api.Measured, error) {
	parts := l.Parts()
	var s *search
	var r *api.Measured
	var err error
	if oneClock {
		s, r, err = find(transfers, parts)
	} else {
		transfers, s, r, err = findApart(transfers, parts)
	}
	if err != nil {
		return nil, err
	}
	l.measureCables(transfers, s, r)
	return r, nil
}

// measureCables adds the throughput of each cable.
func (l *Links) measureCables(transfers []Transfer, s *search, r *api.Measured) {
	own := make([][]int32, len(l.Cables)) // transfers that a cable explains
	slow := make([]bool, len(l.Cables))
	for _, n := range s.named {
		cable := s.parts[n.parts[0]].Cable
		if cable >= 0 && !slices.ContainsFunc(n.parts, func(p int) bool { return s.parts[p].Cable != cable }) {
			own[cable], slow[cable] = append(own[cable], n.transfers...), true
		}
	}
	for p := range s.parts {
		part := &s.parts[p]
		if part.Cable < 0 || len(part.Links) != 2 {
			continue
		}
		of := own[part.Cable]
		if len(of) == 0 {
			of = slices.DeleteFunc(slices.Clone(s.of[p]), func(i int32) bool { return !s.left[i] })
		}
		if len(of) == 0 {
			continue
		}
		var ys, gbps []float64
		for _, i := range of {
			ys, gbps = append(ys, s.y[i]), append(gbps, 8*float64(transfers[i].Bytes)/transfers[i].Took)
		}
		effect := median(ys)
		ends := l.Cables[part.Cable]
		r.Cables = append(r.Cables, api.MeasuredCable{A: l.end(ends[0]), B: l.end(ends[1]), Gbps: median(gbps),
			Slowdown: math.Expm1(effect), Error: s.wide(effect, len(of)), Transfers: len(of), Slow: slow[part.Cable]})
	}
}

// end is an end of a cable in the form of the API.
func (l *Links) end(p topology.PortRef) api.LinkEnd {
	n := &l.fabric.Nodes[p.Node]
	e := api.LinkEnd{GUID: n.GUID, Name: n.Name, Port: p.Port}
	if n.Kind != topology.Switch {
		e.Host = n.Ports[p.Port].GUID
	}
	return e
}
