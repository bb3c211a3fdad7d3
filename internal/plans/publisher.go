package plans

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/delivery/desk"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Parts are a publisher's dependencies.
type Parts struct {
	Log   *zap.Logger
	State *state.State
	Store *state.Store
	Desk  *desk.Desk
	Jobs  *Jobs

	Planning   planner.Settings // with the cache of plans made in advance
	KeepEpochs int
	Paired     bool // this forsd has a peer that follows it or that it follows
}

// Publisher makes, verifies and publishes plans, and orders tables. Each call is an action of
// the controller or runs between two actions.
type Publisher struct {
	Parts
	pending   pending  // last verified plan, not published yet
	untouched jobPlans // plans of jobs, valid while their inputs are unchanged
	ahead     *aheadOfTables
}

// NewPublisher returns a publisher.
func NewPublisher(parts Parts) *Publisher { return &Publisher{Parts: parts} }

// Settings returns the settings by which tables follow from plans: base LIDs keep the lanes
// of the base plan published last, and traffic descends by the same cables as in the tables
// read back last.
func (p *Publisher) Settings() planner.Settings {
	s := p.Planning
	s.Before, s.Tables = p.State.LastBase(), p.Desk.InSwitches()
	return s
}

// Plan makes and verifies the plan that the controller asks for.
func (p *Publisher) Plan(ctx context.Context, a controller.Plan) controller.Event {
	err := p.makePlan(ctx, a)
	if p.ahead = nil; err == nil && !a.Final && !a.Ahead {
		p.ahead = &aheadOfTables{view: p.pending.view, asked: a}
	}
	if err == nil && a.Final && p.pending.same {
		p.pending.jobs, err = p.planJobs(ctx, p.pending.view, a)
		p.PublishBase(ctx, p.pending.view, a)
		if len(p.pending.jobs) == 0 {
			p.publishJobBases(ctx, p.pending.view, a)
		}
	}
	p.pending.asked = a
	if err == nil && a.Ahead {
		err = p.layOut(ctx, p.pending.view, a)
	}
	if err != nil && !a.Final {
		p.Log.Info("no plan holds on the tables in force, the tables come first", zap.Error(err))
	}
	var onLanes *planner.TooManyUnreachable
	var onRoutes view.Unreachable
	tooMany := errors.As(err, &onLanes) || errors.As(err, &onRoutes)
	return controller.Planned{Same: p.pending.same && len(p.pending.jobs) == 0, Err: controller.Text(err), Refused: tooMany && p.State.Current() == nil}
}

// makePlan stores the plan as the pending one, which records whether the plan is unchanged.
func (p *Publisher) makePlan(ctx context.Context, a controller.Plan) error {
	v := view.Of(a.Fabric)
	if a.Final && !a.Anew && p.pinnedHolds(v) {
		p.pending = pending{view: v, pinned: p.State.Current()}
		p.pending.same = p.pending.pinned.Epoch > p.Store.Passed()
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
	p.State.Mark(v, c.planned, func(t *state.Times) *time.Time { return &t.Planned })
	p.State.Mark(v, c.verified, func(t *state.Times) *time.Time { return &t.Verified })
	if c.same = p.inForceIs(c.plan); c.same {
		p.State.PlanWarnings(c.plan.Cautions())
		c = pending{view: v, same: true}
	}
	p.pending = c
	return nil
}

// planWithTables makes the plan that determines its tables and verifies it on all tables
// that the switches may hold. Before its tables are installed it passes only if they do not
// change the entries it uses. Lanes to avoid beyond those held need no separate plan,
// because no other plan would pass. On three levels, if the plan in force is broken, a plan
// on the entries common to all of these tables bridges the time until then.
func (p *Publisher) planWithTables(ctx context.Context, v *view.View, a controller.Plan) (c pending, err error) {
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
	c = pending{view: v, plan: r.Plan, planned: time.Now()}
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
	early := p.stage(r.Plan)
	err = r.Plan.Check(p.tablesFor(a, r.Tables)...)
	c.verified, c.epoch = time.Now(), (<-early).of(r.Plan)
	return c, err
}

// broken reports whether, on three levels, the plan in force does not arrive on the tables
// in force. Then any plan that works before the new tables is better.
func (p *Publisher) broken(v *view.View, a controller.Plan) bool {
	e, tables := p.State.Current(), p.Desk.InSwitches()
	return v.Pods != nil && !a.Ahead && e != nil && tables != nil && v.Carries(tables, e.Plan, a.Hold) != nil
}

// planForTables makes a plan for tables that carry any plan. Planning and building the next
// tables run concurrently. The tables themselves are verified when they are ordered.
func (p *Publisher) planForTables(ctx context.Context, v *view.View, a controller.Plan) (c pending, err error) {
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
	c = pending{view: v, planned: time.Now()}
	r := <-next
	if err = errors.Join(err, r.err); err != nil {
		return c, err
	}
	early := p.stage(view.TreePlan{Schedule: schedule})
	on := p.tablesFor(a, r.tables)
	schedule, err = schedule.Verified(ctx, on...)
	if old := v.Familiar(tree, p.State.Current()); err != nil && !a.Final && old != nil {
		schedule, err = p.planFor(ctx, old, on)
	}
	c.plan, c.verified = view.TreePlan{Schedule: schedule}, time.Now()
	c.epoch = (<-early).of(c.plan)
	return c, err
}

// tablesFor returns the tables on which a plan must work: those that the switches may hold,
// and the next ones unless they have been read back.
func (p *Publisher) tablesFor(a controller.Plan, next *lft.Tables) []*lft.Tables {
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
func (p *Publisher) planFor(ctx context.Context, tree *topology.FatTree, on []*lft.Tables) (*planner.Schedule, error) {
	schedule, err := planner.Plan(ctx, tree, p.Planning)
	if err != nil {
		return nil, err
	}
	return schedule.Verified(ctx, on...)
}

// pinnedHolds reports whether the epoch in force was set by a rollback on this fabric and
// passes verification on the tables in force.
func (p *Publisher) pinnedHolds(v *view.View) bool {
	e := p.State.Current()
	return e != nil && e.RollbackOf != 0 && view.Bare(e.Fabric) == v.Bare() && v.Carries(p.Desk.InSwitches(), e.Plan, nil) == nil
}

// inForceIs reports whether x is the plan in force, so that its number can stay.
func (p *Publisher) inForceIs(x view.Proposal) bool {
	e := p.State.Current()
	return e != nil && e.Epoch > p.Store.Passed() && x.Is(e.Plan, &e.Report)
}

// Publish publishes the last plan. If its tables were read back, it then plans the jobs and
// publishes their plans under the same number; the fabric's plan does not wait for them.
// Otherwise the jobs wait for the tables too; see JobsAhead.
func (p *Publisher) Publish(ctx context.Context) error {
	c, n := p.pending, p.Store.Next()
	p.pending = pending{} // frees megabytes; the state has a smaller form
	if c.view.Tree != nil {
		p.State.Adopt(c.view.Tree.Baseline)
	}
	if !c.same {
		if err := p.publishFabric(c, n); err != nil {
			return err
		}
	}
	if n = max(n, p.State.EpochNumber()); !c.asked.Final {
		if p.ahead != nil {
			p.ahead.number = n
		}
		return nil
	}
	if !c.same {
		p.PublishBase(ctx, c.view, c.asked)
		var err error
		if c.jobs, err = p.planJobs(ctx, c.view, c.asked); ctx.Err() != nil {
			return nil // jobs are planned for the fabric that superseded it
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

// planJobs plans the jobs as the controller asks.
func (p *Publisher) planJobs(ctx context.Context, v *view.View, a controller.Plan) ([]Planned, error) {
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

// publishFabric publishes the plan of the fabric under the number n.
func (p *Publisher) publishFabric(c pending, n uint64) error {
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
	return p.Put(e, store.EpochInfo{Fabric: c.view.ID, What: p.State.WhatOf(c.view), Report: c.plan.Report(), Warnings: c.plan.Cautions()})
}

// Put makes e the next epoch. If the disk works, e is in force from here on even if the
// process crashes. It is synced after all readers have it; the store ensures that its
// number is not used twice.
func (p *Publisher) Put(e *store.Epoch, info store.EpochInfo) error {
	info.Epoch, info.PublishedAt, info.PairsChanged = e.Epoch, time.Now(), e.PairsChanged
	e.EpochInfo = info
	p.Store.KeepBaseline()
	e, err := p.Store.Commit(e)
	if err != nil {
		return err
	}
	if err := p.State.SetCurrent(e); err != nil {
		return err
	}
	p.State.MarkPublished(e.Fabric)
	p.Log.Info("published", zap.Uint64("epoch", e.Epoch), zap.Int("phases", e.Report.Phases),
		zap.Int("lower_bound", e.Report.LowerBound), zap.String("engine", e.Report.Engine), zap.Uint64("rollback_of", e.RollbackOf))
	if p.Store.PendingErr() == nil {
		p.Store.NotStored(p.Store.Sync(e, p.KeepEpochs))
	}
	return nil
}

// Write updates the tables that OpenSM loads, if necessary.
func (p *Publisher) Write(ctx context.Context, a controller.Write) (changed bool, err error) {
	v := view.Of(a.Fabric)
	r, err := v.Route(ctx, a.Hold, p.Settings())
	if err != nil {
		return false, err
	}
	// A newcomer's index must be durable before tables depend on it.
	p.State.Adopt(v.Tree.Baseline)
	p.Store.KeepBaseline()
	if changed, err = p.Desk.Deliver(v.ID, v.Fabric, r.Tables); err != nil {
		return false, err
	}
	p.State.Mark(v, time.Now(), func(t *state.Times) *time.Time { return &t.Written })
	return changed, nil
}

// planOnRoutes schedules the exchange on the tables that were read back.
func (p *Publisher) planOnRoutes(ctx context.Context, v *view.View, _ controller.Plan) (c pending, err error) {
	c.view = v
	c.plan, err = v.OnRoutes(ctx, p.Desk.InSwitches(), *p.Planning.MaxUnreachable)
	c.planned = time.Now()
	c.verified = c.planned
	return c, err
}

// forMembers returns a planner of exchanges among members that avoids some lanes and works
// on all of the tables.
func (p *Publisher) forMembers(ctx context.Context, v *view.View, avoid []controller.Lane, on []*lft.Tables) MemberPlanner {
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

// layOut provides the tables of a plan made in advance to the plugin and in the table file,
// which OpenSM loads if it takes over without forsd.
func (p *Publisher) layOut(ctx context.Context, v *view.View, a controller.Plan) error {
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

// staged is a plan whose table was encoded and written while it was verified.
type staged struct {
	plan  view.Proposal
	epoch *store.Epoch // nil if not needed or failed
}

// of returns the epoch made early if it belongs to p: verification may have led to another
// plan.
func (e staged) of(p view.Proposal) *store.Epoch {
	if e.plan != p {
		return nil
	}
	return e.epoch
}

// stage starts to encode a new plan and to write its table, concurrently with its
// verification. The caller must receive the result before it uses the store. A failure is
// harmless: publishing tries again.
func (p *Publisher) stage(x view.Proposal) <-chan staged {
	done := make(chan staged, 1)
	if p.inForceIs(x) || p.Store.PendingErr() != nil {
		done <- staged{plan: x}
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
		done <- staged{x, e}
	}()
	return done
}

// Epoch returns an epoch for a plan, with the number of pairs that it changes.
func (p *Publisher) Epoch(plan *phasetable.View) *store.Epoch {
	return &store.Epoch{EpochInfo: store.EpochInfo{Epoch: plan.Epoch(), PairsChanged: p.pairsChanged(plan)}, Plan: plan}
}

// pairsChanged counts the pairs of servers whose destination LID differs from the plan in
// force.
func (p *Publisher) pairsChanged(plan *phasetable.View) int {
	if old := p.State.Current(); old != nil {
		return len(phasetable.Changes(old.Plan, plan))
	}
	return 0
}

// pending is a verified plan with its view and request. For a new plan, epoch may be that
// plan with its table already written.
type pending struct {
	view   *view.View
	plan   view.Proposal
	epoch  *store.Epoch
	pinned *store.Epoch    // the epoch in force, if a rollback set it and it still holds
	asked  controller.Plan // the controller's request
	same   bool            // the plan in force is kept
	jobs   []Planned       // if same: new plans of jobs

	planned, verified time.Time
}
