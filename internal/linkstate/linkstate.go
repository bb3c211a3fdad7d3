// Package linkstate decides which fabric to believe. The results of sweeps and the
// switches' answers about their ports go in; the fabric to believe, the switches to read
// and when to discover the fabric come out. It is a pure state machine like the controller:
// it reads no port, starts no goroutine, and the caller supplies the time.
//
// A trap precedes the sweep that it causes. So the answer of a switch overrides a sweep,
// until a sweep that began later contradicts it, or until the switch reports that the link
// is active. Only losses of cables between switches are believed: a trained link carries
// nothing before the manager has brought it up.
package linkstate

import (
	"slices"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Settings configure the link state.
type Settings struct {
	Reads         bool          // switches can be read
	DiscoverEvery time.Duration // between forsd's own discoveries; 0 if the manager shows the fabric
}

// SweepDelay is how long forsd waits for a manager that has the tables to sweep before it
// discovers the fabric.
const SweepDelay = time.Second

// trapsTogether is how long traps are attributed to the same change.
const trapsTogether = time.Second

// Links is the state of the fabric's links. Create it with New.
type Links struct {
	set     Settings
	shown   *topology.Fabric // as the last sweep showed it; nil before the first
	began   time.Time        // beginning of the latest sweep; zero if unknown
	trapped time.Time        // when the first trap not answered by a sweep came; zero if none
	losses  []loss
	reads   map[ib.GUID]*read // under way

	disputes []dispute       // cables whose rate is in doubt
	rates    map[end]ib.Rate // rates that switches have reported for their ends

	watches map[ib.GUID]*watched
	held    []ib.GUID // switches at cables that are held back
	manager ib.LID    // LID of the master; 0 while no switch has reported it
	leaf    ib.GUID   // the switch that the manager is attached to, or the one to ask for it
	since   time.Time // when the first fabric was shown

	look look
	wake time.Time // when the next step is due
	out  []Action
}

// loss records that a switch has reported a cable down.
type loss struct {
	end   end
	asked time.Time // when the switch was asked
}

// end identifies one end of a cable. It stays valid from one fabric to the next.
type end struct {
	node ib.GUID
	port uint8
}

// in returns the end's place in a fabric, and whether a live cable joins it to a switch
// there.
func (e end) in(f *topology.Fabric) (topology.PortRef, bool) {
	r := topology.PortRef{Node: f.Find(e.node), Port: e.port}
	return r, r.Node != topology.None && f.Trunk(r)
}

// New returns a link state that knows no fabric.
func New(s Settings) *Links {
	return &Links{set: s, reads: map[ib.GUID]*read{}, rates: map[end]ib.Rate{}, watches: map[ib.GUID]*watched{}}
}

// Shown returns the fabric that the last sweep showed, nil before the first sweep.
func (l *Links) Shown() *topology.Fabric { return l.shown }

// Wake returns when the link state needs a Tick at the latest; zero means never.
func (l *Links) Wake() time.Time { return l.wake }

// Step handles an event and returns the actions to carry out, in order.
func (l *Links) Step(now time.Time, e Event) []Action {
	l.out = nil
	switch e := e.(type) {
	case Tick:
	case SweepBegan:
		l.began = e.At
	case SweepsUntold:
		l.began, l.trapped = time.Time{}, time.Time{}
	case Shown:
		l.show(now, e)
	case Trap:
		l.trap(now, e)
	case TrapLogged:
		l.trapLogged(now, e)
	case PortsRead:
		l.portsRead(now, e)
	case HeldBack:
		l.held = e.Switches
	case Noticed:
		l.discover(false)
	case SweepOrdered:
		l.look.ordered = now.Add(SweepDelay)
	case Looked:
		l.looked(now, e.Unfinished)
	}
	l.readDue(now)
	l.discoverDue(now)
	l.wake = l.look.wake()
	for _, at := range l.due(now) {
		l.wake = earlier(l.wake, at)
	}
	return l.out
}

func (l *Links) do(a Action) { l.out = append(l.out, a) }

// show handles the fabric of a sweep. Its first sign is the trap that caused the sweep, or
// the sweep's beginning.
func (l *Links) show(now time.Time, e Shown) {
	if l.shown == nil {
		l.since = now
	}
	l.shown = e.Fabric
	l.placeManager()
	l.reconcileLosses(now)
	l.findDisputes(now)
	seen := e.Seen
	for _, sign := range []time.Time{l.trapped, l.began, now} {
		if seen.IsZero() {
			seen = sign
		}
	}
	if e.Swept {
		l.trapped = time.Time{}
	}
	l.do(Believe{Fabric: l.believed(), Seen: seen})
}

// reconcileLosses forgets the losses that the shown fabric settles: those of cables that
// it lacks too, and those that it overrides because its sweep began later. If a
// contradiction remains, the switch is asked again: the manager may have looked again
// during its sweep, or the beginning of the sweep is unknown.
func (l *Links) reconcileLosses(now time.Time) {
	l.losses = slices.DeleteFunc(l.losses, func(x loss) bool {
		_, there := x.end.in(l.shown)
		return !there || l.began.After(x.asked)
	})
	for _, x := range l.losses {
		l.ask(now, x.end.node, now)
	}
}

// believed returns the shown fabric without the lost cables, and with the rates that
// switches have reported for cables whose rate is in doubt.
func (l *Links) believed() *topology.Fabric {
	var lost []topology.PortRef
	for _, x := range l.losses {
		if r, there := x.end.in(l.shown); there {
			lost = append(lost, r)
		}
	}
	f := l.shown.Without(lost...)
	for e, rate := range l.rates {
		r, there := e.in(f)
		if !there || f.At(r).Rate == rate {
			continue
		}
		if f == l.shown {
			f = f.Clone()
		}
		f.At(r).Rate = rate
	}
	return f
}
