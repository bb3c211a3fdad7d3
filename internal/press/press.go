// Package press makes plans, verifies them and puts them in force, as the controller
// asks, and has tables written for them.
package press

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/board"
	"github.com/forsd/forsd/internal/delivery/desk"
	"github.com/forsd/forsd/internal/jobs"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/vault"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Parts are what a press works with.
type Parts struct {
	Log   *zap.Logger
	Board *board.Board
	Store *vault.Vault
	Desk  *desk.Desk
	Jobs  *jobs.Registry

	Planning   planner.Settings // with the memory of plans made ahead
	KeepEpochs int
	Paired     bool // another forsd follows this one, or is followed
}

// Press makes, verifies and publishes plans, and has tables written for them. What it
// does is one action of the controller's, or is done between two of them.
type Press struct {
	Parts
	candidate candidate // the last verified plan, not published yet
	untouched jobPlans  // plans of jobs, while what they depend on stays
	ahead     *aheadOfTables
}

// New is a press.
func New(parts Parts) *Press { return &Press{Parts: parts} }

// Settings are those by which tables follow from plans: base LIDs keep the lanes of the plan
// for them published last, and come down by the cables that the tables read back last have.
func (p *Press) Settings() planner.Settings {
	s := p.Planning
	s.Before, s.Tables = p.Board.LastBase(), p.Desk.InSwitches()
	return s
}

// Plan makes and verifies the plan that the controller asks for.
func (p *Press) Plan(ctx context.Context, a controller.Plan) controller.Event {
	err := p.makePlan(ctx, a)
	if p.ahead = nil; err == nil && !a.Final && !a.Ahead {
		p.ahead = &aheadOfTables{view: p.candidate.view, asked: a}
	}
	if err == nil && a.Final && p.candidate.same {
		p.candidate.jobs, err = p.planJobs(ctx, p.candidate.view, a)
		p.PublishBase(ctx, p.candidate.view, a)
		if len(p.candidate.jobs) == 0 {
			p.publishJobBases(ctx, p.candidate.view, a)
		}
	}
	p.candidate.asked = a
	if err == nil && a.Ahead {
		err = p.layOut(ctx, p.candidate.view, a)
	}
	if err != nil && !a.Final {
		p.Log.Info("no plan holds on the tables in force, the tables come first", zap.Error(err))
	}
	var onLanes *planner.TooManyUnreachable
	var onRoutes view.Unreachable
	tooMany := errors.As(err, &onLanes) || errors.As(err, &onRoutes)
	return controller.Planned{Same: p.candidate.same && len(p.candidate.jobs) == 0, Err: controller.Text(err), Refused: tooMany && p.Board.Current() == nil}
}

// makePlan leaves the plan as the candidate, which tells whether the one in force
// stays.
func (p *Press) makePlan(ctx context.Context, a controller.Plan) error {
	v := view.Of(a.Fabric)
	if a.Final && !a.Anew && p.pinnedHolds(v) {
		p.candidate = candidate{view: v, pinned: p.Board.Current()}
		p.candidate.same = p.candidate.pinned.Epoch > p.Store.Passed()
		return nil
	}
	plan := p.planForTables
	if v.Kind == controller.OwnRoutes {
		plan = p.planOnRoutes
	} else if v.Pods != nil {
		plan = p.planWithTables
	} else if follow, err := p.Planning.TablesFollow(v.Held(a.Hold)); err != nil {
		return err
	} else if follow {
		plan = p.planWithTables
	}
	c, err := plan(ctx, v, a)
	if err != nil {
		return err
	}
	p.Board.Mark(v, c.planned, func(t *board.Times) *time.Time { return &t.Planned })
	p.Board.Mark(v, c.verified, func(t *board.Times) *time.Time { return &t.Verified })
	if c.same = p.inForceIs(c.plan); c.same {
		p.Board.PlanWarnings(c.plan.Cautions())
		c = candidate{view: v, same: true}
	}
	p.candidate = c
	return nil
}

// planWithTables takes the plan that the tables follow from, if it holds on all
// tables that the switches may hold: before its tables are there it does so only
// where they do not change what it uses. Lanes to avoid beyond those held back
// need no plan of their own, for no other plan would hold. On three levels a plan on the
// entries that all of these tables have in common takes its place until then, if the one in
// force is broken.
func (p *Press) planWithTables(ctx context.Context, v *view.View, a controller.Plan) (c candidate, err error) {
	r, err := v.Route(ctx, a.Hold, p.Settings())
	if err != nil {
		return c, err
	}
	if r.Plan == nil && r.NoPlan == nil {
		_, r.NoPlan = planner.Plan(ctx, v.Held(a.Hold), p.Planning) // too many pairs are unreachable
	}
	if r.Plan == nil {
		return c, r.NoPlan
	}
	c = candidate{view: v, plan: r.Plan, planned: time.Now()}
	if !a.Final {
		on := p.tablesFor(a, r.Tables)
		if err = r.Plan.Check(on...); err != nil && p.broken(v, a) {
			if bridge, berr := v.Bridge(ctx, a.Hold, on...); berr == nil {
				c.plan, err = bridge, nil
			}
		}
		c.verified = time.Now()
		return c, err
	}
	staged := p.stage(r.Plan)
	err = r.Plan.Check(p.tablesFor(a, r.Tables)...)
	c.verified, c.epoch = time.Now(), (<-staged).of(r.Plan)
	return c, err
}

// broken reports if the plan in force does not arrive on the tables in force, on three levels:
// then any plan that holds before new tables is better.
func (p *Press) broken(v *view.View, a controller.Plan) bool {
	e, tables := p.Board.Current(), p.Desk.InSwitches()
	return v.Pods != nil && !a.Ahead && e != nil && tables != nil && v.Carries(tables, e.Plan, a.Hold) != nil
}

// planForTables plans for tables that carry any plan. Planning and the tables
// that are to follow are worked on side by side; the tables themselves are verified
// when they are laid out.
func (p *Press) planForTables(ctx context.Context, v *view.View, a controller.Plan) (c candidate, err error) {
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
	schedule, err := planner.Plan(ctx, tree, p.Planning)
	c = candidate{view: v, planned: time.Now()}
	r := <-next
	if err = errors.Join(err, r.err); err != nil {
		return c, err
	}
	staged := p.stage(view.TreePlan{Schedule: schedule})
	on := p.tablesFor(a, r.tables)
	schedule, err = schedule.Verified(ctx, on...)
	if old := v.Familiar(tree, p.Board.Current()); err != nil && !a.Final && old != nil {
		schedule, err = p.planFor(ctx, old, on)
	}
	c.plan, c.verified = view.TreePlan{Schedule: schedule}, time.Now()
	c.epoch = (<-staged).of(c.plan)
	return c, err
}

// tablesFor lists the tables on which a plan must hold: those that the switches
// may hold, and those that are to follow unless they have been read back.
func (p *Press) tablesFor(a controller.Plan, next *lft.Tables) []*lft.Tables {
	if a.Ahead {
		return []*lft.Tables{next}
	}
	on := p.Desk.Possible()
	if !a.Final && !slices.Contains(on, next) {
		on = append(on, next)
	}
	return on
}

// planFor plans for a tree and verifies the plan on the tables.
func (p *Press) planFor(ctx context.Context, tree *topology.FatTree, on []*lft.Tables) (*planner.Schedule, error) {
	schedule, err := planner.Plan(ctx, tree, p.Planning)
	if err != nil {
		return nil, err
	}
	return schedule.Verified(ctx, on...)
}

// pinnedHolds tells whether the epoch in force was put there by a rollback on
// this very fabric and still stands verification on the tables in force.
func (p *Press) pinnedHolds(v *view.View) bool {
	e := p.Board.Current()
	return e != nil && e.RollbackOf != 0 && view.Bare(e.Fabric) == v.Bare() && v.Carries(p.Desk.InSwitches(), e.Plan, nil) == nil
}

// inForceIs tells whether the epoch in force is this very plan, and its number may stay.
func (p *Press) inForceIs(x view.Proposal) bool {
	e := p.Board.Current()
	return e != nil && e.Epoch > p.Store.Passed() && x.Is(e.Plan, &e.Report)
}

// Publish puts the last plan in force. For tables read back, jobs are planned then, and
// their plans published under the same number: the fabric's plan does not wait for theirs.
// Before its tables they wait for these too: see JobsAhead.
func (p *Press) Publish(ctx context.Context) error {
	c, n := p.candidate, p.Store.Next()
	p.candidate = candidate{} // megabytes, which the board has in fewer
	if c.view.Tree != nil {
		p.Board.Adopt(c.view.Tree.Baseline)
	}
	if !c.same {
		if err := p.publishFabric(c, n); err != nil {
			return err
		}
	}
	if n = max(n, p.Board.EpochNumber()); !c.asked.Final {
		if p.ahead != nil {
			p.ahead.number = n
		}
		return nil
	}
	if !c.same {
		p.PublishBase(ctx, c.view, c.asked)
		var err error
		if c.jobs, err = p.planJobs(ctx, c.view, c.asked); ctx.Err() != nil {
			return nil // jobs are planned for the fabric that has been seen since
		} else if err != nil {
			return err
		}
	}
	if err := p.Jobs.Publish(c.jobs, n); err != nil {
		return err
	}
	p.publishJobBases(ctx, c.view, c.asked)
	return nil
}

// planJobs plans the jobs for what the controller asks.
func (p *Press) planJobs(ctx context.Context, v *view.View, a controller.Plan) ([]jobs.Planned, error) {
	if len(p.Jobs.List()) == 0 {
		return nil, nil
	}
	on := p.Desk.Possible()
	if v.Kind != controller.OwnRoutes {
		r, err := v.Route(ctx, a.Hold, p.Settings())
		if err != nil {
			return nil, err
		}
		on = p.tablesFor(a, r.Tables)
	}
	return p.Jobs.Plan(ctx, p.forMembers(ctx, v, a.Avoid, on), a.Final), nil
}

// publishFabric puts the plan of the fabric in force under the number n.
func (p *Press) publishFabric(c candidate, n uint64) error {
	if c.pinned != nil {
		plan, err := c.pinned.Plan.Numbered(n, c.pinned.Report.TopologyHash)
		if err != nil {
			return err
		}
		return p.Put(p.Epoch(plan), c.pinned.EpochInfo)
	}
	e := c.epoch
	if e == nil {
		plan, err := phasetable.New(c.plan.Table(n))
		if err != nil {
			return err
		}
		e = p.Epoch(plan)
	}
	return p.Put(e, store.EpochInfo{Fabric: c.view.ID, What: p.Board.WhatOf(c.view), Report: c.plan.Report(), Warnings: c.plan.Cautions()})
}

// Put makes e the next epoch. A crash of this process leaves it in force from here
// on, where the disk takes it; it is brought to disk when everybody has it, for it must
// not be published twice under two numbers, and the store sees to that.
func (p *Press) Put(e *store.Epoch, info store.EpochInfo) error {
	info.Epoch, info.PublishedAt, info.PairsChanged = e.Epoch, time.Now(), e.PairsChanged
	e.EpochInfo = info
	p.Store.KeepBaseline()
	e, err := p.Store.Reveal(e)
	if err != nil {
		return err
	}
	if err := p.Board.SetCurrent(e); err != nil {
		return err
	}
	p.Board.MarkPublished(e.Fabric)
	p.Log.Info("published", zap.Uint64("epoch", e.Epoch), zap.Int("phases", e.Report.Phases),
		zap.Int("lower_bound", e.Report.LowerBound), zap.String("engine", e.Report.Engine), zap.Uint64("rollback_of", e.RollbackOf))
	if p.Store.Owed() == nil {
		p.Store.NotStored(p.Store.Flush(e, p.KeepEpochs))
	}
	return nil
}

// Write brings the tables up to date that OpenSM loads, if they are not.
func (p *Press) Write(ctx context.Context, a controller.Write) (changed bool, err error) {
	v := view.Of(a.Fabric)
	r, err := v.Route(ctx, a.Hold, p.Settings())
	if err != nil {
		return false, err
	}
	// A newcomer's index must survive a crash before tables depend on it.
	p.Board.Adopt(v.Tree.Baseline)
	p.Store.KeepBaseline()
	if changed, err = p.Desk.Deliver(v.ID, v.Fabric, r.Tables); err != nil {
		return false, err
	}
	p.Board.Mark(v, time.Now(), func(t *board.Times) *time.Time { return &t.Written })
	return changed, nil
}

// planOnRoutes schedules the exchange on the tables that were read back.
func (p *Press) planOnRoutes(ctx context.Context, v *view.View, _ controller.Plan) (c candidate, err error) {
	c.view = v
	c.plan, err = v.OnRoutes(ctx, p.Desk.InSwitches(), *p.Planning.MaxUnreachable)
	c.planned = time.Now()
	c.verified = c.planned
	return c, err
}

// forMembers plans exchanges on a fabric without some lanes, to hold on tables.
func (p *Press) forMembers(ctx context.Context, v *view.View, avoid []controller.Lane, on []*lft.Tables) jobs.MemberPlanner {
	if v.JobsOnRoutes() {
		return func(job planner.Job) (view.Proposal, error) { return v.JobOnRoutes(ctx, job.Members, on...) }
	}
	tree, all := v.Held(avoid), p.Jobs.Planning()
	return func(job planner.Job) (view.Proposal, error) {
		sub := planner.JobGround(tree, &job, all, p.Planning)
		s, err := p.untouched.of(job.ID, sub, on, func() (*planner.Schedule, error) {
			return planner.PlanJobBeside(ctx, tree, &job, all, p.Planning, on...)
		})
		return view.TreePlan{Schedule: s}, err
	}
}

// layOut keeps the tables of a plan made ahead: in the table file, which the manager
// loads should it take over without forsd, and for its plugin.
func (p *Press) layOut(ctx context.Context, v *view.View, a controller.Plan) error {
	if !p.Paired {
		return nil
	}
	r, err := v.Route(ctx, a.Hold, p.Settings())
	if err != nil {
		return err
	}
	_, err = p.Desk.Deliver(v.ID, v.Fabric, r.Tables)
	return err
}

// early is a plan whose table was encoded and written while it was being verified.
type early struct {
	plan  view.Proposal
	epoch *store.Epoch // nil where there was no need, or it failed
}

// of is the epoch made early, if it is that of the plan: verification may have led to
// another one.
func (e early) of(p view.Proposal) *store.Epoch {
	if e.plan != p {
		return nil
	}
	return e.epoch
}

// stage begins to encode a plan that is not in force, and to write its table, beside its
// verification. The caller receives what came of it before it does anything else with
// the store. Nothing follows from a failure, for publishing tries again.
func (p *Press) stage(x view.Proposal) <-chan early {
	done := make(chan early, 1)
	if p.inForceIs(x) || p.Store.Owed() != nil {
		done <- early{plan: x}
		return done
	}
	go func() {
		e, err := store.NewEpoch(x.Table(p.Store.Next()))
		if err == nil {
			changed := make(chan int, 1)
			go func() { changed <- p.pairsChanged(e.Plan) }()
			err = p.Store.Stage(e)
			e.PairsChanged = <-changed
		}
		if err != nil {
			p.Log.Warn("the table could not be written ahead of verification", zap.Error(err))
			e = nil
		}
		done <- early{x, e}
	}()
	return done
}

// Epoch is an epoch of a plan that knows what it changes.
func (p *Press) Epoch(plan *phasetable.View) *store.Epoch {
	return &store.Epoch{EpochInfo: store.EpochInfo{Epoch: plan.Epoch(), PairsChanged: p.pairsChanged(plan)}, Plan: plan}
}

// pairsChanged counts the pairs of servers that a plan gives another destination LID than
// the one in force.
func (p *Press) pairsChanged(plan *phasetable.View) int {
	if old := p.Board.Current(); old != nil {
		return len(phasetable.Changes(old.Plan, plan))
	}
	return 0
}

// candidate is a verified plan and what it was made for. Where the plan is new,
// epoch may be it with its table, which is written already then.
type candidate struct {
	view   *view.View
	plan   view.Proposal
	epoch  *store.Epoch
	pinned *store.Epoch    // the one in force, which a rollback chose and which still holds
	asked  controller.Plan // what the controller asked for
	same   bool            // the plan in force stays
	jobs   []jobs.Planned  // where it stays: those of jobs that do not

	planned, verified time.Time
}
