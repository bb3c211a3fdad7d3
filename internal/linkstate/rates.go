package linkstate

import (
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// A manager may have read a port's width and speed before the link was trained, at one
// end of a cable or at both. A cable has one rate. If a sweep shows two, or one that is
// below that of other cables, the switches at its ends are asked. Their answers replace
// the sweep's values while sweeps leave the rate in doubt.

// Training is how long forsd asks the switches at a cable that is shown below other
// cables. A link is trained by then.
const Training = 10 * time.Second

// dispute is a cable between switches whose rate is in doubt.
type dispute struct {
	ends  [2]end
	since time.Time // when both ends were first shown below other cables; zero if the ends differ
}

// findDisputes finds the cables of the shown fabric whose rate is in doubt, forgets the
// reported rates of all others, and asks the switches at the ends.
func (l *Links) findDisputes(now time.Time) {
	before := l.disputes
	l.disputes = nil
	var most ib.Rate
	l.eachTrunk(func(_ topology.PortRef, rate, back ib.Rate) {
		for _, r := range []ib.Rate{rate, back} {
			if !most.Known() || most.Below(r) {
				most = r
			}
		}
	})
	l.eachTrunk(func(r topology.PortRef, rate, back ib.Rate) {
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

// eachTrunk calls look once for each cable between switches whose rates are known.
func (l *Links) eachTrunk(look func(r topology.PortRef, rate, back ib.Rate)) {
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

// same reports whether both disputes are about the same cable.
func (d dispute) same(o dispute) bool { return d.ends == o.ends }

// asksFor reports whether forsd asks the switches of the cable when a sweep shows it. It
// does not if they have confirmed that the cable is below others.
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

// resolved reports whether both ends of a cable have reported the same rate, and neither
// is below the shown rate: that end may have been trained since it was asked. An end
// shown below others must be above the shown rate, or have had time to be trained.
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
func (l *Links) heardRate(e end, said ib.Rate) (news bool) {
	if !said.Known() || !l.disputed(e) {
		return false
	}
	r, _ := e.in(l.shown)
	shown := l.shown.At(r).Rate
	if said.Speed == ib.QDR && shown.Speed == ib.FDR10 {
		said.Speed = ib.FDR10
	}
	before, known := l.rates[e]
	if !known {
		before = shown
	}
	l.rates[e] = said
	return said != before
}
