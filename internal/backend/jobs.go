package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// Jobs answers the requests about jobs.
type Jobs struct{ *Parts }

// Jobs lists the jobs.
func (b Jobs) Jobs() []api.Job {
	var out []api.Job
	for _, j := range b.State.Now().Jobs {
		out = append(out, j.Summary())
	}
	return out
}

// Job returns a job with its hosts.
func (b Jobs) Job(name string) (*api.Job, error) {
	j, err := b.State.Now().Job(name)
	if err != nil {
		return nil, err
	}
	return j.Detail(), nil
}

// JobPlans returns the plans of a job.
func (b Jobs) JobPlans(name string) (plans, bases *published.Plans, err error) {
	j, err := b.State.Now().Job(name)
	if err != nil {
		return nil, nil, err
	}
	return j.Plans, j.Bases, nil
}

// basis is the input to a job's plan: a fabric with some lanes excluded, the tables that the
// switches may hold, and the number of the plan.
type basis struct {
	view   *view.View
	avoid  []controller.Lane
	tables []*lft.Tables
	next   uint64 // may be derived from the clock
	last   uint64 // the number given before next

	better <-chan struct{} // closed when the new tables are in place; nil if no new tables are coming
}

func (g *basis) equal(h *basis) bool {
	return g.view.ID == h.view.ID && slices.Equal(g.avoid, h.avoid) && slices.Equal(g.tables, h.tables) && g.last == h.last
}

// basis returns the current basis for a job's plan. It runs while no action is under way.
func (b Jobs) basis(now Ground) (*basis, error) {
	if err := b.MayLead(); err != nil {
		return nil, err
	}
	g := &basis{view: now.View, avoid: now.Avoid, tables: b.Desk.Possible(), next: b.Store.Disk.Numbers.Next(), last: b.Store.Disk.Numbers.Last()}
	if g.view == nil || b.State.Now().Epoch == nil || slices.Contains(g.tables, nil) {
		return nil, api.Errorf(api.CodeNoPlan, "no verified plan is in force yet: jobs are planned once the fabric is")
	}
	if now.Sweeping {
		g.better = b.State.Now().Rest
	}
	return g, nil
}

// CreateJob plans a job and puts its plan in force. Planning does not block the loop, and is
// repeated if its basis changes in the meantime. A job that cannot be planned on tables that
// are being replaced, for example because a host has just joined, waits for the new tables.
func (b Jobs) CreateJob(ctx context.Context, q api.JobRequest) (created *api.Job, err error) {
	defer func() {
		if q.DryRun {
			access.RequestOf(ctx).Told = true // no order was given
			return
		}
		b.orderedJob(ctx, "job create "+q.Name, "is planned", created, err)
	}()
	for {
		var was *basis
		if err := b.Loop.Between(ctx, func(now Ground) (err error) { was, err = b.basis(now); return err }); err != nil {
			return nil, waited(err)
		}
		j, made, unknown, err := b.planNew(ctx, q, was)
		if err != nil && was.better != nil {
			select {
			case <-was.better:
				continue
			case <-b.Loop.Stopped():
			case <-ctx.Done():
			}
		}
		if err != nil {
			return nil, err
		}
		if q.DryRun {
			detail := j.Detail()
			detail.Unknown = unknown
			return detail, b.room(q.Name)
		}
		stale := false
		if err := b.Loop.Between(ctx, func(ground Ground) error {
			now, err := b.basis(ground)
			if err == nil {
				if stale = !now.equal(was); !stale {
					j, err = b.admit(j, made, api.LeaseOf(q.LeaseSeconds))
				}
			}
			return err
		}); err != nil {
			return nil, waited(err)
		}
		if !stale {
			detail := j.Detail()
			detail.Unknown = unknown
			return detail, nil
		}
	}
}

// waited explains that a request ended before its turn came.
func waited(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return api.Refused("a change of the fabric is being worked on, and did not end in time: try again")
	}
	return err
}

// planNew plans a requested job. It returns the job with its plans, which have no numbers yet, and
// lists the hosts that are not in the fabric.
func (b Jobs) planNew(ctx context.Context, q api.JobRequest, g *basis) (j *state.Job, made []state.Plan, unknown []string, err error) {
	members, unknown, err := g.view.Members(q.Hosts, q.SkipUnknown)
	if err == nil && len(members) == 0 {
		err = fmt.Errorf("the fabric has none of the hosts, such as %.80q: forsctl topology --json lists those that it has", q.Hosts[0])
	}
	if err != nil {
		return nil, nil, nil, api.BadRequest("%v", err)
	}
	own := q.OwnLanes || b.Settings.Now().Jobs.OwnLanes
	j = state.NewJob(store.Job{JobInfo: store.JobInfo{Name: q.Name, Members: members, RanksPerHost: q.RanksPerHost, OwnLanes: own}}, time.Now())
	if g.view.JobsOnRoutes() {
		p, err := g.view.JobOnRoutes(ctx, j.Guids(), g.tables...)
		if err != nil {
			return nil, nil, nil, api.Refused("the job cannot be planned: %v", err)
		}
		j.Report, j.Warnings = p.Report(), p.Cautions()
		j.Plan, err = phasetable.New(p.Table(0))
		return j, []state.Plan{{Proposal: p}}, unknown, err
	}
	pool := b.Workers.Orders
	if q.DryRun {
		pool = b.Workers.Questions(ctx)
	}
	p, err := worker.PlanJob(ctx, pool, &worker.JobRequest{Tree: g.view.Held(g.avoid), Settings: worker.Settings(b.Planning), Members: j.Guids(), Tables: g.tables, Number: g.next,
		Jobs: b.State.Now().Planning(), OwnLanes: own})
	if err != nil {
		return nil, nil, nil, err
	}
	lanes, err := known(p.Table, p.Report, p.Warnings)
	if err != nil {
		return nil, nil, nil, err
	}
	j.Plan, j.Report, j.Warnings, j.Lanes, j.Routed = lanes.Plan, lanes.About, lanes.Warnings, p.Lanes, p.Routed
	made = []state.Plan{{Proposal: lanes}}
	if p.Base != nil {
		onBase, err := known(p.Base, p.BaseReport, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		made = append(made, state.Plan{Proposal: onBase, Base: true})
	}
	return j, made, unknown, nil
}

// known decodes a plan of a worker.
func known(table []byte, report json.RawMessage, warnings []planner.Warning) (k state.Known, err error) {
	k.Warnings = warnings
	if k.Plan, err = phasetable.Decode(table); err == nil {
		err = json.Unmarshal(report, &k.About)
	}
	return k, err
}

// mostJobs bounds the number of jobs, because a failure requires a new plan for each of them.
const mostJobs = 1024

// room returns an error if another job would exceed mostJobs, or its name is in use.
func (b Jobs) room(name string) error {
	if name != "" {
		if other, err := b.State.Now().Job(name); err == nil {
			return api.Refused("%s has this name already: remove it, or take another name", other.Label())
		}
	}
	if len(b.State.Now().Jobs) >= mostJobs {
		return api.Refused("there are %d jobs, as many as may be: remove those that are over (forsctl job list)", mostJobs)
	}
	return nil
}

// admit publishes the plans of a new job. It runs while no action is under way.
func (b Jobs) admit(j *state.Job, made []state.Plan, lease time.Duration) (*state.Job, error) {
	if err := b.room(j.Name); err != nil {
		return nil, err
	}
	j.Created = time.Now()
	j.Renew(j.Created, lease)
	number := b.Store.Disk.Numbers.Next()
	for i := range made {
		made[i].Job = j
		if err := b.Store.Publish(number, made[i:i+1]...); err != nil {
			return nil, err
		}
		j = made[i].Job
		number = j.Epoch
	}
	return j, nil
}

// RenewJob extends a job's lease to the given time from now.
func (b Jobs) RenewJob(ctx context.Context, name string, lease time.Duration) (renewed *api.Job, err error) {
	defer func() { b.orderedJob(ctx, "job renew "+name, "has a lease of "+lease.String(), renewed, err) }()
	return b.changeJob(ctx, name, func(j *state.Job) *state.Job {
		return b.Store.ChangeJob(j, func(next *state.Job) { next.Renew(time.Now(), lease) })
	})
}

// RemoveJob ends a job.
func (b Jobs) RemoveJob(ctx context.Context, name string) (removed *api.Job, err error) {
	defer func() { b.orderedJob(ctx, "job rm "+name, "has ended", removed, err) }()
	return b.changeJob(ctx, name, func(j *state.Job) *state.Job { b.Store.EndJob(j, "removed"); return j })
}

// orderedJob logs and publishes an order about a job and its outcome.
func (b Jobs) orderedJob(ctx context.Context, what, result string, j *api.Job, err error) {
	if j != nil {
		result = fmt.Sprintf("job %d %s", j.ID, result)
	}
	b.Ordered(ctx, strings.TrimSpace(what), result, err)
}

// changeJob changes a job while no action is under way.
func (b Jobs) changeJob(ctx context.Context, name string, change func(*state.Job) *state.Job) (*api.Job, error) {
	var j *state.Job
	if err := b.Loop.Between(ctx, func(Ground) error {
		if err := b.MayLead(); err != nil {
			return err
		}
		now, err := b.State.Now().Job(name)
		if err == nil {
			j = change(now)
		}
		return err
	}); err != nil {
		return nil, waited(err)
	}
	return j.Detail(), nil
}
