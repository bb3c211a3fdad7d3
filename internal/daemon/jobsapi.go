package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/aside"
	"github.com/forsd/forsd/internal/jobs"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
)

// jobsBackend answers the API's questions about jobs.
type jobsBackend struct{ *Daemon }

// Jobs lists the jobs.
func (b jobsBackend) Jobs() []api.Job {
	var out []api.Job
	for _, j := range b.jobs.List() {
		out = append(out, j.Summary())
	}
	return out
}

// Job is one job with its hosts.
func (b jobsBackend) Job(name string) (*api.Job, error) {
	j, err := b.jobs.Find(name)
	if err != nil {
		return nil, err
	}
	return j.Detail(), nil
}

// JobPlans holds the plan of a job.
func (b jobsBackend) JobPlans(name string) (*api.Plans, error) {
	j, err := b.jobs.Find(name)
	if err != nil {
		return nil, err
	}
	return j.Plans, nil
}

// ground is what a job's plan is made for: a fabric with some lanes left out, the
// tables that the switches may hold, and the number that the plan will have.
type ground struct {
	fabric string
	avoid  []controller.Lane
	tables []*lft.Tables
	next   uint64 // by the clock, perhaps
	last   uint64 // given before it

	view   *view.View
	better <-chan struct{} // closed when the tables that are to come are there; nil where none are
}

func (g *ground) equal(h *ground) bool {
	return g.fabric == h.fabric && slices.Equal(g.avoid, h.avoid) && slices.Equal(g.tables, h.tables) && g.last == h.last
}

// ground is what a job can be planned for now. It runs while no action is under
// way.
func (d *Daemon) ground() (*ground, error) {
	if err := d.mustLead(); err != nil {
		return nil, err
	}
	g := &ground{tables: d.desk.Possible(), next: d.store.Next(), last: d.store.Last()}
	g.fabric, g.avoid = d.core.Ground()
	g.view = d.board.View(g.fabric)
	if g.view == nil || d.board.Current() == nil || slices.Contains(g.tables, nil) {
		return nil, api.Errorf(http.StatusServiceUnavailable, api.CodeNoPlan, "no verified plan is in force yet: jobs are planned once the fabric is")
	}
	if d.core.State() == controller.Sweeping {
		g.better = d.board.NextRest()
	}
	return g, nil
}

// CreateJob plans a job and puts its plan in force. Planning is done beside the
// loop, and again if something happened meanwhile that it depends on. What cannot
// be planned on tables that are being replaced, such as a host that has just come,
// waits for the new ones.
func (b jobsBackend) CreateJob(ctx context.Context, q api.JobRequest) (*api.Job, error) {
	for {
		var was *ground
		var err error
		if cerr := b.calm(ctx, func() { was, err = b.ground() }); cerr != nil {
			return nil, waited(cerr)
		} else if err != nil {
			return nil, err
		}
		j, unknown, err := b.planNew(ctx, q, was)
		if err != nil && was.better != nil {
			select {
			case <-was.better:
				continue
			case <-b.stopped:
			case <-ctx.Done():
			}
		}
		if err != nil {
			return nil, err
		}
		stale := false
		cerr := b.calm(ctx, func() {
			var now *ground
			if now, err = b.ground(); err == nil {
				if stale = !now.equal(was); !stale {
					err = b.admit(j, q.Lease())
				}
				if stale = stale || errors.Is(err, store.ErrNumber); stale {
					err = nil
				}
			}
		})
		if cerr != nil {
			return nil, waited(cerr)
		} else if err != nil {
			return nil, err
		}
		if !stale {
			detail := j.Detail()
			detail.Unknown = unknown
			return detail, nil
		}
	}
}

// waited explains that a request came to its end before its turn.
func waited(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return api.Refused("a change of the fabric is being worked on, and did not end in time: try again")
	}
	return err
}

// planNew plans a job that is asked for, and lists the hosts that the fabric does not have.
func (d *Daemon) planNew(ctx context.Context, q api.JobRequest, g *ground) (j *jobs.Job, unknown []string, err error) {
	members, unknown, err := g.view.Members(q.Hosts, q.SkipUnknown)
	if err == nil && len(members) == 0 {
		err = fmt.Errorf("the fabric has none of the hosts, such as %.80q: forsctl topology --json lists those that it has", q.Hosts[0])
	}
	if err != nil {
		return nil, nil, api.BadRequest("%v", err)
	}
	j = &jobs.Job{Job: store.Job{JobInfo: store.JobInfo{Name: q.Name, Members: members, RanksPerHost: q.RanksPerHost}}}
	if g.view.Kind == controller.OwnRoutes {
		p, err := g.view.JobOnRoutes(ctx, j.Guids(), g.tables[0])
		if err != nil {
			return nil, nil, api.Refused("the job cannot be planned: %v", err)
		}
		j, err = j.Planned(p, g.next)
		return j, unknown, err
	}
	p, err := aside.PlanJob(ctx, d.workers, &aside.NewJob{Tree: g.view.Held(g.avoid), Settings: aside.Settings(d.press.Planning), Members: j.Guids(), Tables: g.tables, Number: g.next})
	if err != nil {
		return nil, nil, err
	}
	j.ID, j.Epoch, j.Warnings = g.next, g.next, p.Warnings
	if err := json.Unmarshal(p.Report, &j.Report); err != nil {
		return nil, nil, err
	}
	j.Plan, err = phasetable.Decode(p.Table)
	return j, unknown, err
}

// admit makes a planned job durable and puts it in force. It runs while no action
// is under way.
func (d *Daemon) admit(j *jobs.Job, lease time.Duration) error {
	if j.Name != "" {
		if other, err := d.jobs.Find(j.Name); err == nil {
			return api.Refused("%s has this name already: remove it, or take another name", other.Label())
		}
	}
	now := time.Now()
	j.Created, j.PublishedAt, j.Expires = now, now, now.Add(lease)
	if err := d.store.FromMemory(j.Epoch, d.store.OnDisk(func() error { return d.store.SaveJob(&j.Job) })); err != nil {
		return err
	}
	if err := d.jobs.Set(j); err != nil {
		return err
	}
	d.jobs.Warnings(d.jobs.Troubles())
	d.jobs.Tell(j, "created")
	return nil
}

// RenewJob lets a job's lease end so long from now.
func (b jobsBackend) RenewJob(ctx context.Context, name string, lease time.Duration) (*api.Job, error) {
	return b.changeJob(ctx, name, func(j *jobs.Job) (*jobs.Job, error) {
		next := *j
		next.Expires = time.Now().Add(lease)
		b.store.NotStored(b.store.OnDisk(func() error { return b.store.SaveLease(&next.Job) }))
		return &next, b.jobs.Set(&next)
	})
}

// RemoveJob ends a job.
func (b jobsBackend) RemoveJob(ctx context.Context, name string) (*api.Job, error) {
	return b.changeJob(ctx, name, func(j *jobs.Job) (*jobs.Job, error) { b.jobs.End(j, "removed"); return j, nil })
}

// changeJob runs a change of a job while no action is under way.
func (b jobsBackend) changeJob(ctx context.Context, name string, change func(*jobs.Job) (*jobs.Job, error)) (*api.Job, error) {
	var j *jobs.Job
	var err error
	cerr := b.calm(ctx, func() {
		if err = b.mustLead(); err != nil {
			return
		}
		if j, err = b.jobs.Find(name); err == nil {
			j, err = change(j)
		}
	})
	if err = errors.Join(waited(cerr), err); err != nil {
		return nil, err
	}
	return j.Detail(), nil
}
