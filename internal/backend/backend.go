// Package backend answers the API. It reads the state of the daemon's components, and sends requests
// that change the plan to the daemon's loop.
package backend

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/delivery/desk"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/history"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/internal/webhook"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Loop lists the operations of the daemon's loop. Each of them waits its turn, and fails with
// ErrStopping when forsd is shutting down.
type Loop interface {
	// Reroute repeats all work; the channel is closed when it is complete.
	Reroute(ctx context.Context) (done <-chan struct{}, err error)
	// Rollback publishes an earlier plan again, if it holds on the current fabric.
	Rollback(ctx context.Context, epoch uint64) error
	// Accept makes the current fabric the baseline.
	Accept(ctx context.Context) error
	// ReleaseCable puts an isolated cable on probation, by order of an operator.
	ReleaseCable(ctx context.Context, name string) error
	// Measured passes the measurement of an exchange to the health of cables.
	Measured(ctx context.Context, m *api.Measured) error
	// Between runs f while no action of the controller is under way, so that neither the tables
	// nor the store change, and waits until f returns. The error is that of f, or why it did
	// not run.
	Between(ctx context.Context, f func(Ground) error) error
	// Drain removes parts of the fabric from the plan, or returns them to it.
	Drain(ctx context.Context, all ...exclusions.Event) error
	// Stopped returns a channel that is closed when the loop has ended.
	Stopped() <-chan struct{}
}

// Ground is the current basis for a plan.
type Ground struct {
	View     *view.View        // nil before the first view, and while its routes are not known
	Avoid    []controller.Lane // lanes that no plan may use
	Sweeping bool              // new tables are on their way into the switches
}

// ErrStopping is the answer to requests during shutdown.
var ErrStopping = api.Errorf(api.CodeStopping, "forsd is shutting down")

// Parts are the components that a backend uses.
type Parts struct {
	Version string
	Fabric  string // its name
	Started time.Time

	Log     *zap.Logger
	State   *state.Shared
	Store   *state.Store
	Desk    *desk.Desk
	History *history.History
	Webhook *webhook.Hook
	Cables  *cables.Tracker
	OpenSM  func() api.OpenSM // the local subnet manager, and the source of the fabric's data
	Loop    Loop
	MayLead func() error // returns an error if this daemon does not lead and may not change the plan
	Workers worker.Pools
	Watches bool // forsd only observes

	Planning planner.Settings
	Settings *config.Settings // settings that may change while forsd runs
	Terms    func(now time.Time) []access.Term
}

// Backend answers the API.
type Backend struct {
	Parts
	Metrics  *Metrics
	Watched  atomic.Pointer[api.Watched] // the last observation of a forsd that only watches
	tables   tablesText
	seen     seen
	measured measured
}

// New returns a backend.
func New(parts Parts) *Backend {
	b := &Backend{Parts: parts}
	b.Metrics = newMetrics(b)
	return b
}

// Status returns the current state of the daemon.
func (b *Backend) Status() api.Status {
	warnings := b.State.Health.List(time.Now())
	match, readAt := b.TablesMatch()
	s := b.State.Now().Status()
	s.Version, s.Fabric, s.Started, s.Warnings = b.Version, b.Fabric, b.Started, make([]api.Warning, len(warnings))
	for i, w := range warnings {
		s.Warnings[i] = api.Warning{Code: w.Code, Severity: string(w.Severity), Title: w.Title, Text: w.Text, Since: w.Since, Advice: w.Advice, Runbook: w.Runbook}
	}
	manager := b.OpenSM()
	manager.Standby, manager.DumpedAt = s.OpenSM.Standby, s.OpenSM.DumpedAt
	manager.TablesMatch, manager.ReadBackAt = match, readAt
	s.OpenSM = manager
	s.Drains = b.drains(nil)
	if s.Watches, s.Watched = b.Watches, b.Watched.Load(); s.Watches {
		s.State, s.OpenSM.Standby = "watching", false
	}
	return s
}

// TablesMatch reports whether the tables that were last read back are the planned ones, or
// those that the plan was made on, and when they were read.
func (b *Backend) TablesMatch() (match bool, readAt time.Time) {
	match, readAt = b.Desk.Match()
	return match || b.State.Now().OwnRoutes() && b.Desk.InSwitches() != nil, readAt
}

// seen is the API's form of the fabric, and the view that it was made from.
type seen struct {
	mu   sync.Mutex // guards the fields below
	of   *view.View
	held []controller.Lane
	t    *api.Topology
}

// Topology returns the fabric as last seen. All callers share one value until the fabric
// changes.
func (b *Backend) Topology() *api.Topology {
	now := b.State.Now()
	v, held := now.Latest, now.Held
	if v == nil {
		return nil
	}
	s := &b.seen
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of != v || !slices.Equal(s.held, held) {
		s.of, s.held, s.t = v, held, v.Topology(held)
	}
	return s.t
}

// Epochs lists the kept epochs.
func (b *Backend) Epochs() ([]api.Epoch, error) {
	out := []api.Epoch{}
	for _, e := range b.Store.Disk.Epochs.List() {
		out = append(out, state.SummaryOf(&e))
	}
	return out, nil
}

// errNoDump is the answer to requests that need a fabric.
var errNoDump = api.Refused("OpenSM has not written a usable dump yet: there is nothing to plan")

// Reroute repeats all work and waits until it is complete.
func (b *Backend) Reroute(ctx context.Context) (out api.Change, err error) {
	defer func() { b.Ordered(ctx, "reroute", out.Text, err) }()
	if err := b.MayLead(); err != nil {
		return api.Change{}, err
	}
	if b.State.Now().Latest == nil {
		return api.Change{}, errNoDump
	}
	before := b.State.Now().EpochNumber()
	done, err := b.Loop.Reroute(ctx)
	if err != nil {
		return api.Change{}, err
	}
	select {
	case <-done:
	case <-b.Loop.Stopped():
		return api.Change{}, ErrStopping
	case <-ctx.Done():
		return api.Change{}, fmt.Errorf("the reroute is under way and has not settled: %w", ctx.Err())
	}
	return b.change(before, "planned, programmed and read back anew"), nil
}

// change describes the effect of an order on the epoch.
func (b *Backend) change(before uint64, text string) api.Change {
	now := b.State.Now().EpochNumber()
	if now == before {
		text += "; the plan in force is still the right one"
	}
	return api.Change{Epoch: now, Changed: now != before, Text: text}
}

// WhatIf plans the fabric with some parts failed, and the rest of an exchange if requested.
// Cables that are held back remain held back.
func (b *Backend) WhatIf(ctx context.Context, q api.WhatIf) (*api.Forecast, error) {
	now := b.State.Now()
	v := now.Latest
	if v == nil {
		return nil, errNoDump
	}
	if v.Kind == controller.OwnRoutes {
		return nil, v.NoTree("what OpenSM would route after a failure cannot be foretold")
	}
	leave, err := b.Workers.Questions(ctx).Enter() // preparing the question takes time too
	if err != nil {
		return nil, err
	}
	defer leave()
	f := v.Fabric.Clone()
	for _, spec := range q.Fail {
		if _, err := f.Fail(spec); err != nil {
			return nil, api.BadRequest("fail %s: %v", spec, err)
		}
	}
	would, err := view.New(f, v.Tree.Baseline, &b.Settings.Now().Planning)
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	ask := worker.WhatIfRequest{Tree: would.Held(now.Held), Settings: worker.Settings(b.Planning), Epoch: now.EpochNumber()}
	if q.Done != nil {
		if err := b.remaining(&ask, q); err != nil {
			return nil, err
		}
	}
	forecast, err := worker.WhatIf(ctx, b.Workers.Questions(ctx), &ask)
	if err != nil {
		return nil, err
	}
	for _, c := range topology.Diff(v.Fabric, f) {
		forecast.What = append(forecast.What, c.Text)
	}
	return forecast, nil
}

// remaining adds the rest of an exchange to a question.
func (b *Backend) remaining(ask *worker.WhatIfRequest, q api.WhatIf) error {
	var old *phasetable.View
	var err error
	if q.Job != "" {
		ask.Members, old, err = b.runningJob(q)
	} else {
		old, err = b.running(q.Epoch)
	}
	if err != nil {
		return err
	}
	ask.Running, ask.Done = old.Bytes(), q.Done.Of(old.Phases())
	// A plan for the current fabric may be run immediately.
	if len(q.Fail) == 0 {
		ask.Tables = b.Desk.Possible()
		if slices.Contains(ask.Tables, nil) {
			return api.Refused("the tables in force are not known yet: ask again when they have been read back")
		}
	}
	return nil
}

// running returns the plan of an exchange in progress by its epoch; 0 means the plan in force.
func (b *Backend) running(n uint64) (*phasetable.View, error) {
	e := b.State.Now().Epoch
	if n != 0 && (e == nil || e.Epoch != n) {
		kept, err := b.Store.Disk.Epochs.Load(n)
		if err != nil {
			return nil, api.BadRequest("epoch %d: %v", n, err)
		}
		e = kept
	}
	if e == nil {
		return nil, api.Refused("no plan is in force yet: no exchange can have begun")
	}
	return e.Plan, nil
}

// runningJob returns a job's servers and its plan for an exchange in progress.
func (b *Backend) runningJob(q api.WhatIf) ([]ib.GUID, *phasetable.View, error) {
	j, err := b.State.Now().Job(q.Job)
	if err != nil {
		return nil, nil, err
	}
	if q.Epoch == 0 || q.Epoch == j.Epoch {
		return j.Guids(), j.Plan, nil
	}
	old, err := b.Store.Disk.Jobs.Load(j.ID, q.Epoch)
	if err != nil {
		return nil, nil, api.BadRequest("epoch %d of %s: its plan in force and the one before are kept: %v", q.Epoch, j.Label(), err)
	}
	return j.Guids(), old.Plan, nil
}

// Rollback publishes an earlier plan again, if it holds on the current fabric.
func (b *Backend) Rollback(ctx context.Context, n uint64) (out api.Change, err error) {
	defer func() { b.Ordered(ctx, fmt.Sprintf("rollback to epoch %d", n), out.Text, err) }()
	before := b.State.Now().EpochNumber()
	if err := b.Loop.Rollback(ctx, n); err != nil {
		return api.Change{}, err
	}
	return b.change(before, fmt.Sprintf("the plan of epoch %d is in force again", n)), nil
}
