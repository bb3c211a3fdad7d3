package state

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// Plan is a verified plan to publish: of the fabric or of a job, pinned or for base LIDs.
type Plan struct {
	view.Proposal
	Job   *Job              // nil: of the fabric. A new job has the number 0. Publish sets it to the job with this plan
	Base  bool              // for programs that send to base LIDs
	About store.EpochInfo   // of a pinned plan of the fabric: its fabric, its causes, and the epoch that it repeats
	Notes []planner.Warning // besides its own cautions
	Early *store.Epoch      // the same, encoded and perhaps written already; nil if not

	view  *phasetable.View // with its number
	job   *Job             // the job with this plan
	epoch *store.Epoch     // of a pinned plan of the fabric
}

// Known is a plan that was encoded before: an earlier epoch, or one made in another process.
type Known struct {
	Plan     *phasetable.View
	About    planner.Report
	Warnings []planner.Warning
}

// Table returns the plan with a number.
func (k Known) Table(n uint64) *phasetable.Table {
	t := k.Plan.Table()
	t.Epoch = n
	return t
}

// Report returns the plan's report.
func (k Known) Report() planner.Report { return k.About }

// Cautions returns the warnings of the plan.
func (k Known) Cautions() []planner.Warning { return k.Warnings }

// Is reports whether a published plan is the same, but for its number.
func (k Known) Is(plan *phasetable.View, _ *planner.Report) bool {
	same, err := k.Plan.Numbered(plan.Job(), plan.Epoch(), plan.TopologyHash())
	return err == nil && bytes.Equal(same.Bytes(), plan.Bytes())
}

// encoded returns the plan with a number.
func (x *Plan) encoded(job, n uint64) (*phasetable.View, error) {
	if k, known := x.Proposal.(Known); known {
		return k.Plan.Numbered(job, n, k.About.TopologyHash)
	}
	t := x.Table(n)
	t.Job = job
	return phasetable.New(t)
}

// last returns the plan of the same kind published last, with its number and its report; nil if
// there is none.
func (x *Plan) last(now *State) (plan *phasetable.View, n uint64, report *planner.Report) {
	switch j := x.Job; {
	case j != nil && j.ID == 0:
	case j != nil && x.Base:
		plan, n, report = j.Base, j.BaseEpoch, &j.BaseReport
	case j != nil:
		plan, n, report = j.Plan, j.Epoch, &j.Report
	case x.Base:
		plan, report = now.LastBase, &planner.Report{}
	case now.Epoch != nil:
		plan, report = now.Epoch.Plan, &now.Epoch.Report
	}
	if plan != nil {
		n = max(n, plan.Epoch())
	}
	return plan, n, report
}

// Stays reports whether a plan is the one of its kind published last, which may keep its number.
func (s *Store) Stays(x *Plan) bool {
	last, n, report := x.last(s.state.Now())
	return last != nil && n > s.Disk.Numbers.Passed() && x.Is(last, report)
}

// Publish puts plans in force that belong together. It runs while no action is under way, or as
// part of that action.
//
// All of them get the number n, or a later one if another plan of their kind may have this number.
// A plan for base LIDs that is the one published last keeps its number.
//
// They are stored first, so that they are in force even if the process crashes; if the disk fails,
// they are in force from memory. Pinned plans are synced after all readers have them: their number
// is promised durably, so that it is not used again even if they are lost.
func (s *Store) Publish(n uint64, all ...Plan) error {
	now, at := s.state.Now(), time.Now()
	if len(all) == 1 && all[0].Base && s.Stays(&all[0]) {
		all[0].again(now)
		return s.putInForce(&all[0], at)
	}
	if len(all) == 0 {
		return nil
	}
	for i := range all {
		_, last, _ := all[i].last(now)
		n = s.Disk.Numbers.After(n, last)
	}
	s.KeepBaseline()
	if err := s.put(n, func(n uint64) error {
		for i := range all {
			if err := all[i].number(n, now, at); err != nil {
				return err
			}
		}
		return nil
	}, func() error { return s.save(all) }); err != nil {
		return err
	}
	for i := range all {
		if err := s.putInForce(&all[i], at); err != nil {
			return err
		}
	}
	if all[0].Job != nil {
		s.state.jobWarnings()
	}
	if s.Disk.PendingErr() == nil {
		s.NotStored(s.sync(all))
	}
	return nil
}

// number encodes a plan with a number.
func (x *Plan) number(n uint64, now *State, at time.Time) (err error) {
	if x.Job != nil {
		next := *x.Job
		next.ID = cmp.Or(next.ID, n)
		if x.view, err = x.encoded(next.ID, n); err != nil {
			return err
		}
		if x.job = &next; x.Base {
			next.Base, next.BaseEpoch, next.BaseReport = x.view, n, x.Report()
		} else {
			next.Plan, next.Epoch, next.Report, next.Warnings, next.Stale, next.PublishedAt = x.view, n, x.Report(), x.Cautions(), false, at
		}
		return nil
	}
	if x.Base {
		x.view, err = x.encoded(0, n)
		if e := now.Epoch; err == nil && e != nil && bytes.Equal(x.view.Bytes(), e.Plan.Bytes()) {
			x.view = e.Plan // this frees megabytes
		}
		return err
	}
	if x.epoch = x.Early; x.epoch == nil || x.epoch.Epoch != n {
		if x.view, err = x.encoded(0, n); err != nil {
			return err
		}
		x.epoch = &store.Epoch{Plan: x.view}
		x.epoch.PairsChanged = now.pairsChanged(x.view)
	}
	info := x.About
	info.Epoch, info.PublishedAt, info.PairsChanged = n, at, x.epoch.PairsChanged
	info.Report, info.Warnings = x.Report(), x.Cautions()
	x.epoch.EpochInfo = info
	return nil
}

// again has a plan for base LIDs keep its number.
func (x *Plan) again(now *State) {
	if x.view = now.LastBase; x.Job != nil {
		next := *x.Job
		next.BaseEpoch, next.BaseReport = next.Base.Epoch(), x.Report()
		x.job = &next
	}
}

// pairsChanged counts the pairs of servers whose destination LID differs from the plan in force.
func (s *State) pairsChanged(plan *phasetable.View) int {
	if s.Epoch == nil {
		return 0
	}
	return len(phasetable.Changes(s.Epoch.Plan, plan))
}

// Stage encodes a pinned plan of the fabric and writes its table, while it is verified: Publish takes it
// as Early, and Commit does not write it again. The caller waits for it before it uses the store.
// A failure is harmless.
func (s *Store) Stage(x view.Proposal) (*store.Epoch, error) {
	e, err := store.NewEpoch(x.Table(s.Disk.Numbers.Next()))
	if err != nil {
		return nil, err
	}
	changed := make(chan int, 1)
	go func() { changed <- s.state.Now().pairsChanged(e.Plan) }()
	err = s.Disk.Stage(e)
	e.PairsChanged = <-changed
	return e, err
}

// save stores plans so that they outlast the process.
func (s *Store) save(all []Plan) (err error) {
	var jobs []*store.Job
	for i := range all {
		switch x := &all[i]; {
		case x.job != nil && !x.Base:
			jobs = append(jobs, &x.job.Job)
			continue
		case x.job != nil:
			err = s.Disk.SaveLease(&x.job.Job)
		case x.Base:
			err = s.Disk.SaveBase(x.view)
		default:
			err = s.Disk.Commit(x.epoch)
		}
		if err != nil {
			return err
		}
	}
	return s.Disk.CommitJobs(jobs...)
}

// sync brings saved plans to disk.
func (s *Store) sync(all []Plan) error {
	var jobs []*store.Job
	for i := range all {
		switch x := &all[i]; {
		case x.Base: // it is there
		case x.job != nil:
			jobs = append(jobs, &x.job.Job)
		default:
			return s.Disk.Sync(x.epoch, s.keep)
		}
	}
	return s.Disk.SyncJobs(jobs...)
}

// putInForce gives a plan to all readers.
func (s *Store) putInForce(x *Plan, at time.Time) error {
	was := x.Job
	switch x.Job = x.job; {
	case x.job != nil && x.Base:
		return s.state.putJobBase(x.job, at)
	case x.job != nil:
		what := "planned"
		if was.ID == 0 {
			what = "created"
		}
		if err := s.state.PutJob(x.job); err != nil {
			return err
		}
		s.state.jobEvent(x.job, what)
		return nil
	case x.Base:
		return s.state.PutBase(&Base{Plan: x.view, Report: x.Report(), At: at}, slices.Concat(x.Notes, x.Cautions()))
	}
	e := x.epoch
	if err := s.state.PutEpoch(e); err != nil {
		return err
	}
	s.state.Mark(e.Fabric, time.Now(), func(t *Times) *time.Time { return &t.Published })
	s.log.Info("published", zap.Uint64("epoch", e.Epoch), zap.Int("phases", e.Report.Phases),
		zap.Int("lower_bound", e.Report.LowerBound), zap.String("engine", e.Report.Engine), zap.Uint64("rollback_of", e.RollbackOf))
	return nil
}

// PutEpoch puts an epoch in force for all readers.
func (s *Shared) PutEpoch(e *store.Epoch) error {
	p, err := published.NewPlan(e.Plan, e.Report, e.PublishedAt)
	if err != nil {
		return err
	}
	s.change(func(n *State) { n.Epoch = e })
	s.Plans.Publish(p)
	s.PlanWarnings(e.Warnings)
	s.Emit(api.KindEpoch, SummaryOf(&e.EpochInfo))
	return nil
}

// PutBase puts a plan for base LIDs in force for all readers, unless it already is.
func (s *Shared) PutBase(b *Base, warnings []planner.Warning) error {
	s.Health.Set("base", warnings, time.Now())
	if now := s.Now().Base; now != nil && now.Plan.Epoch() == b.Plan.Epoch() {
		return nil
	}
	p, err := published.NewPlan(b.Plan, b.Report, b.At)
	if err != nil {
		return err
	}
	s.change(func(n *State) { n.Base, n.LastBase = b, b.Plan })
	s.Bases.Publish(p)
	s.log.Info("published for base LIDs", zap.Uint64("number", b.Plan.Epoch()), zap.Int("phases", b.Report.Phases), zap.Int("lower_bound", b.Report.LowerBound))
	s.Emit(api.KindBase, b.Summary())
	return nil
}

// NoBase ends the plan for base LIDs in force.
func (s *Shared) NoBase(warnings []planner.Warning) {
	s.Health.Set("base", warnings, time.Now())
	s.change(func(n *State) { n.Base = nil })
	s.Bases.Withdraw()
}

// PutJob puts a job's plan in force for all readers.
func (s *Shared) PutJob(j *Job) error {
	now := j.Plans.Current()
	s.SetJob(j)
	if now != nil && now.Epoch == j.Epoch {
		return nil
	}
	p, err := published.NewPlan(j.Plan, j.Report, j.PublishedAt)
	if err != nil {
		return err
	}
	j.Plans.Publish(p)
	return nil
}

// putJobBase does the same for a job's plan for base LIDs.
func (s *Shared) putJobBase(j *Job, at time.Time) error {
	if now := j.Bases.Current(); now != nil && now.Epoch == j.BaseEpoch {
		return nil
	}
	p, err := published.NewPlan(j.Base, j.BaseReport, at)
	if err != nil {
		return err
	}
	s.SetJob(j)
	j.Bases.Publish(p)
	s.jobEvent(j, "planned for base LIDs")
	return nil
}
