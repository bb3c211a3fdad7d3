package linkstate

import (
	"slices"
	"time"

	"github.com/forsd/forsd/topology"
)

// A manager may have read a port's width and speed before the link was trained, at one end
// of a cable or at both. A cable has one rate. If a sweep shows two, or one that is below
// that of other cables, the switches at its ends are asked, and their answers replace the
// sweep's values for as long.

// Training is how long the switches at a cable are asked that is shown below other cables:
// by then a link is trained.
const Training = 10 * time.Second

// dispute is a cable between switches whose rate is in doubt.
type dispute struct {
	ends  [2]end
	since time.Time // when both ends were first shown below other cables; zero where they differ
}

// findDisputes finds the cables of the fabric shown whose rate is in doubt, forgets what
// was said of others, and has the switches at their ends asked.
func (l *Links) findDisputes(now time.Time) {
	before := l.disputes
	l.disputes = nil
	var most topology.Rate
	l.eachTrunk(func(_ topology.PortRef, rate, back topology.Rate) {
		for _, r := range []topology.Rate{rate, back} {
			if !most.Known() || most.Below(r) {
				most = r
			}
		}
	})
	l.eachTrunk(func(r topology.PortRef, rate, back topology.Rate) {
		d := dispute{ends: [2]end{{l.shown.Nodes[r.Node].GUID, r.Port}, l.otherEnd(r)}}
		switch {
		case rate != back:
		case rate.Below(most):
			if d.since = now; !slices.ContainsFunc(before, d.same) {
				break
			}
			if was := before[slices.IndexFunc(before, d.same)].since; !was.IsZero() {
				d.since = was
			}
		default:
			return
		}
		l.disputes = append(l.disputes, d)
	})
	for e := range l.rates {
		if !l.disputed(e) {
			delete(l.rates, e)
		}
	}
	for _, d := range l.disputes {
		if l.asksFor(d, now) {
			l.ask(now, d.ends[0].node, now)
			l.ask(now, d.ends[1].node, now)
		}
	}
}

// eachTrunk calls look for each cable between switches with known rates, from one of its
// ends.
func (l *Links) eachTrunk(look func(r topology.PortRef, rate, back topology.Rate)) {
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
			if int32(i) < port.Peer && port.Rate.Known() && back.Rate.Known() {
				look(r, port.Rate, back.Rate)
			}
		}
	}
}

// same reports whether both are about the same cable.
func (d dispute) same(o dispute) bool { return d.ends == o.ends }

// asksFor reports whether a sweep that shows such a cable makes forsd ask its switches: not
// if they have confirmed that it is below others.
func (l *Links) asksFor(d dispute, now time.Time) bool {
	if d.since.IsZero() || now.Sub(d.since) < Training {
		return true
	}
	for _, e := range d.ends {
		r, _ := e.in(l.shown)
		if said, known := l.rates[e]; known && said != l.shown.At(r).Rate {
			return true
		}
	}
	return false
}

// disputed reports whether an end belongs to a cable whose rate is in doubt.
func (l *Links) disputed(e end) bool {
	return slices.ContainsFunc(l.disputes, func(d dispute) bool { return d.ends[0] == e || d.ends[1] == e })
}

// resolved reports whether both ends of a cable have reported the same rate, and none below
// the one shown for it: that end may have been trained since it was asked. An end shown
// below others must be above that, or have had its time to be trained.
func (l *Links) resolved(d dispute, now time.Time) bool {
	if !d.since.IsZero() && now.Sub(d.since) >= Training {
		return true
	}
	a, saidA := l.rates[d.ends[0]]
	b, saidB := l.rates[d.ends[1]]
	for _, e := range d.ends {
		if r, there := e.in(l.shown); there && (a.Below(l.shown.At(r).Rate) || !d.since.IsZero() && a == l.shown.At(r).Rate) {
			return false
		}
	}
	return saidA && saidB && a == b
}

// heardRate handles the rate that a switch reports for an end, and reports whether it is
// news. FDR10 reads as QDR, so the sweep's value distinguishes them.
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
