package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/board"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/delivery/desk"
	"github.com/forsd/forsd/internal/jobs"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/vault"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// This file makes plans and puts them in force, as the controller asks. Its functions run
// one at a time, outside the loop.

// press makes, verifies and publishes plans, and has tables written for them.
type press struct {
	cfg   *config.Config
	log   *zap.Logger
	board *board.Board
	store *vault.Vault
	desk  *desk.Desk
	jobs  *jobs.Registry

	memory    planner.Memory
	candidate candidate   // the last verified plan, not published yet
	reissue   bool        // the plan in force gets a number of its own
	paired    func() bool // another forsd follows this one, or is followed
}

// errForgotten says that too many fabrics were seen since. The controller takes
// up the latest.
var errForgotten = errors.New("the fabric has been forgotten: newer ones were seen")

// plan makes and verifies the plan that the controller asks for.
func (p *press) plan(ctx context.Context, a controller.Plan) controller.Event {
	err := p.makePlan(ctx, a)
	if err == nil && p.candidate.same {
		p.candidate.jobs, err = p.planJobs(ctx, p.candidate.view, a)
		if a.Final {
			p.publishBase(ctx, p.candidate.view, a)
		}
	}
	p.candidate.asked = a
	if err == nil && a.Ahead {
		err = p.layOut(ctx, p.candidate.view, a)
	}
	if err != nil && !a.Final {
		p.log.Info("no plan holds on the tables in force, the tables come first", zap.Error(err))
	}
	var onLanes *planner.TooManyUnreachable
	var onRoutes view.Unreachable
	tooMany := errors.As(err, &onLanes) || errors.As(err, &onRoutes)
	return controller.Planned{Same: p.candidate.same && len(p.candidate.jobs) == 0, Err: text(err), Refused: tooMany && p.board.Current() == nil}
}

// makePlan leaves the plan as the candidate, which tells whether the one in force
// stays.
func (p *press) makePlan(ctx context.Context, a controller.Plan) error {
	v := p.board.View(a.Fabric)
	if v == nil {
		return errForgotten
	}
	if a.Final && !a.Anew && !p.reissue && p.pinnedHolds(v) {
		p.candidate = candidate{view: v, same: true}
		return nil
	}
	plan := p.planForTables
	if v.Kind == controller.OwnRoutes {
		plan = p.planOnRoutes
	} else if follow, err := p.planning().TablesFollow(v.Tree); err != nil {
		return err
	} else if follow {
		plan = p.planWithTables
	}
	c, err := plan(ctx, v, a)
	if err != nil {
		return err
	}
	p.board.Mark(v, c.planned, func(t *board.Times) *time.Time { return &t.Planned })
	p.board.Mark(v, c.verified, func(t *board.Times) *time.Time { return &t.Verified })
	if c.same = p.inForceIs(c.plan) && !p.reissue; c.same {
		p.board.PlanWarnings(c.plan.Cautions())
	}
	p.candidate = c
	return nil
}

// planWithTables takes the plan that the tables follow from, if it holds on all
// tables that the switches may hold: before its tables are there it does so only
// where they do not change what it uses. Lanes to avoid beyond those held back
// need no plan of their own, for no other plan would hold.
func (p *press) planWithTables(ctx context.Context, v *view.View, a controller.Plan) (c candidate, err error) {
	r, err := v.Route(ctx, a.Hold, p.planning())
	if err != nil {
		return c, err
	}
	c = candidate{view: v, plan: view.TreePlan{Schedule: r.Schedule}, planned: time.Now()}
	if !a.Final {
		err = r.Schedule.Check(p.tablesFor(a, r.Tables)...)
		c.verified = time.Now()
		return c, err
	}
	staged := p.stage(r.Schedule)
	err = r.Schedule.Check(p.tablesFor(a, r.Tables)...)
	c.verified, c.epoch = time.Now(), (<-staged).of(r.Schedule)
	return c, err
}

// planForTables plans for tables that carry any plan. Planning and the tables
// that are to follow are worked on side by side; the tables themselves are verified
// when they are laid out.
func (p *press) planForTables(ctx context.Context, v *view.View, a controller.Plan) (c candidate, err error) {
	type built struct {
		tables *lft.Tables
		err    error
	}
	next := make(chan built, 1)
	go func() {
		t, err := v.Build(a.Hold)
		next <- built{t, err}
	}()
	tree := v.Held(a.Avoid)
	schedule, err := planner.Plan(ctx, tree, p.planning())
	c = candidate{view: v, planned: time.Now()}
	r := <-next
	if err = errors.Join(err, r.err); err != nil {
		return c, err
	}
	staged := p.stage(schedule)
	on := p.tablesFor(a, r.tables)
	schedule, err = schedule.Verified(ctx, on...)
	if old := v.Familiar(tree, p.board.Current()); err != nil && !a.Final && old != nil {
		schedule, err = p.planFor(ctx, old, on)
	}
	c.plan, c.verified = view.TreePlan{Schedule: schedule}, time.Now()
	c.epoch = (<-staged).of(schedule)
	return c, err
}

// tablesFor lists the tables on which a plan must hold: those that the switches
// may hold, and those that are to follow unless they have been read back.
func (p *press) tablesFor(a controller.Plan, next *lft.Tables) []*lft.Tables {
	if a.Ahead {
		return []*lft.Tables{next}
	}
	on := p.desk.Possible()
	if !a.Final && !slices.Contains(on, next) {
		on = append(on, next)
	}
	return on
}

// planFor plans for a tree and verifies the plan on the tables.
func (p *press) planFor(ctx context.Context, tree *topology.FatTree, on []*lft.Tables) (*planner.Schedule, error) {
	schedule, err := planner.Plan(ctx, tree, p.planning())
	if err != nil {
		return nil, err
	}
	return schedule.Verified(ctx, on...)
}

// pinnedHolds tells whether the epoch in force was put there by a rollback on
// this very fabric and still stands verification on the tables in force.
func (p *press) pinnedHolds(v *view.View) bool {
	e := p.board.Current()
	return e != nil && e.RollbackOf != 0 && e.Fabric == v.ID && v.Carries(p.desk.InSwitches(), e.Plan, nil) == nil
}

// inForceIs tells whether the epoch in force is this very plan.
func (p *press) inForceIs(x view.Proposal) bool {
	e := p.board.Current()
	return e != nil && x.Is(e.Plan, &e.Report)
}

// publish puts the last plan in force, and those of jobs under the same number. Jobs
// are planned only then: the fabric's plan does not wait for theirs.
func (p *press) publish(ctx context.Context) error {
	c, n := p.candidate, p.store.Next()
	if c.view.Tree != nil {
		p.board.Adopt(c.view.Tree.Baseline)
	}
	if !c.same {
		if err := p.publishFabric(c, n); err != nil {
			return err
		}
		if c.asked.Final {
			p.publishBase(ctx, c.view, c.asked)
		}
		var err error
		if c.jobs, err = p.planJobs(ctx, c.view, c.asked); ctx.Err() != nil {
			return nil // jobs are planned for the fabric that has been seen since
		} else if err != nil {
			return err
		}
	}
	if err := p.jobs.Publish(c.jobs, max(n, p.board.EpochNumber())); err != nil {
		return err
	}
	p.reissue = false
	return nil
}

// planJobs plans the jobs for what the controller asks.
func (p *press) planJobs(ctx context.Context, v *view.View, a controller.Plan) ([]jobs.Planned, error) {
	if len(p.jobs.List()) == 0 {
		return nil, nil
	}
	on := p.desk.Possible()
	if v.Kind != controller.OwnRoutes {
		r, err := v.Route(ctx, a.Hold, p.planning())
		if err != nil {
			return nil, err
		}
		on = p.tablesFor(a, r.Tables)
	}
	return p.jobs.Plan(ctx, p.forMembers(ctx, v, a.Avoid, on), a.Final, p.reissue), nil
}

// publishFabric puts the plan of the fabric in force under the number n.
func (p *press) publishFabric(c candidate, n uint64) error {
	e, err := c.epoch, error(nil)
	if e == nil {
		if e, err = store.NewEpoch(c.plan.Table(n)); err != nil {
			return err
		}
	}
	return p.put(e, store.EpochInfo{Fabric: c.view.ID, What: p.board.WhatOf(c.view), Report: c.plan.Report(), Warnings: c.plan.Cautions()})
}

// put makes e the next epoch. A crash of this process leaves it in force from here
// on, where the disk takes it; it is brought to disk when everybody has it, for it must
// not be published twice under two numbers, and the store sees to that.
func (p *press) put(e *store.Epoch, info store.EpochInfo) error {
	info.Epoch, info.PublishedAt = e.Epoch, time.Now()
	e.EpochInfo = info
	p.store.KeepBaseline()
	e, err := p.store.Reveal(e)
	if err != nil {
		return err
	}
	if err := p.board.SetCurrent(e); err != nil {
		return err
	}
	p.board.MarkPublished(e.Fabric)
	p.log.Info("published", zap.Uint64("epoch", e.Epoch), zap.Int("phases", e.Report.Phases),
		zap.Int("lower_bound", e.Report.LowerBound), zap.String("engine", e.Report.Engine), zap.Uint64("rollback_of", e.RollbackOf))
	if p.store.Owed() == nil {
		p.store.NotStored(p.store.Flush(e, p.cfg.KeepEpochs))
	}
	return nil
}

// write brings the tables up to date that OpenSM loads, if they are not.
func (p *press) write(ctx context.Context, a controller.Write) (changed bool, err error) {
	v := p.board.View(a.Fabric)
	if v == nil {
		return false, errForgotten
	}
	r, err := v.Route(ctx, a.Hold, p.planning())
	if err != nil {
		return false, err
	}
	// A newcomer's index must survive a crash before tables depend on it.
	p.board.Adopt(v.Tree.Baseline)
	p.store.KeepBaseline()
	if changed, err = p.desk.Deliver(v.ID, v.Fabric, r.Tables); err != nil {
		return false, err
	}
	p.board.Mark(v, time.Now(), func(t *board.Times) *time.Time { return &t.Written })
	return changed, nil
}

// planning is how plans are made.
func (p *press) planning() planner.Settings {
	return planner.Settings{Engine: string(p.cfg.Planning.Engine), LIDs: p.cfg.Planning.LIDs, Memory: &p.memory, MaxUnreachable: &p.cfg.Planning.MaxUnreachable}
}

// planOnRoutes schedules the exchange on the tables that were read back.
func (p *press) planOnRoutes(ctx context.Context, v *view.View, _ controller.Plan) (c candidate, err error) {
	c.view = v
	c.plan, err = v.OnRoutes(ctx, p.desk.InSwitches(), p.cfg.Planning.MaxUnreachable)
	c.planned = time.Now()
	c.verified = c.planned
	return c, err
}

// forMembers plans exchanges on a fabric without some lanes, to hold on tables.
func (p *press) forMembers(ctx context.Context, v *view.View, avoid []controller.Lane, on []*lft.Tables) jobs.MemberPlanner {
	if v.Kind == controller.OwnRoutes {
		return func(members []topology.GUID) (view.Proposal, error) { return v.JobOnRoutes(ctx, members, on[0]) }
	}
	tree := v.Held(avoid)
	return func(members []topology.GUID) (view.Proposal, error) {
		s, err := planner.PlanJob(ctx, tree, members, p.planning(), on...)
		return view.TreePlan{Schedule: s}, err
	}
}

// layOut keeps the tables of a plan made ahead: in the table file, which the manager
// loads should it take over without forsd, and for its plugin.
func (p *press) layOut(ctx context.Context, v *view.View, a controller.Plan) error {
	if !p.paired() {
		return nil
	}
	r, err := v.Route(ctx, a.Hold, p.planning())
	if err != nil {
		return err
	}
	_, err = p.desk.Deliver(v.ID, v.Fabric, r.Tables)
	return err
}

// early is a schedule whose table was encoded and written while it was being
// verified.
type early struct {
	schedule *planner.Schedule
	epoch    *store.Epoch // nil where there was no need, or it failed
}

// of is the epoch made early, if it is that of the schedule: verification may
// have led to another one.
func (e early) of(s *planner.Schedule) *store.Epoch {
	if e.schedule != s {
		return nil
	}
	return e.epoch
}

// stage begins to encode a schedule that is not in force, and to write its table,
// beside its verification. The caller receives what came of it before it does
// anything else with the store. Nothing follows from a failure, for publishing tries
// again.
func (p *press) stage(s *planner.Schedule) <-chan early {
	done := make(chan early, 1)
	if p.inForceIs(view.TreePlan{Schedule: s}) || p.store.Owed() != nil {
		done <- early{schedule: s}
		return done
	}
	go func() {
		e, err := store.NewEpoch(s.Table(p.store.Next()))
		if err == nil {
			err = p.store.Stage(e)
		}
		if err != nil {
			p.log.Warn("the table could not be written ahead of verification", zap.Error(err))
			e = nil
		}
		done <- early{s, e}
	}()
	return done
}

// candidate is a verified plan and what it was made for. Where the plan is new,
// epoch may be it with its table, which is written already then.
type candidate struct {
	view  *view.View
	plan  view.Proposal
	epoch *store.Epoch
	asked controller.Plan // what the controller asked for
	same  bool            // the plan in force stays
	jobs  []jobs.Planned  // where it stays: those of jobs that do not

	planned, verified time.Time
}
