package tomography

import (
	"fmt"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Links numbers the directed links of a fabric: by the port at which a packet leaves.
type Links struct {
	fabric *topology.Fabric
	first  []int32 // [node] number of its port 0
	ports  map[ib.GUID]topology.PortRef
}

// Of numbers the links of a fabric.
func Of(f *topology.Fabric) *Links {
	l := &Links{f, make([]int32, len(f.Nodes)), map[ib.GUID]topology.PortRef{}}
	n := int32(0)
	for i := range f.Nodes {
		l.first[i] = n
		n += int32(len(f.Nodes[i].Ports))
		for p := range f.Nodes[i].Ports {
			if f.Nodes[i].Kind != topology.Switch {
				l.ports[f.Nodes[i].Ports[p].GUID] = topology.PortRef{Node: int32(i), Port: uint8(p)}
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

// Transfers has logged transfers with their ways.
func (l *Links) Transfers(tables *lft.Tables, sent []Sent) ([]Transfer, error) {
	transfers := make([]Transfer, len(sent))
	for i, s := range sent {
		way, err := l.Way(tables, s.Src, s.DLID)
		if err != nil {
			return nil, fmt.Errorf("a transfer from %s to %s: %w: want the tables of the time of the exchange", s.Src, s.Dst, err)
		}
		transfers[i] = Transfer{s.Phase, s.Src, s.Dst, float64(s.Nanos), way}
	}
	return transfers, nil
}

// Parts lists what can be slow: each link; each cable in both directions, with which its ports
// and, at the end of a host, adapter and host are not told apart; and each switch.
func (l *Links) Parts() []Part {
	f := l.fabric
	var parts, switches []Part
	for i := range f.Nodes {
		whole := Part{Name: f.Nodes[i].Label()}
		for p := range f.Nodes[i].Ports {
			at := topology.PortRef{Node: int32(i), Port: uint8(p)}
			port := f.At(at)
			if !port.Up() {
				continue
			}
			to := topology.PortRef{Node: port.Peer, Port: port.PeerPort}
			link := []int32{l.Number(at), l.Number(to)}
			parts = append(parts, Part{f.PortLabel(at) + " → " + f.PortLabel(to), link[:1]})
			if at.Node < to.Node || at.Node == to.Node && at.Port < to.Port {
				parts = append(parts, Part{f.CableLabel(at), slices.Clone(link)})
			}
			whole.Links = append(whole.Links, link...)
		}
		if f.Nodes[i].Kind == topology.Switch && len(whole.Links) > 0 {
			switches = append(switches, whole)
		}
	}
	return append(parts, switches...)
}

// Synchronise removes the offsets of clocks from times that were taken by the clock of the
// sender at the beginning, and by that of the receiver at the end. A clock that is ahead
// lengthens what its host receives by as much as it shortens what it sends; the median of half
// the difference over a host's peers is its offset. A host that is slow in one direction alone
// is then seen as slow by half of that in both.
func Synchronise(transfers []Transfer) {
	type pair struct{ from, to ib.GUID }
	took := map[pair][]float64{}
	for i := range transfers {
		t := &transfers[i]
		took[pair{t.Src, t.Dst}] = append(took[pair{t.Src, t.Dst}], t.Took)
	}
	between := map[pair]float64{}
	for p, list := range took {
		between[p] = median(list)
	}
	offset := map[ib.GUID]float64{}
	const rounds = 20 // the offsets of peers are those of the round before
	for range rounds {
		apart := map[ib.GUID][]float64{}
		for p, t := range between {
			if back, ok := between[pair{p.to, p.from}]; ok {
				apart[p.to] = append(apart[p.to], (t-back)/2+offset[p.from])
			}
		}
		next := map[ib.GUID]float64{}
		for host, list := range apart {
			next[host] = (offset[host] + median(list)) / 2
		}
		offset = next
	}
	for i := range transfers {
		transfers[i].Took -= offset[transfers[i].Dst] - offset[transfers[i].Src]
	}
}
