// Package board holds the state that every goroutine reads: the fabrics seen, the plan in
// force, and the progress of a change. The values it returns are immutable.
package board

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

// Board is the state that every goroutine reads: the fabrics seen, the plan in force, and
// the progress of a change. The values it returns are immutable.
type Board struct {
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

// New returns an empty board.
func New(log *zap.Logger, h *health.Tracker, events *published.Events) *Board {
	return &Board{log: log, Health: h, Plans: &published.Plans{}, Bases: &published.Plans{}, Events: events, rest: make(chan struct{})}
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
func (b *Board) Mark(v *view.View, at time.Time, station func(*Times) *time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if first := station(&b.marks); b.marks.view == v.ID && first.IsZero() {
		*first = at
	}
}

// MarkPublished records that a plan of the fabric is in force.
func (b *Board) MarkPublished(fabric string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.marks.view == fabric && b.marks.Published.IsZero() {
		b.marks.Published = time.Now()
	}
}

// WhatOf describes the cause of view v.
func (b *Board) WhatOf(v *view.View) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.marks.view != v.ID {
		return nil
	}
	return b.marks.What
}

// Remember makes a view the latest, and reports its changes.
func (b *Board) Remember(v *view.View) {
	b.mu.Lock()
	var previous *view.View
	if n := len(b.views); n > 0 {
		previous = b.views[n-1]
	}
	for i, old := range b.views {
		if old.ID == v.ID {
			v.Shares(old)
			b.views = slices.Delete(b.views, i, i+1)
			break
		}
	}
	b.views = append(b.views, v)
	if len(b.views) > keepViews {
		b.views[0].LetGo()
		b.views = slices.Delete(b.views, 0, 1)
	}
	var changes []topology.Change
	if previous == nil || previous.ID != v.ID {
		if b.marks.Settled || b.rested == nil {
			b.rested = previous
		}
		b.marks = Times{view: v.ID, seen: v.SeenAt, What: []string{"the fabric was seen for the first time"}}
		if b.base != nil {
			b.marks.What[0] = "forsd was started"
		}
		if previous != nil {
			b.marks.What = []string{}
			if v.Why != "" {
				b.marks.What = append(b.marks.What, v.Why)
			}
			changes = topology.Diff(previous.Fabric, v.Fabric)
			whole := changes
			if b.rested.ID != v.ID {
				whole = topology.Diff(b.rested.Fabric, v.Fabric)
			}
			for _, c := range whole {
				b.marks.What = append(b.marks.What, c.Text)
			}
		}
	}
	b.mu.Unlock()
	for _, c := range changes {
		b.log.Info("fabric changed", zap.String("kind", string(c.Kind)), zap.String("text", c.Text))
		b.Say(api.KindLink, c)
	}
}

// Decided records a decision that begins a change on the same fabric.
func (b *Board) Decided(v *view.View, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marks = Times{view: v.ID, seen: time.Now(), What: []string{text}}
}

// Latest returns the last view seen, or nil before the first.
func (b *Board) Latest() *view.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.views); n > 0 {
		return b.views[n-1]
	}
	return nil
}

// Baseline returns the baseline in force, or nil until a fabric is accepted.
func (b *Board) Baseline() *topology.Baseline {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.base
}

// Adopt replaces the baseline by a grown one.
func (b *Board) Adopt(base *topology.Baseline) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !reflect.DeepEqual(b.base, base) {
		b.base, b.baseDirty = base, !b.provisional
	}
}

// Current returns the epoch in force, or nil before the first.
func (b *Board) Current() *store.Epoch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inForce
}

// EpochNumber returns the number of the epoch in force, or 0 before the first.
func (b *Board) EpochNumber() uint64 {
	if e := b.Current(); e != nil {
		return e.Epoch
	}
	return 0
}

// SetCurrent puts an epoch in force for all readers.
func (b *Board) SetCurrent(e *store.Epoch) error {
	p, err := published.NewPlan(e.Plan, e.Report, e.PublishedAt)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.inForce = e
	b.mu.Unlock()
	b.Plans.Publish(p)
	b.PlanWarnings(e.Warnings)
	b.Say(api.KindEpoch, SummaryOf(&e.EpochInfo))
	return nil
}

// SummaryOf returns an epoch in the API's form for lists.
func SummaryOf(e *store.EpochInfo) api.Epoch {
	return api.Epoch{Epoch: e.Epoch, PublishedAt: e.PublishedAt, Length: e.Report.Length,
		TopologyHash: e.Report.TopologyHash, What: e.What, RollbackOf: e.RollbackOf, PairsChanged: e.PairsChanged}
}

// PlanWarnings raises the warnings of the plan in force.
func (b *Board) PlanWarnings(warnings []planner.Warning) {
	b.Health.Set("plan", warnings, time.Now())
}

// Say publishes an event to the subscribers.
func (b *Board) Say(kind string, data any) {
	if err := b.Events.Publish(kind, data); err != nil {
		b.log.Error("event lost", zap.String("kind", kind), zap.Error(err))
	}
}

// StandsBy reports whether another manager is the master.
func (b *Board) StandsBy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.standby
}

// NextRest returns a channel that is closed when the controller next becomes idle.
func (b *Board) NextRest() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rest
}

// Settled records that the controller is idle. It returns the stages of the completed change,
// and whether a plan is in force.
func (b *Board) Settled() (change Times, planned bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change = b.marks
	b.marks.Settled = true
	close(b.rest)
	b.rest = make(chan struct{})
	return change, b.inForce != nil
}

// GetReady records that a verified plan is in force, and reports whether that is new.
func (b *Board) GetReady() (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first = !b.ready
	b.ready = true
	return first
}

// IsReady reports whether a verified plan is in force.
func (b *Board) IsReady() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready
}

// Show records the state of the controller. If there are many subscribers, most are
// notified after OpenSM has been given the tables.
func (b *Board) Show(s controller.State, held []controller.Lane, standby bool) {
	b.mu.Lock()
	b.state, b.held, b.standby = s, held, standby
	b.mu.Unlock()
	b.Events.Hold(s >= controller.Before && s <= controller.Sweeping)
}

// HeldBack lists the cables held back, because they are unstable or by decision.
func (b *Board) HeldBack() []controller.Lane {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Resume sets the stored baseline, which may be nil. dirty means that it must be stored;
// provisional means that it replaces a lost one for now.
func (b *Board) Resume(base *topology.Baseline, dirty, provisional bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.base, b.baseDirty, b.provisional = base, dirty, provisional
}

// ToStore returns the baseline, if it may be stored, and whether it must be stored.
func (b *Board) ToStore() (base *topology.Baseline, dirty bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.provisional {
		return nil, false
	}
	return b.base, b.baseDirty
}

// Stored records that a baseline is stored.
func (b *Board) Stored(base *topology.Baseline) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.baseDirty = b.base != base
}

// Found ends the state in which the baseline may not be stored.
func (b *Board) Found() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.provisional = false
}

// Status returns the board's part of the status.
func (b *Board) Status() api.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := api.Status{State: b.state.String(), Ready: b.ready, Baseline: []string{}}
	s.OpenSM.Standby = b.standby
	if e := b.inForce; e != nil {
		r := &e.Report
		s.Epoch, s.PublishedAt, s.TopologyHash = e.Epoch, e.PublishedAt, r.TopologyHash
		s.Summary, s.Size, s.PairsChanged = r.Summary, r.Size, e.PairsChanged
	}
	s.Base, s.Load = b.baseInForce, b.load
	if n := len(b.views); n > 0 {
		v := b.views[n-1]
		s.OpenSM.DumpedAt = v.Complete
		s.FabricKind = v.Kind.String()
		for _, f := range v.Findings() {
			s.Baseline = append(s.Baseline, f.Text)
		}
	}
	if t := b.marks; t.view != "" {
		after := func(at time.Time) float64 { return t.Since(at).Round(time.Microsecond).Seconds() }
		s.LastEvent = &api.LastEvent{What: t.What, SeenAt: t.seen, PlannedSeconds: after(t.Planned), VerifiedSeconds: after(t.Verified),
			PublishedSeconds: after(t.Published), ProgrammedSeconds: after(t.Swept), ReadBackSeconds: after(t.ReadBack)}
	}
	return s
}

// Change returns the stages of the current or last change.
func (b *Board) Change() Times {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.marks
}

// OwnRoutes reports whether OpenSM routes the last fabric seen by itself.
func (b *Board) OwnRoutes() bool {
	v := b.Latest()
	return v != nil && v.Kind == controller.OwnRoutes
}
