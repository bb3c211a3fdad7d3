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

// look schedules forsd's own discoveries of the fabric. A planned discovery serves all
// requests made before it starts, and counts as one after a sweep if any of them requires
// that.
type look struct {
	under   bool      // a discovery is under way, and its response is due
	again   bool      // another one follows
	swept   bool      // the discovery that follows counts as one after a sweep
	due     time.Time // when the next regular discovery starts
	ordered time.Time // when the discovery after the last ordered sweep starts; zero if none
}

// wake returns when a discovery is due; zero means never. While one is under way, only the
// one after an ordered sweep counts.
func (k *look) wake() time.Time {
	if k.under {
		return k.ordered
	}
	return earlier(k.ordered, k.due)
}

// earlier returns the earlier of two times. A zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// discover requests a discovery of the fabric, unless the local manager shows the fabric.
func (l *Links) discover(swept bool) {
	k := &l.look
	switch {
	case l.set.DiscoverEvery == 0:
	case k.under:
		k.again, k.swept = true, k.swept || swept
	default:
		k.under = true
		l.do(Discover{Swept: swept})
	}
}

// looked records that the discovery under way is over, with or without success. A fabric
// that the manager is bringing up is discovered again soon, because its completion is not
// announced.
func (l *Links) looked(now time.Time, unfinished bool) {
	k := &l.look
	again, swept := k.again, k.swept
	k.under, k.again, k.swept = false, false, false
	k.due = now.Add(l.set.DiscoverEvery)
	if unfinished {
		k.due = now.Add(min(l.set.DiscoverEvery, SweepDelay))
	}
	if again {
		l.discover(swept)
	}
}

// discoverDue starts a discovery when it is due: at regular intervals, and when an
// ordered sweep should be over.
func (l *Links) discoverDue(now time.Time) {
	k := &l.look
	if !k.ordered.IsZero() && !now.Before(k.ordered) {
		k.ordered = time.Time{}
		l.discover(true)
	}
	if !k.under && !now.Before(k.due) {
		l.discover(true)
	}
}
