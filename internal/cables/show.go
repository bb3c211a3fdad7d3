package cables

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/topology"
)

// shown is the immutable state that all goroutines read.
type shown struct {
	round   Round
	views   map[cablehealth.Cable]cablehealth.View
	history map[cablehealth.Cable][]api.CableEvent
	count   map[cablehealth.State]int
	slow    int       // cables that the last measurement found slow
	timedAt time.Time // the last measurement of any cable
}

// publish updates the state that all goroutines read.
func (r *Tracker) publish() {
	s := &shown{round: r.round, views: map[cablehealth.Cable]cablehealth.View{}, history: make(map[cablehealth.Cable][]api.CableEvent, len(r.history)), count: map[cablehealth.State]int{}}
	r.monitor.Cables(func(c cablehealth.Cable, v cablehealth.View) {
		s.views[c] = v
		s.count[v.State]++
		if v.Timed != nil && v.Timed.Slow {
			s.slow++
		}
		if v.Timed != nil && v.Timed.At.After(s.timedAt) {
			s.timedAt = v.Timed.At
		}
	})
	for c, h := range r.history {
		s.history[c] = h
	}
	r.shown.Store(s)
}

// unread warns if counters are needed but none are read. A program built without libibumad, or
// configured not to use it, cannot isolate cables by counters.
func (r *Tracker) unread() {
	err := r.round.Err
	if err == nil || r.Settings.Mode != cablehealth.Isolate && (errors.Is(err, umad.ErrNotBuiltIn) || errors.Is(err, opensm.ErrSwitchedOff)) {
		r.Health.Clear(Unread)
		return
	}
	r.Health.Raise(Unread, err.Error()+": cables that are not well are not noticed by their counters", time.Now())
}

// Count returns the number of cables in a state.
func (r *Tracker) Count(s cablehealth.State) int { return r.shown.Load().count[s] }

// Slow returns how many cables the times of exchanges have found slow, and when a cable was last
// timed, zero for never.
func (r *Tracker) Slow() (n int, at time.Time) {
	s := r.shown.Load()
	return s.slow, s.timedAt
}

// ReadAt returns the time when the last round of counter readings ended, or zero before the
// first.
func (r *Tracker) ReadAt() time.Time {
	if s := r.shown.Load(); s.round.Err == nil {
		return s.round.Ended
	}
	return time.Time{}
}

// Decided returns the number of decisions of a kind.
func (r *Tracker) Decided(kind string) uint64 { return r.decided[slices.Index(kinds[:], kind)].Load() }

// Answer returns the health of the cables of a tree without lanes held back.
func (r *Tracker) Answer(t *topology.FatTree, held []controller.Lane) *api.Cables {
	s := r.shown.Load()
	out := &api.Cables{Mode: string(r.Settings.Mode), BusySeconds: s.round.Busy.Seconds(), Failed: []string{}, Cables: []api.Cable{}}
	if out.ReadAt = s.round.Ended; s.round.Err != nil {
		out.Unread, out.ReadAt = s.round.Err.Error(), time.Time{}
	}
	if t == nil {
		return out
	}
	for i := range t.Fabric.Nodes {
		if n := &t.Fabric.Nodes[i]; s.round.Failed[n.GUID] != nil {
			out.Failed = append(out.Failed, fmt.Sprintf("%s: %v", n.Label(), s.round.Failed[n.GUID]))
		}
	}
	for _, c := range cablesOf(t) {
		x := s.cable(c)
		x.Held = slices.Contains(held, c.Lane)
		out.Cables = append(out.Cables, x)
	}
	return out
}

// cable returns the API's form of a cable.
func (s *shown) cable(c cable) api.Cable {
	v, known := s.views[c.id]
	out := api.Cable{Leaf: api.CableEnd{GUID: c.id.Leaf.GUID, Name: c.Lower.Name, Port: c.id.Leaf.Port}, Spine: api.CableEnd{GUID: c.id.Spine.GUID, Name: c.Upper.Name, Port: c.id.Spine.Port},
		Lane: c.Index, Link: linkNames[c.State], State: string(cablehealth.Good), Why: []string{}, Returns: []time.Time{}, History: []api.CableEvent{}}
	out.History = append(out.History, s.history[c.id]...)
	if !known {
		return out
	}
	out.State, out.Since, out.Refused = string(v.State), v.Since, v.Refused
	out.Returns = append(out.Returns, v.Returns...)
	if out.Why = append(out.Why, v.Verdict...); v.State == cablehealth.Isolated || v.State == cablehealth.Probation && len(out.Why) == 0 {
		out.Why = append([]string{}, v.Why...)
	}
	if t := v.Timed; t != nil {
		out.Timed = &api.CableTimes{At: t.At, Gbps: t.Gbps, Slowdown: t.Slowdown, Error: t.Error, Transfers: t.Transfers, Slow: t.Slow}
	}
	for i, end := range []*api.CableEnd{&out.Leaf, &out.Spine} {
		end.Counted = api.CableCounts{Counters: v.Rates[i].Counters, OverSeconds: v.Rates[i].Over.Seconds()}
	}
	return out
}

var linkNames = map[topology.CableState]string{topology.Missing: "missing", topology.Degraded: "degraded", topology.Full: "full"}
