// Package state holds the state in force: in memory, where every goroutine reads it, and in the
// state directory, with the writes that its disk has not accepted yet.
package state

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// State is the state that every goroutine reads: the fabrics seen, the plan in force, and
// the progress of a change. The values it returns are immutable.
type State struct {
	log    *zap.Logger
	Health *health.Tracker
	Plans  *published.Plans
	Bases  *published.Plans // plans for base LIDs
	Events *published.Events

	mu          sync.Mutex // guards the fields below
	state       controller.State
	standby     bool              // another manager is the master
	held        []controller.Lane // cables held back, because they are unstable or by decision
	ready       bool
	base        *topology.Baseline // nil until a fabric is accepted
	baseDirty   bool               // base is not stored yet
	provisional bool               // base replaces a lost baseline, and is not stored
	inForce     *store.Epoch       // nil until the first epoch
	baseInForce *api.Epoch         // the plan for base LIDs, or nil
	basePlan    *phasetable.View   // the latest one, in force or not
	baseReport  planner.Report     // of the last published one
	load        phasetable.Load    // of the last tables read back
	rest        chan struct{}      // closed and replaced when the controller becomes idle
	views       []*view.View       // the last ones seen, newest last
	rested      *view.View         // the view before the change in marks
	marks       Times              // of the current or last change
}

// keepViews is the number of fabrics that keep their tables and plans: the latest, and the one
// before, which often comes back.
const keepViews = 2

// New returns an empty state.
func New(log *zap.Logger, h *health.Tracker, events *published.Events) *State {
	return &State{log: log, Health: h, Plans: &published.Plans{}, Bases: &published.Plans{}, Events: events, rest: make(chan struct{})}
}

// Times are the stages of a change, from the first sign of a new dump on.
type Times struct {
	view                                                   string // the fabric of the change
	What                                                   []string
	seen                                                   time.Time
	Planned, Verified, Published, Written, Swept, ReadBack time.Time
	Settled                                                bool // the change is complete
}

// Since returns the time from the first sign to a stage, or 0 if it was not reached.
func (t Times) Since(at time.Time) time.Duration {
	if at.IsZero() || t.seen.IsZero() {
		return 0
	}
	return at.Sub(t.seen)
}

// Mark records a stage of the change that led to view v. Only the first time counts.
func (s *State) Mark(v *view.View, at time.Time, station func(*Times) *time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := station(&s.marks); s.marks.view == v.ID && first.IsZero() {
		*first = at
	}
}

// MarkPublished records that a plan of the fabric is in force.
func (s *State) MarkPublished(fabric string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks.view == fabric && s.marks.Published.IsZero() {
		s.marks.Published = time.Now()
	}
}

// WhatOf describes the cause of view v.
func (s *State) WhatOf(v *view.View) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks.view != v.ID {
		return nil
	}
	return s.marks.What
}

// Remember makes a view the latest, and reports its changes.
func (s *State) Remember(v *view.View) {
	s.mu.Lock()
	var previous *view.View
	if n := len(s.views); n > 0 {
		previous = s.views[n-1]
	}
	for i, old := range s.views {
		if old.ID == v.ID {
			v.Shares(old)
			s.views = slices.Delete(s.views, i, i+1)
			break
		}
	}
	s.views = append(s.views, v)
	if len(s.views) > keepViews {
		s.views[0].LetGo()
		s.views = slices.Delete(s.views, 0, 1)
	}
	var changes []topology.Change
	if previous == nil || previous.ID != v.ID {
		if s.marks.Settled || s.rested == nil {
			s.rested = previous
		}
		s.marks = Times{view: v.ID, seen: v.SeenAt, What: []string{"the fabric was seen for the first time"}}
		if s.base != nil {
			s.marks.What[0] = "forsd was started"
		}
		if previous != nil {
			s.marks.What = []string{}
			if v.Why != "" {
				s.marks.What = append(s.marks.What, v.Why)
			}
			changes = topology.Diff(previous.Fabric, v.Fabric)
			whole := changes
			if s.rested.ID != v.ID {
				whole = topology.Diff(s.rested.Fabric, v.Fabric)
			}
			for _, c := range whole {
				s.marks.What = append(s.marks.What, c.Text)
			}
		}
	}
	s.mu.Unlock()
	for _, c := range changes {
		s.log.Info("fabric changed", zap.String("kind", string(c.Kind)), zap.String("text", c.Text))
		s.Emit(api.KindLink, c)
	}
}

// Decided records a decision that begins a change on the same fabric.
func (s *State) Decided(v *view.View, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = Times{view: v.ID, seen: time.Now(), What: []string{text}}
}

// Latest returns the last view seen, or nil before the first.
func (s *State) Latest() *view.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.views); n > 0 {
		return s.views[n-1]
	}
	return nil
}

// Baseline returns the baseline in force, or nil until a fabric is accepted.
func (s *State) Baseline() *topology.Baseline {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base
}

// Adopt replaces the baseline by a grown one.
func (s *State) Adopt(base *topology.Baseline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !reflect.DeepEqual(s.base, base) {
		s.base, s.baseDirty = base, !s.provisional
	}
}

// Current returns the epoch in force, or nil before the first.
func (s *State) Current() *store.Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inForce
}

// EpochNumber returns the number of the epoch in force, or 0 before the first.
func (s *State) EpochNumber() uint64 {
	if e := s.Current(); e != nil {
		return e.Epoch
	}
	return 0
}

// SetCurrent puts an epoch in force for all readers.
func (s *State) SetCurrent(e *store.Epoch) error {
	p, err := published.NewPlan(e.Plan, e.Report, e.PublishedAt)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.inForce = e
	s.mu.Unlock()
	s.Plans.Publish(p)
	s.PlanWarnings(e.Warnings)
	s.Emit(api.KindEpoch, SummaryOf(&e.EpochInfo))
	return nil
}

// SummaryOf returns an epoch in the API's form for lists.
func SummaryOf(e *store.EpochInfo) api.Epoch {
	return api.Epoch{Epoch: e.Epoch, PublishedAt: e.PublishedAt, Length: e.Report.Length,
		TopologyHash: e.Report.TopologyHash, What: e.What, RollbackOf: e.RollbackOf, PairsChanged: e.PairsChanged}
}

// PlanWarnings raises the warnings of the plan in force.
func (s *State) PlanWarnings(warnings []planner.Warning) {
	s.Health.Set("plan", warnings, time.Now())
}

// Emit publishes an event to the subscribers.
func (s *State) Emit(kind string, data any) {
	if err := s.Events.Publish(kind, data); err != nil {
		s.log.Error("event lost", zap.String("kind", kind), zap.Error(err))
	}
}

// StandsBy reports whether another manager is the master.
func (s *State) StandsBy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standby
}

// NextRest returns a channel that is closed when the controller next becomes idle.
func (s *State) NextRest() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rest
}

// Settled records that the controller is idle. It returns the stages of the completed change,
// and whether a plan is in force.
func (s *State) Settled() (change Times, planned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change = s.marks
	s.marks.Settled = true
	close(s.rest)
	s.rest = make(chan struct{})
	return change, s.inForce != nil
}

// GetReady records that a verified plan is in force, and reports whether that is new.
func (s *State) GetReady() (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !s.ready
	s.ready = true
	return first
}

// IsReady reports whether a verified plan is in force.
func (s *State) IsReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// Show records the state of the controller. If there are many subscribers, most are
// notified after OpenSM has been given the tables.
func (s *State) Show(at controller.State, held []controller.Lane, standby bool) {
	s.mu.Lock()
	s.state, s.held, s.standby = at, held, standby
	s.mu.Unlock()
	s.Events.Hold(at >= controller.Before && at <= controller.Sweeping)
}

// HeldBack lists the cables held back, because they are unstable or by decision.
func (s *State) HeldBack() []controller.Lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Resume sets the stored baseline, which may be nil. dirty means that it must be stored;
// provisional means that it replaces a lost one for now.
func (s *State) Resume(base *topology.Baseline, dirty, provisional bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base, s.baseDirty, s.provisional = base, dirty, provisional
}

// ToStore returns the baseline, if it may be stored, and whether it must be stored.
func (s *State) ToStore() (base *topology.Baseline, dirty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provisional {
		return nil, false
	}
	return s.base, s.baseDirty
}

// Stored records that a baseline is stored.
func (s *State) Stored(base *topology.Baseline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.baseDirty = s.base != base
}

// Found ends the state in which the baseline may not be stored.
func (s *State) Found() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.provisional = false
}

// Status returns the state's part of the status.
func (s *State) Status() api.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := api.Status{State: s.state.String(), Ready: s.ready, Baseline: []string{}}
	out.OpenSM.Standby = s.standby
	if e := s.inForce; e != nil {
		r := &e.Report
		out.Epoch, out.PublishedAt, out.TopologyHash = e.Epoch, e.PublishedAt, r.TopologyHash
		out.Summary, out.Size, out.PairsChanged = r.Summary, r.Size, e.PairsChanged
	}
	out.Base, out.Load = s.baseInForce, s.load
	if n := len(s.views); n > 0 {
		v := s.views[n-1]
		out.OpenSM.DumpedAt = v.Complete
		out.FabricKind = v.Kind.String()
		for _, f := range v.Findings() {
			out.Baseline = append(out.Baseline, f.Text)
		}
	}
	if t := s.marks; t.view != "" {
		after := func(at time.Time) float64 { return t.Since(at).Round(time.Microsecond).Seconds() }
		out.LastEvent = &api.LastEvent{What: t.What, SeenAt: t.seen, PlannedSeconds: after(t.Planned), VerifiedSeconds: after(t.Verified),
			PublishedSeconds: after(t.Published), ProgrammedSeconds: after(t.Swept), ReadBackSeconds: after(t.ReadBack)}
	}
	return out
}

// Change returns the stages of the current or last change.
func (s *State) Change() Times {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks
}

// OwnRoutes reports whether OpenSM routes the last fabric seen by itself.
func (s *State) OwnRoutes() bool {
	v := s.Latest()
	return v != nil && v.Kind == controller.OwnRoutes
}
