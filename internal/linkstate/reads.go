package linkstate

import (
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// read is a reading of a switch that is under way.
type read struct {
	asked time.Time
	sign  time.Time // the cause: a trap or another reason to read
	again bool      // read the switch again: a port may have changed after it was asked
}

// trap reads the switch that a trap names.
func (l *Links) trap(now time.Time, e Trap) {
	if e.At.Sub(l.trapped) > trapsTogether {
		l.trapped = e.At
	}
	l.discover(false)
	if g := l.switchAt(e.LID); g != 0 {
		l.watch(g).trapped(now)
		l.ask(now, g, e.At)
	}
}

// trapLogged records a trap that the manager has received, until it is forwarded.
func (l *Links) trapLogged(now time.Time, e TrapLogged) {
	g := l.switchAt(e.LID)
	if g == 0 {
		return
	}
	if w := l.watch(g); e.Told {
		w.unheeded = time.Time{}
	} else if w.unheeded.IsZero() {
		w.unheeded = now
	}
}

// switchAt returns the switch with the given LID, 0 if none.
func (l *Links) switchAt(lid ib.LID) ib.GUID {
	if l.shown == nil || lid == 0 {
		return 0
	}
	for i := range l.shown.Nodes {
		if n := &l.shown.Nodes[i]; n.Kind == topology.Switch && n.LID() == lid {
			return n.GUID
		}
	}
	return 0
}

// ask reads a switch. If it is already being read, it is read again afterwards.
func (l *Links) ask(now time.Time, g ib.GUID, sign time.Time) {
	if r := l.reads[g]; r != nil {
		r.again = true
		return
	}
	l.read(now, g, sign, false)
}

// read requests the ports of a switch that lead to switches, and its own port if the
// manager's location is wanted.
func (l *Links) read(now time.Time, g ib.GUID, sign time.Time, own bool) {
	if !l.set.Reads || !l.readable(g) {
		return
	}
	node := l.shown.Find(g)
	ports := l.shown.Trunks(node)
	if own {
		ports = slices.Insert(ports, 0, 0)
	}
	l.watch(g).asked = now
	l.reads[g] = &read{asked: now, sign: sign}
	l.do(Read{Switch: g, LID: l.shown.Nodes[node].LID(), Ports: ports})
}

// portsRead handles answers of switches. It removes a cable reported down from the fabric at
// once, and restores a cable whose report is withdrawn.
func (l *Links) portsRead(now time.Time, e PortsRead) {
	var seen time.Time
	for _, a := range e.Answers {
		r := l.reads[a.Switch]
		if r == nil {
			continue // not asked
		}
		delete(l.reads, a.Switch)
		w := l.watch(a.Switch)
		if w.silent++; len(a.Ports) > 0 {
			w.silent = 0
		} else {
			l.askOthers(now, a.Switch)
		}
		if a.Manager != 0 && a.Manager != l.manager {
			l.manager = a.Manager
			l.placeManager()
		}
		if r.again {
			l.ask(now, a.Switch, r.sign)
		}
		if !l.heard(a, r.asked) {
			continue
		}
		if w.sign = now; seen.IsZero() || r.sign.Before(seen) {
			seen = r.sign
		}
	}
	if !seen.IsZero() {
		l.do(Believe{Fabric: l.believed(), Seen: seen})
	}
}

// heard handles the answer of one switch, and reports whether the fabric to believe has
// changed. A cable is lost while either end reports it down. If that switch does not answer any
// more, since the tables that follow the loss may leave no way to it, the other end decides. An end
// that is trained but not active withdraws nothing: the link carries no traffic until the manager
// has brought it up.
func (l *Links) heard(a Answer, asked time.Time) (news bool) {
	for _, p := range a.Ports {
		this := end{a.Switch, p.Number}
		news = l.heardRate(this, p.Rate) || news
		r, there := this.in(l.shown)
		if there && p.State == topology.Active {
			other, n := l.otherEnd(r), len(l.losses)
			l.losses = slices.DeleteFunc(l.losses, func(x loss) bool { return x.end == other && x.asked.Before(asked) && l.watch(other.node).silent > 0 })
			news = news || len(l.losses) < n
		}
		at := slices.IndexFunc(l.losses, func(x loss) bool { return x.end == this })
		switch {
		case at >= 0 && p.State == topology.Down:
			l.losses[at].asked = asked
			continue
		case at >= 0 && p.State == topology.Active:
			l.losses = slices.Delete(l.losses, at, at+1)
		case at < 0 && p.State == topology.Down:
			l.losses = append(l.losses, loss{this, asked})
		default:
			continue
		}
		news = news || there && !l.lost(l.otherEnd(r))
	}
	return news
}

// askOthers reads the switches at the other ends of cables that a silent switch has reported down.
func (l *Links) askOthers(now time.Time, silent ib.GUID) {
	for _, x := range l.losses {
		if r, there := x.end.in(l.shown); there && x.end.node == silent {
			if other := l.otherEnd(r).node; l.watch(other).silent == 0 {
				l.ask(now, other, now)
			}
		}
	}
}

// otherEnd returns the other end of a cable.
func (l *Links) otherEnd(r topology.PortRef) end {
	p := l.shown.At(r)
	return end{l.shown.Nodes[p.Peer].GUID, p.PeerPort}
}

// lost reports whether a switch has reported that the cable at a port is down.
func (l *Links) lost(e end) bool {
	return slices.ContainsFunc(l.losses, func(x loss) bool { return x.end == e })
}
