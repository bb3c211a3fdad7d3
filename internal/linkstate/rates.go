package linkstate

import (
	"slices"

	"github.com/forsd/forsd/topology"
)

// A manager may have read a port's width and speed before the link was trained, and shows
// other ones at the two ends of a cable. A cable has one rate, so its switches are
// asked, and what they say takes the place of what is shown while that contradicts
// itself.

// dispute is a cable between switches with two rates, by its ends.
type dispute [2]end

// findDisputes finds the cables of the fabric shown that have two rates, forgets what was
// said of others, and has the switches at their ends asked.
func (l *Links) findDisputes() {
	l.disputes = nil
	for i := range l.shown.Nodes {
		if l.shown.Nodes[i].Kind != topology.Switch {
			continue
		}
		for p := range l.shown.Nodes[i].Ports {
			r := topology.PortRef{Node: int32(i), Port: uint8(p)}
			if !l.shown.Trunk(r) {
				continue
			}
			port := l.shown.At(r)
			back := l.shown.At(topology.PortRef{Node: port.Peer, Port: port.PeerPort})
			if int32(i) < port.Peer && port.Rate != back.Rate && port.Rate.Known() && back.Rate.Known() {
				l.disputes = append(l.disputes, dispute{{l.shown.Nodes[i].GUID, r.Port}, l.otherEnd(r)})
			}
		}
	}
	for e := range l.rates {
		if !l.disputed(e) {
			delete(l.rates, e)
		}
	}
}

// disputed tells whether an end is one of a cable with two rates.
func (l *Links) disputed(e end) bool {
	return slices.ContainsFunc(l.disputes, func(d dispute) bool { return d[0] == e || d[1] == e })
}

// resolved tells whether both ends of a cable have said the same rate, and none that is
// below what is shown of one of them: that end may have been trained since it was asked.
func (l *Links) resolved(d dispute) bool {
	a, saidA := l.rates[d[0]]
	b, saidB := l.rates[d[1]]
	for _, e := range d {
		if r, there := e.in(l.shown); there && a.Below(l.shown.At(r).Rate) {
			return false
		}
	}
	return saidA && saidB && a == b
}

// heardRate takes in the rate that a switch says an end has, and tells whether that is
// news. FDR10 reads as QDR, so what is shown tells them apart.
func (l *Links) heardRate(e end, said topology.Rate) (news bool) {
	if !said.Known() || !l.disputed(e) {
		return false
	}
	r, _ := e.in(l.shown)
	shown := l.shown.At(r).Rate
	if said.Speed == topology.QDR && shown.Speed == topology.FDR10 {
		said.Speed = topology.FDR10
	}
	before, known := l.rates[e]
	if !known {
		before = shown
	}
	l.rates[e] = said
	return said != before
}
