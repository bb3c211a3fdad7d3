package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/delivery"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// This file carries the controller's actions out. Its functions run one at a
// time, outside the loop; what they share with the API is guarded by d.mu.

// errForgotten says that too many fabrics were seen since. The controller takes
// up the latest.
var errForgotten = errors.New("the fabric has been forgotten: newer ones were seen")

// plan makes and verifies the plan that the controller asks for.
func (d *Daemon) plan(ctx context.Context, a controller.Plan) controller.Event {
	err := d.makePlan(ctx, a)
	if err == nil && d.candidate.same {
		d.candidate.jobs, err = d.planJobs(ctx, d.candidate.view, a)
	}
	d.candidate.asked = a
	if err == nil && a.Ahead {
		err = d.layOut(ctx, d.candidate.view, a)
	}
	if err != nil && !a.Final {
		d.log.Info("no plan holds on the tables in force, the tables come first", zap.Error(err))
	}
	var onLanes *planner.TooManyUnreachable
	var onRoutes view.Unreachable
	tooMany := errors.As(err, &onLanes) || errors.As(err, &onRoutes)
	return controller.Planned{Same: d.candidate.same && len(d.candidate.jobs) == 0, Err: text(err), Refused: tooMany && d.board.current() == nil}
}

// makePlan leaves the plan as the candidate, which tells whether the one in force
// stays.
func (d *Daemon) makePlan(ctx context.Context, a controller.Plan) error {
	v := d.board.view(a.Fabric)
	if v == nil {
		return errForgotten
	}
	if a.Final && !a.Anew && !d.reissue && d.pinnedHolds(v) {
		d.candidate = candidate{view: v, same: true}
		return nil
	}
	plan := d.planForTables
	if v.Kind == controller.OwnRoutes {
		plan = d.planOnRoutes
	} else if follow, err := d.planning().TablesFollow(v.Tree); err != nil {
		return err
	} else if follow {
		plan = d.planWithTables
	}
	c, err := plan(ctx, v, a)
	if err != nil {
		return err
	}
	d.board.mark(v, c.planned, func(t *times) *time.Time { return &t.planned })
	d.board.mark(v, c.verified, func(t *times) *time.Time { return &t.verified })
	if c.same = d.inForceIs(c.plan) && !d.reissue; c.same {
		d.board.planWarnings(c.plan.Cautions())
	}
	d.candidate = c
	return nil
}

// planWithTables takes the plan that the tables follow from, if it holds on all
// tables that the switches may hold: before its tables are there it does so only
// where they do not change what it uses. Lanes to avoid beyond those held back
// need no plan of their own, for no other plan would hold.
func (d *Daemon) planWithTables(ctx context.Context, v *view.View, a controller.Plan) (c candidate, err error) {
	r, err := v.Route(ctx, a.Hold, d.planning())
	if err != nil {
		return c, err
	}
	c = candidate{view: v, plan: view.TreePlan{Schedule: r.Schedule}, planned: time.Now()}
	if !a.Final {
		err = r.Schedule.Check(d.tablesFor(a, r.Tables)...)
		c.verified = time.Now()
		return c, err
	}
	staged := d.stage(r.Schedule)
	err = r.Schedule.Check(d.tablesFor(a, r.Tables)...)
	c.verified, c.epoch = time.Now(), (<-staged).of(r.Schedule)
	return c, err
}

// planForTables plans for tables that carry any plan. Planning and the tables
// that are to follow are worked on side by side; the tables themselves are verified
// when they are laid out.
func (d *Daemon) planForTables(ctx context.Context, v *view.View, a controller.Plan) (c candidate, err error) {
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
	schedule, err := planner.Plan(ctx, tree, d.planning())
	c = candidate{view: v, planned: time.Now()}
	r := <-next
	if err = errors.Join(err, r.err); err != nil {
		return c, err
	}
	staged := d.stage(schedule)
	on := d.tablesFor(a, r.tables)
	schedule, err = schedule.Verified(ctx, on...)
	if old := v.Familiar(tree, d.board.current()); err != nil && !a.Final && old != nil {
		schedule, err = d.planFor(ctx, old, on)
	}
	c.plan, c.verified = view.TreePlan{Schedule: schedule}, time.Now()
	c.epoch = (<-staged).of(schedule)
	return c, err
}

// tablesFor lists the tables on which a plan must hold: those that the switches
// may hold, and those that are to follow unless they have been read back.
func (d *Daemon) tablesFor(a controller.Plan, next *lft.Tables) []*lft.Tables {
	if a.Ahead {
		return []*lft.Tables{next}
	}
	on := d.desk.Possible()
	if !a.Final && !slices.Contains(on, next) {
		on = append(on, next)
	}
	return on
}

// planFor plans for a tree and verifies the plan on the tables.
func (d *Daemon) planFor(ctx context.Context, tree *topology.FatTree, on []*lft.Tables) (*planner.Schedule, error) {
	schedule, err := planner.Plan(ctx, tree, d.planning())
	if err != nil {
		return nil, err
	}
	return schedule.Verified(ctx, on...)
}

// pinnedHolds tells whether the epoch in force was put there by a rollback on
// this very fabric and still stands verification on the tables in force.
func (d *Daemon) pinnedHolds(v *view.View) bool {
	e := d.board.current()
	return e != nil && e.RollbackOf != 0 && e.Fabric == v.ID && v.Carries(d.desk.InSwitches(), e.Plan, nil) == nil
}

// inForceIs tells whether the epoch in force is this very plan.
func (d *Daemon) inForceIs(p view.Proposal) bool {
	e := d.board.current()
	return e != nil && p.Is(e.Plan, &e.Report)
}

// publish puts the last plan in force, and those of jobs under the same number. Jobs
// are planned only then: the fabric's plan does not wait for theirs.
func (d *Daemon) publish(ctx context.Context) error {
	c, n := d.candidate, d.store.Next()
	if c.view.Tree != nil {
		d.board.adopt(c.view.Tree.Baseline)
	}
	if !c.same {
		if err := d.publishFabric(c, n); err != nil {
			return err
		}
		var err error
		if c.jobs, err = d.planJobs(ctx, c.view, c.asked); ctx.Err() != nil {
			return nil // jobs are planned for the fabric that has been seen since
		} else if err != nil {
			return err
		}
	}
	if err := d.jobs.publishJobs(c.jobs, max(n, d.board.epochNumber())); err != nil {
		return err
	}
	d.reissue = false
	return nil
}

// planJobs plans the jobs for what the controller asks.
func (d *Daemon) planJobs(ctx context.Context, v *view.View, a controller.Plan) ([]jobPlan, error) {
	if len(d.jobs.jobList()) == 0 {
		return nil, nil
	}
	on := d.desk.Possible()
	if v.Kind != controller.OwnRoutes {
		r, err := v.Route(ctx, a.Hold, d.planning())
		if err != nil {
			return nil, err
		}
		on = d.tablesFor(a, r.Tables)
	}
	return d.jobs.planJobs(ctx, d.forMembers(ctx, v, a.Avoid, on), a.Final, d.reissue), nil
}

// publishFabric puts the plan of the fabric in force under the number n.
func (d *Daemon) publishFabric(c candidate, n uint64) error {
	e, err := c.epoch, error(nil)
	if e == nil {
		if e, err = store.NewEpoch(c.plan.Table(n)); err != nil {
			return err
		}
	}
	return d.put(e, store.EpochInfo{Fabric: c.view.ID, What: d.board.whatOf(c.view), Report: c.plan.Report(), Warnings: c.plan.Cautions()})
}

// put makes e the next epoch. A crash of this process leaves it in force from here
// on, where the disk takes it; it is brought to disk when everybody has it, for it must
// not be published twice under two numbers, and the store sees to that.
func (d *Daemon) put(e *store.Epoch, info store.EpochInfo) error {
	info.Epoch, info.PublishedAt = e.Epoch, time.Now()
	e.EpochInfo = info
	d.store.saveBaseline()
	e, err := d.store.reveal(e)
	if err != nil {
		return err
	}
	if err := d.board.setCurrent(e); err != nil {
		return err
	}
	d.board.markPublished(e.Fabric)
	d.log.Info("published", zap.Uint64("epoch", e.Epoch), zap.Int("phases", e.Report.Phases),
		zap.Int("lower_bound", e.Report.LowerBound), zap.String("engine", e.Report.Engine), zap.Uint64("rollback_of", e.RollbackOf))
	if d.store.Owed() == nil {
		d.store.notStored(d.store.Flush(e, d.cfg.KeepEpochs))
	}
	return nil
}

// write brings the tables up to date that OpenSM loads, if they are not.
func (d *Daemon) write(ctx context.Context, a controller.Write) (changed bool, err error) {
	v := d.board.view(a.Fabric)
	if v == nil {
		return false, errForgotten
	}
	r, err := v.Route(ctx, a.Hold, d.planning())
	if err != nil {
		return false, err
	}
	// A newcomer's index must survive a crash before tables depend on it.
	d.board.adopt(v.Tree.Baseline)
	d.store.saveBaseline()
	if changed, err = d.desk.Deliver(v.ID, v.Fabric, r.Tables); err != nil {
		return false, err
	}
	d.board.mark(v, time.Now(), func(t *times) *time.Time { return &t.written })
	return changed, nil
}

// signal has the manager sweep.
func (d *Daemon) signal(ctx context.Context) error {
	switch d.desk.Load() {
	case delivery.ThisSweep:
		return nil
	case delivery.LastSweep:
		d.work.Go(func() { _ = d.call(d.life, d.seenAgain) }) // nobody waits where the daemon ends
		return nil
	case delivery.NextSweep:
		if err := d.plugin.Resweep(plugin.HeavySweep); !errors.Is(err, plugin.ErrNotConnected) {
			return err
		}
	}
	if d.remote() {
		return d.install(ctx)
	}
	p, err := opensm.Sweep(ctx, d.finder)
	if err == nil {
		d.managerFound(p)
	}
	return err
}

// newReader is what reads the switches. It lasts as long as the process, so that the local
// port stays open.
func (d *Daemon) newReader() *opensm.Switches {
	c := &d.cfg.OpenSM
	return &opensm.Switches{Port: string(c.Umad), Limits: umad.Options{Window: c.UmadWindow},
		Command: opensm.ReadBack{Command: c.DumpCommand, Timeout: c.ReadbackTimeout}, Note: d.readsBy}
}

// readsBy logs how the switches are read from now on.
func (d *Daemon) readsBy(err error) {
	if err == nil {
		d.log.Info("tables are read out of the switches directly")
		return
	}
	d.log.Info("tables are read out of the switches by a command", zap.Strings("command", d.cfg.OpenSM.DumpCommand), zap.NamedError("because", err))
}

// readBack reads the tables out of the switches and compares them with those of
// the fabric. The plan that follows is verified on what was read.
func (d *Daemon) readBack(ctx context.Context, a controller.ReadBack) controller.Event {
	v := d.board.view(a.Fabric)
	if v == nil {
		return controller.ReadBackDone{Err: errForgotten.Error()}
	}
	swept := time.Now()
	d.desk.Reading()
	got, whole, err := d.reader().Tables(ctx, v.Fabric)
	unwritten := d.desk.Settle()
	if unwritten != nil {
		unwritten = fmt.Errorf("OpenSM has the tables, but the file that it loads where forsd does not answer has not: %w", unwritten)
	}
	if err != nil {
		return controller.ReadBackDone{Err: err.Error()}
	}
	if a.Kind == controller.OwnRoutes {
		d.desk.Read(got, false) // none were ordered
		d.markRead(v, swept)
		return controller.ReadBackDone{Match: true}
	}
	want, err := v.Route(ctx, a.Hold, d.planning())
	if err != nil {
		return controller.ReadBackDone{Err: err.Error()}
	}
	if !whole {
		if lid := lft.FillUnread(got, want.Tables); lid != 0 {
			d.log.Debug("the entries of one LID are beyond what dump_fts reads, and are taken as planned", zap.Uint16("lid", uint16(lid)))
		}
	}
	err = lft.Compare(want.Tables, got, lft.LIDs(v.Fabric))
	d.desk.Read(got, err == nil)
	if err != nil {
		return controller.ReadBackDone{Difference: err.Error()}
	}
	d.markRead(v, swept)
	return controller.ReadBackDone{Match: true, Unwritten: text(unwritten)}
}

// markRead notes that the tables of a sweep have been read.
func (d *Daemon) markRead(v *view.View, swept time.Time) {
	d.board.mark(v, swept, func(t *times) *time.Time { return &t.swept })
	d.board.mark(v, time.Now(), func(t *times) *time.Time { return &t.readBack })
}
