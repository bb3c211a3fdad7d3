package replica

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// State is the state that one forsd sends (Now) and the other one adopts (Keep). Both
// methods must be called between two actions of the controller.
type State struct {
	State      *state.Shared
	Store      *state.Store
	KeepEpochs int
	Succeeds   bool // this daemon is about to lead
}

// PassOver passes over the numbers that a daemon which begins to lead leaves out, before the other
// one hears of it.
func (s *State) PassOver(all []standby.Action) {
	for _, a := range all {
		if a, leads := a.(standby.Lead); leads && a.Above != 0 {
			numbers := &s.Store.Disk.Numbers
			numbers.PassOver(a.Over(max(numbers.Last(), numbers.Passed())))
		}
	}
}

// Keep replaces this daemon's state with the leader's: on disk first, then for API
// clients. These are not shown a plan whose number is not above those of plans that the leader may
// have lost, or that this daemon may have lost and the leader does not know of: they get the next one.
func (s *State) Keep(r *Replica) error {
	above, numbers := r.Passed, &s.Store.Disk.Numbers
	if passed := numbers.Passed(); r.Last < numbers.Lost() || s.Succeeds && r.Last <= passed {
		above = max(above, passed)
	}
	if r.Baseline != nil {
		base, err := topology.ReadBaseline(r.Baseline.Encode())
		if err != nil {
			return err
		}
		s.Store.BaselineFound()
		s.State.Adopt(base)
		s.Store.KeepBaseline()
	}
	if r.Epoch != nil && r.Epoch.About.Epoch > above {
		if err := s.keepEpoch(r.Epoch); err != nil {
			return err
		}
	}
	if b := r.BaseLIDs; b != nil && b.Table == nil && r.Epoch != nil {
		b.Table = r.Epoch.Table
	}
	if err := s.keepBase(r.BaseLIDs, above, r.Last); err != nil {
		return err
	}
	if err := s.keepJobs(r.Jobs, above); err != nil {
		return err
	}
	s.Store.TakeDecisions(r.Decisions)
	numbers.AdvanceTo(r.Last)
	return nil
}

// store saves a plan with the number n. If the disk fails, the number is noted elsewhere: a
// restart must not put an older plan in force.
func (s *State) store(n uint64, save func() error) {
	if err := s.Store.OnDisk(save); err != nil {
		s.Store.NotStored(err)
		_ = s.Store.Disk.Numbers.UseWithoutDisk(n) // if it can be noted nowhere, the leader's plan replaces the older one
	}
}

// keepEpoch adopts the epoch in force.
func (s *State) keepEpoch(k *Kept[store.EpochInfo]) error {
	plan, err := phasetable.Decode(k.Table)
	if err != nil {
		return err
	}
	n := k.About.Epoch
	if plan.Epoch() != n {
		return fmt.Errorf("epoch %d comes with the table of epoch %d", n, plan.Epoch())
	}
	if old := s.State.Now().Epoch; old != nil && old.Epoch == n && bytes.Equal(old.Plan.Bytes(), k.Table) {
		return nil
	}
	e := &store.Epoch{EpochInfo: k.About, Plan: plan}
	s.store(n, func() error { return s.Store.Disk.ReplaceEpoch(e, s.KeepEpochs) })
	return s.State.PutEpoch(e)
}

// keepBase adopts the plan for base LIDs in force, under the same number.
func (s *State) keepBase(k *Kept[planner.Report], above, last uint64) error {
	if k == nil {
		s.State.NoBase(nil)
		return nil
	}
	now := s.State.Now()
	if now.Base != nil && bytes.Equal(now.Base.Plan.Bytes(), k.Table) {
		return nil
	}
	var plan *phasetable.View
	if e := now.Epoch; e != nil && bytes.Equal(e.Plan.Bytes(), k.Table) {
		plan = e.Plan
	} else {
		var err error
		if plan, err = phasetable.Decode(k.Table); err != nil {
			return fmt.Errorf("the plan for base LIDs: %w", err)
		}
	}
	if plan.Epoch() > last {
		return fmt.Errorf("the plan for base LIDs has the number %d, and numbers up to %d were given", plan.Epoch(), last)
	}
	if last := now.LastBase; plan.Epoch() <= above || last != nil && last.Epoch() > plan.Epoch() { // the peer does not know of it
		s.State.NoBase(nil)
		return nil
	}
	s.store(plan.Epoch(), func() error { return s.Store.Disk.SaveBase(plan) })
	return s.State.PutBase(&state.Base{Plan: plan, Report: k.About, At: time.Now()}, nil)
}

// keepJobs adopts the jobs and ends all others.
func (s *State) keepJobs(jobs []Kept[store.JobInfo], above uint64) error {
	for i := range jobs {
		if err := s.keepJob(&jobs[i], above); err != nil {
			return err
		}
	}
	for _, j := range s.State.Now().Jobs {
		if slices.ContainsFunc(jobs, func(k Kept[store.JobInfo]) bool { return k.About.ID == j.ID }) {
			continue
		}
		s.Store.EndJob(j, "removed")
	}
	s.State.JobsFailed(nil)
	return nil
}

func (s *State) keepJob(k *Kept[store.JobInfo], above uint64) error {
	plan, err := phasetable.Decode(k.Table)
	if err != nil {
		return err
	}
	j := state.NewJob(store.Job{JobInfo: k.About, Plan: plan}, time.Now())
	if plan.Job() != j.ID || plan.Epoch() != j.Epoch {
		return fmt.Errorf("job %d, epoch %d comes with the table of job %d, epoch %d", j.ID, j.Epoch, plan.Job(), plan.Epoch())
	}
	if k.Base != nil {
		if j.Base, err = phasetable.Decode(k.Base); err != nil {
			return err
		}
	}
	save := s.Store.Disk.ReplaceJob
	for _, old := range s.State.Now().Jobs {
		if old.ID != j.ID {
			continue
		}
		if old.Epoch > j.Epoch { // the peer does not know of that plan
			return nil
		}
		if old.BaseEpoch > j.BaseEpoch {
			j.Base, j.BaseEpoch = old.Base, old.BaseEpoch
		}
		j.Plans, j.Bases, j.BaseReport = old.Plans, old.Bases, old.BaseReport
		if old.Epoch == j.Epoch && old.Expires.Equal(j.Expires) && old.BaseEpoch == j.BaseEpoch && old.Routed == j.Routed && slices.Equal(old.Lanes, j.Lanes) {
			return nil
		}
		if old.Expires.Equal(j.Expires) && old.Leased == j.Leased {
			j.Ends = old.Ends
		}
		if old.Epoch == j.Epoch {
			save = s.Store.Disk.SaveLease
		}
	}
	s.store(max(j.Epoch, j.BaseEpoch), func() error { return save(&j.Job) })
	if j.Epoch <= above {
		s.State.SetJob(j)
		return nil
	}
	return s.State.PutJob(j)
}
