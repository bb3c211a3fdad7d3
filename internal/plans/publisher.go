// Package plans makes and verifies plans, and orders their tables, as the controller asks: of the
// fabric, and of jobs, which are exchanges among some of the servers and follow the fabric's plan.
// In a forsd that only watches, it compares plans with OpenSM's own tables.
package plans

import (
	"cmp"
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
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Parts are a publisher's dependencies.
type Parts struct {
	Log   *zap.Logger
	State *state.Shared
	Store *state.Store
	Desk  *desk.Desk

	Planning planner.Settings // with the cache of plans made in advance
	Paired   bool             // this forsd has a peer that follows it or that it follows
}

// Publisher makes and verifies plans, publishes them, and orders tables. Each call is an action of
// the controller.
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
	s.Before, s.Tables = p.State.Now().LastBase, p.Desk.InSwitches()
	return s
}

// Plan makes and verifies the plan that the controller asks for.
func (p *Publisher) Plan(ctx context.Context, a controller.Plan) controller.Event {
	v := view.Of(a.Fabric)
	c, err := p.makePlan(ctx, v, a)
	if c.asked, p.ahead = a, nil; err == nil && !a.Final && !a.Ahead {
		p.ahead = &aheadOfTables{view: v, asked: a}
	}
	if err == nil && a.Final && c.plan == nil {
		c.jobs, err = p.planJobs(ctx, v, a)
		p.PublishBase(ctx, v, a)
		if len(c.jobs) == 0 {
			p.publishJobBases(ctx, v, a)
		}
	}
	p.pending = c
	if err == nil && a.Ahead {
		err = p.layOut(ctx, v, a)
	}
	givenUp := err != nil && ctx.Err() != nil
	if givenUp {
		p.Log.Info("planning is given up for a newer fabric", zap.Error(err))
	} else if err != nil && !a.Final {
		p.Log.Info("no plan holds on the tables in force, the tables come first", zap.Error(err))
	}
	_, onLanes := errors.AsType[*planner.TooManyUnreachable](err)
	_, onRoutes := errors.AsType[view.Unreachable](err)
	return controller.Planned{Same: err == nil && c.plan == nil && len(c.jobs) == 0, Err: controller.Text(err), Refused: (onLanes || onRoutes) && p.State.Now().Epoch == nil, GivenUp: givenUp}
}

// makePlan returns the plan to publish, or no plan if that in force is kept.
func (p *Publisher) makePlan(ctx context.Context, v *view.View, a controller.Plan) (pending, error) {
	c := pending{view: v}
	if a.Final && !a.Anew && p.pinnedHolds(v) {
		e := p.State.Now().Epoch
		if e.Epoch <= p.Store.Disk.Numbers.Passed() {
			c.plan = &state.Plan{Proposal: state.Known{Plan: e.Plan, About: e.Report, Warnings: e.Warnings}, About: e.EpochInfo}
		}
		return c, nil
	}
	order, err := v.Order(a.Hold, p.Planning)
	if err != nil {
		return c, err
	}
	plan := map[view.Order]func(context.Context, *view.View, controller.Plan) (made, error){
		view.AnyPlan: p.planForTables, view.TablesFollow: p.planWithTables, view.PlanFollows: p.planOnRoutes}[order]
	m, err := plan(ctx, v, a)
	if err != nil {
		return c, err
	}
	p.State.Mark(v.ID, m.planned, func(t *state.Times) *time.Time { return &t.Planned })
	p.State.Mark(v.ID, m.verified, func(t *state.Times) *time.Time { return &t.Verified })
	x := &state.Plan{Proposal: m.plan, Early: m.early, About: store.EpochInfo{Fabric: v.ID, What: p.State.Now().WhatOf(v)}}
	if p.Store.Stays(x) {
		p.State.PlanWarnings(m.plan.Cautions())
		return c, nil
	}
	c.plan = x
	return c, nil
}

// planWithTables makes the plan that determines its tables and verifies it on all tables
// that the switches may hold. Before its tables are installed it passes only if they do not
// change the entries it uses. Lanes to avoid beyond those held need no separate plan,
// because no other plan would pass. On three levels, if the plan in force is broken, a plan on the
// entries common to all of these tables bridges the time until then.
func (p *Publisher) planWithTables(ctx context.Context, v *view.View, a controller.Plan) (c made, err error) {
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
	c = made{plan: r.Plan, planned: time.Now()}
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
	c.verified, c.early = time.Now(), <-early
	return c, err
}

// broken reports whether, on three levels, the plan in force does not arrive on the tables in
// force. Then any plan that works before the new tables is better.
func (p *Publisher) broken(v *view.View, a controller.Plan) bool {
	e, tables := p.State.Now().Epoch, p.Desk.InSwitches()
	return v.TwoLevels() == nil && !a.Ahead && e != nil && tables != nil && v.Carries(tables, e.Plan, a.Hold) != nil
}

// planForTables makes a plan for tables that carry any plan. Planning and building the next
// tables run concurrently. The tables themselves are verified when they are ordered.
func (p *Publisher) planForTables(ctx context.Context, v *view.View, a controller.Plan) (c made, err error) {
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
	if !slices.Equal(a.Avoid, a.Hold) { // the next tables may have other base LIDs apart
		tree = p.Planning.Beside(tree, v.Held(a.Hold))
	}
	schedule, err := planner.Plan(ctx, tree, p.Planning)
	c = made{planned: time.Now()}
	r := <-next
	if r.err != nil {
		return c, errors.Join(err, r.err)
	}
	on := p.tablesFor(a, r.tables)
	if err == nil {
		first, early := schedule, p.stage(view.TreePlan{Schedule: schedule})
		schedule, err = schedule.Verified(ctx, on...)
		if e := <-early; schedule == first { // verification may have led to another one
			c.early = e
		}
	}
	if err != nil && !a.Final {
		// A plan that these tables carry is better than tables that the plan in force does not
		// know.
		known := cmp.Or(v.Familiar(tree, p.State.Now().Epoch), tree)
		if known = p.Planning.Beside(planner.Astray(known, on), v.Held(a.Hold)); known != tree {
			schedule, err = p.planFor(ctx, known, on)
		}
	}
	c.plan, c.verified = view.TreePlan{Schedule: schedule}, time.Now()
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
	e := p.State.Now().Epoch
	return e != nil && e.RollbackOf != 0 && view.Bare(e.Fabric) == v.Bare() && v.Carries(p.Desk.InSwitches(), e.Plan, nil) == nil
}

// Publish publishes the last plan. If its tables were read back, it then plans the jobs and
// publishes their plans under the same number; the fabric's plan does not wait for them.
// Otherwise the jobs wait for the tables too; see JobsAhead.
func (p *Publisher) Publish(ctx context.Context) error {
	c, n := p.pending, p.Store.Disk.Numbers.Next()
	p.pending = pending{} // frees megabytes; the state has a smaller form
	if c.view.Tree != nil {
		p.State.Adopt(c.view.Tree.Baseline)
	}
	if c.plan != nil {
		if c.plan.Early != nil {
			n = c.plan.Early.Epoch
		}
		if err := p.Store.Publish(n, *c.plan); err != nil {
			return err
		}
		n = p.State.Now().EpochNumber()
	}
	if !c.asked.Final {
		if p.ahead != nil {
			p.ahead.number = n
		}
		return nil
	}
	if c.plan != nil {
		p.PublishBase(ctx, c.view, c.asked)
		var err error
		if c.jobs, err = p.planJobs(ctx, c.view, c.asked); ctx.Err() != nil {
			return nil // jobs are planned for the fabric that superseded it
		} else if err != nil {
			return err
		}
	}
	if err := p.Store.Publish(n, c.jobs...); err != nil {
		return err
	}
	p.publishJobBases(ctx, c.view, c.asked)
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
	p.State.Mark(v.ID, time.Now(), func(t *state.Times) *time.Time { return &t.Written })
	return changed, nil
}

// planOnRoutes schedules the exchange on the tables that were read back.
func (p *Publisher) planOnRoutes(ctx context.Context, v *view.View, _ controller.Plan) (c made, err error) {
	c.plan, err = v.OnRoutes(ctx, p.Desk.InSwitches(), *p.Planning.MaxUnreachable)
	c.planned = time.Now()
	c.verified = c.planned
	return c, err
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

// stage starts to encode a new plan and to write its table, concurrently with its
// verification. The caller must receive the result, nil if it is not needed or failed, before it
// uses the store.
func (p *Publisher) stage(x view.Proposal) <-chan *store.Epoch {
	done := make(chan *store.Epoch, 1)
	if p.Store.Stays(&state.Plan{Proposal: x}) || p.Store.Disk.PendingErr() != nil {
		done <- nil
		return done
	}
	go func() {
		e, err := p.Store.Stage(x)
		if err != nil {
			p.Log.Warn("the table could not be written ahead of verification", zap.Error(err))
			e = nil
		}
		done <- e
	}()
	return done
}

// made is a verified plan.
type made struct {
	plan              view.Proposal
	early             *store.Epoch // the plan with its table already written; may be nil
	planned, verified time.Time
}

// pending is what the controller's next publishing puts in force.
type pending struct {
	view  *view.View
	asked controller.Plan // the controller's request
	plan  *state.Plan     // of the fabric; nil if that in force is kept
	jobs  []state.Plan    // if it stays: new plans of jobs
}
