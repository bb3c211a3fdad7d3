package linkstate

import (
	"maps"
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// OpenSM ignores a switch that has sent about ten traps in a row, until the switch has
// been quiet for a while. If the manager is attached to the switch, the trap of a cable's
// other end is lost with the cable. So switches whose traps may not arrive are read
// regularly.
const (
	ManyTraps  = 8                      // traps in a row from which a switch is read often
	TrapMemory = time.Minute            // how long after a trap or a loss the next one counts as in a row
	Often      = 20 * time.Millisecond  // between two readings of a switch that may be ignored
	Spread     = 5 * time.Millisecond   // between any two such readings: many switches are read less often
	Unheeded   = 300 * time.Millisecond // from a trap received by the manager until it is forwarded or ignored
	Seldom     = time.Second            // between two readings of a switch that is only monitored
	mostSilent = 6                      // how many times the pause doubles while a switch does not answer
)

// watched records a switch's traps and readings.
type watched struct {
	traps int       // in a row
	sign  time.Time // the last trap, or loss found by reading
	asked time.Time // when the switch was last read
	// unheeded is when a trap was received that has not been forwarded; zero if none.
	unheeded time.Time
	silent   int // readings in a row without an answer
}

// watch returns the record of a switch.
func (l *Links) watch(g ib.GUID) *watched {
	w := l.watches[g]
	if w == nil {
		w = &watched{}
		l.watches[g] = w
	}
	return w
}

// trapped counts a trap.
func (w *watched) trapped(now time.Time) {
	if now.Sub(w.sign) >= TrapMemory {
		w.traps = 0
	}
	w.traps++
	w.sign, w.unheeded = now, time.Time{}
}

// ignored records that the manager ignores the switch.
func (w *watched) ignored(now time.Time) {
	w.traps = max(w.traps, ManyTraps)
	w.sign, w.unheeded = now, time.Time{}
}

// due returns when to read the switches whose traps may not arrive. Switches at cables
// that are held because they bounce, and switches whose traps may be ignored, are read
// often. The manager's leaf, or one switch if that is unknown, and switches that
// contradict a sweep are read rarely.
func (l *Links) due(now time.Time) map[ib.GUID]time.Time {
	if !l.set.Reads || l.shown == nil {
		return nil
	}
	often := map[ib.GUID]bool{}
	for _, g := range l.held {
		often[g] = true
	}
	for g, w := range l.watches {
		if w.traps >= ManyTraps && now.Sub(w.sign) < TrapMemory { // the manager may ignore them
			often[g] = true
		}
	}
	due := map[ib.GUID]time.Time{}
	for g := range often {
		due[g] = l.watch(g).asked.Add(max(Often, time.Duration(len(often))*Spread))
	}
	for _, g := range l.polled(now) {
		if _, is := due[g]; !is {
			asked := l.watch(g).asked
			if asked.Before(l.since) {
				asked = l.since
			}
			due[g] = asked.Add(Seldom)
		}
	}
	for g, w := range l.watches {
		if !w.unheeded.IsZero() {
			due[g] = earlier(due[g], w.unheeded.Add(Unheeded))
		}
	}
	for g, at := range due {
		if l.reads[g] != nil || !l.readable(g) {
			delete(due, g)
		} else if w := l.watch(g); w.silent > 0 {
			if later := w.asked.Add(Seldom << min(w.silent-1, mostSilent)); at.Before(later) {
				due[g] = later
			}
		}
	}
	return due
}

// polled lists the switches that are read rarely.
func (l *Links) polled(now time.Time) []ib.GUID {
	after := []ib.GUID{l.leaf}
	for _, x := range l.losses {
		after = append(after, x.end.node)
	}
	for _, d := range l.disputes {
		if !l.resolved(d, now) {
			after = append(after, d.ends[0].node, d.ends[1].node)
		}
	}
	return after
}

// readable reports whether a switch has ports to read: the shown fabric has a cable from
// it to another switch.
func (l *Links) readable(g ib.GUID) bool {
	node := l.shown.Find(g)
	if node == topology.None {
		return false
	}
	for p := range l.shown.Nodes[node].Ports {
		if l.shown.Trunk(topology.PortRef{Node: node, Port: uint8(p)}) {
			return true
		}
	}
	return false
}

// readDue reads the switches whose time has come. They report the manager, too.
func (l *Links) readDue(now time.Time) {
	due := l.due(now)
	for _, g := range slices.Sorted(maps.Keys(due)) {
		if !now.Before(due[g]) {
			if w := l.watch(g); !w.unheeded.IsZero() && now.Sub(w.unheeded) >= Unheeded {
				w.ignored(now)
			}
			l.read(now, g, now, true)
		}
	}
}

// placeManager finds the switch that the master subnet manager is attached to or runs on.
// If the manager is not seen, it chooses the first readable switch.
func (l *Links) placeManager() {
	l.leaf = 0
	for _, e := range l.shown.EndPorts() {
		n := &l.shown.Nodes[e.Node]
		at := n.GUID
		if p := &n.Ports[e.Port]; n.Kind != topology.Switch {
			if !p.Connected() {
				continue
			}
			at = l.shown.Nodes[p.Peer].GUID
		}
		if e.LID != 0 && l.manager >= e.LID && int(l.manager) < int(e.LID)+1<<e.LMC {
			l.leaf = at
			return
		}
		if l.leaf == 0 && l.readable(at) {
			l.leaf = at
		}
	}
}
