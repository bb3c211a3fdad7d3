// Package state holds the state in force: in memory, where every goroutine reads it, and in the
// state directory, with the writes that its disk has not accepted yet. It publishes plans.
package state

import (
	"strconv"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// State is the daemon's state at one moment: the fabric seen, the plans in force, and the
// progress of a change. It is immutable, as is all that it refers to.
type State struct {
	Controller controller.State
	Standby    bool               // another manager is the master
	Ready      bool               // a verified plan is in force
	Latest     *view.View         // the last fabric seen; nil before the first
	Held       []controller.Lane  // cables held back, because they are unstable or by decision
	Drains     []exclusions.Drain // parts that operators take out of the plan
	Baseline   *topology.Baseline // nil until a fabric is accepted
	Epoch      *store.Epoch       // the plan in force; nil before the first
	Base       *Base              // the plan for base LIDs in force, or nil
	LastBase   *phasetable.View   // the last one published, in force or not
	Load       phasetable.Load    // of the tables last read back
	Jobs       []*Job             // ascending
	Change     Times              // of the current or last change
	Rest       <-chan struct{}    // closed when the controller next becomes idle

	rest     chan struct{}             // the same
	former   *view.View                // the fabric before Latest, which often comes back
	rested   *view.View                // the fabric before the change
	trouble  map[uint64]health.Finding // [job] failures of the last planning
	unrouted bool                      // base LIDs cannot be routed by plans of jobs in this fabric
}

// Base is a plan for base LIDs.
type Base struct {
	Plan   *phasetable.View
	Report planner.Report
	At     time.Time
}

// Summary returns the plan in the API's form, nil for none.
func (b *Base) Summary() *api.Epoch {
	if b == nil {
		return nil
	}
	return &api.Epoch{Epoch: b.Plan.Epoch(), PublishedAt: b.At, Length: b.Report.Length, TopologyHash: b.Report.TopologyHash}
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

// WhatOf describes the cause of view v.
func (s *State) WhatOf(v *view.View) []string {
	if s.Change.view != v.ID {
		return nil
	}
	return s.Change.What
}

// EpochNumber returns the number of the epoch in force, or 0 before the first.
func (s *State) EpochNumber() uint64 {
	if s.Epoch != nil {
		return s.Epoch.Epoch
	}
	return 0
}

// OwnRoutes reports whether OpenSM routes the last fabric seen by itself.
func (s *State) OwnRoutes() bool {
	return s.Latest != nil && s.Latest.Kind == controller.OwnRoutes
}

// Job finds a job by its number or its name.
func (s *State) Job(name string) (*Job, error) {
	n, err := strconv.ParseUint(name, 10, 64)
	for _, j := range s.Jobs {
		if err == nil && j.ID == n || err != nil && name != "" && j.Name == name {
			return j, nil
		}
	}
	return nil, api.NoJob(name)
}

// Planning returns the planner's input about the jobs.
func (s *State) Planning() (jobs []planner.Job) {
	for _, j := range s.Jobs {
		jobs = append(jobs, j.Planning())
	}
	return jobs
}

// SummaryOf returns an epoch in the API's form for lists.
func SummaryOf(e *store.EpochInfo) api.Epoch {
	return api.Epoch{Epoch: e.Epoch, PublishedAt: e.PublishedAt, Length: e.Report.Length,
		TopologyHash: e.Report.TopologyHash, What: e.What, RollbackOf: e.RollbackOf, PairsChanged: e.PairsChanged}
}

// Status returns the state's part of the status.
func (s *State) Status() api.Status {
	out := api.Status{State: s.Controller.String(), Ready: s.Ready, Baseline: []string{}, Base: s.Base.Summary(), Load: s.Load}
	out.OpenSM.Standby = s.Standby
	if e := s.Epoch; e != nil {
		r := &e.Report
		out.Epoch, out.PublishedAt, out.TopologyHash = e.Epoch, e.PublishedAt, r.TopologyHash
		out.Summary, out.Size, out.PairsChanged = r.Summary, r.Size, e.PairsChanged
	}
	if v := s.Latest; v != nil {
		out.OpenSM.DumpedAt = v.Complete
		out.FabricKind = v.Kind.String()
		for _, f := range v.Findings() {
			out.Baseline = append(out.Baseline, f.Text)
		}
	}
	if t := s.Change; t.view != "" {
		after := func(at time.Time) float64 { return t.Since(at).Round(time.Microsecond).Seconds() }
		out.LastEvent = &api.LastEvent{What: t.What, SeenAt: t.seen, PlannedSeconds: after(t.Planned), VerifiedSeconds: after(t.Verified),
			PublishedSeconds: after(t.Published), ProgrammedSeconds: after(t.Swept), ReadBackSeconds: after(t.ReadBack)}
	}
	return out
}
