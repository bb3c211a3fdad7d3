package state

import (
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Shared gives every goroutine the latest state. Only the daemon's loop and the action that it
// has under way change it, which is to replace it.
type Shared struct {
	log    *zap.Logger
	Health *health.Tracker
	Plans  *published.Plans // for clients that wait for the next plan
	Bases  *published.Plans // the same for base LIDs
	Events *published.Events

	now     atomic.Pointer[State]
	changes sync.Mutex // one change at a time
}

// New returns an empty state.
func New(log *zap.Logger, h *health.Tracker, events *published.Events) *Shared {
	s := &Shared{log: log, Health: h, Plans: &published.Plans{}, Bases: &published.Plans{}, Events: events}
	s.now.Store(&State{})
	s.change((*State).begin)
	return s
}

// Now returns the state at this moment.
func (s *Shared) Now() *State { return s.now.Load() }

// change replaces the state by a changed copy, in which f must not change what the state refers
// to.
func (s *Shared) change(f func(*State)) {
	s.changes.Lock()
	defer s.changes.Unlock()
	next := *s.now.Load()
	f(&next)
	s.now.Store(&next)
}

// begin begins the wait for the next rest.
func (s *State) begin() {
	s.rest = make(chan struct{})
	s.Rest = s.rest
}

// Mark records a stage of the change that led to a fabric. Only the first time counts.
func (s *Shared) Mark(fabric string, at time.Time, stage func(*Times) *time.Time) {
	s.change(func(n *State) {
		if first := stage(&n.Change); n.Change.view == fabric && first.IsZero() {
			*first = at
		}
	})
}

// Remember makes a view the latest, and reports its changes. Two fabrics keep their tables and
// plans.
func (s *Shared) Remember(v *view.View) {
	var changes []topology.Change
	s.change(func(n *State) {
		previous := n.Latest
		n.Latest = v
		switch {
		case previous == nil:
		case previous.ID == v.ID:
			v.Shares(previous)
			return
		case n.former == nil:
			n.former = previous
		case n.former.ID == v.ID:
			v.Shares(n.former)
			n.former = previous
		default:
			n.former.LetGo()
			n.former = previous
		}
		changes = n.newChange(previous)
	})
	for _, c := range changes {
		s.log.Info("fabric changed", zap.String("kind", string(c.Kind)), zap.String("text", c.Text))
		s.Emit(api.KindLink, c)
	}
}

// newChange begins the change to the latest fabric, and returns the differences from the
// previous one. The cause includes those of a change that had not settled.
func (s *State) newChange(previous *view.View) (changes []topology.Change) {
	if s.Change.Settled || s.rested == nil {
		s.rested = previous
	}
	v := s.Latest
	s.Change = Times{view: v.ID, seen: v.SeenAt, What: []string{}}
	switch {
	case previous == nil && s.Baseline == nil:
		s.Change.What = []string{"the fabric was seen for the first time"}
		return nil
	case previous == nil:
		s.Change.What = []string{"forsd was started"}
		return nil
	case v.Why != "":
		s.Change.What = []string{v.Why}
	}
	changes = topology.Diff(previous.Fabric, v.Fabric)
	whole := changes
	if s.rested.ID != v.ID {
		whole = topology.Diff(s.rested.Fabric, v.Fabric)
	}
	for _, c := range whole {
		s.Change.What = append(s.Change.What, c.Text)
	}
	return changes
}

// Decided records a decision that begins a change on the same fabric.
func (s *Shared) Decided(v *view.View, text string) {
	s.change(func(n *State) { n.Change = Times{view: v.ID, seen: time.Now(), What: []string{text}} })
}

// Adopt replaces the baseline, mostly by a grown one.
func (s *Shared) Adopt(base *topology.Baseline) {
	if !reflect.DeepEqual(s.Now().Baseline, base) {
		s.change(func(n *State) { n.Baseline = base })
	}
}

// PlanWarnings raises the warnings of the plan in force.
func (s *Shared) PlanWarnings(warnings []planner.Warning) {
	s.Health.Set("plan", warnings, time.Now())
}

// Emit publishes an event to the subscribers.
func (s *Shared) Emit(kind string, data any) {
	if err := s.Events.Publish(kind, data); err != nil {
		s.log.Error("event lost", zap.String("kind", kind), zap.Error(err))
	}
}

// Settled records that the controller is idle. It returns the state before.
func (s *Shared) Settled() (before State) {
	s.change(func(n *State) {
		before = *n
		n.Change.Settled = true
		n.begin()
	})
	close(before.rest)
	return before
}

// GetReady records that a verified plan is in force, and reports whether that is new.
func (s *Shared) GetReady() (first bool) {
	s.change(func(n *State) { first, n.Ready = !n.Ready, true })
	return first
}

// Show records the state of the controller. If there are many subscribers, most are
// notified after OpenSM has been given the tables.
func (s *Shared) Show(at controller.State, held []controller.Lane, standby bool) {
	s.change(func(n *State) { n.Controller, n.Held, n.Standby = at, held, standby })
	s.Events.Hold(at >= controller.Before && at <= controller.Sweeping)
}

// SetLoad records the load of the busiest cable with the tables read back.
func (s *Shared) SetLoad(l phasetable.Load) { s.change(func(n *State) { n.Load = l }) }

// ShowDrains records the drains.
func (s *Shared) ShowDrains(list []exclusions.Drain) {
	s.change(func(n *State) { n.Drains = list })
}
