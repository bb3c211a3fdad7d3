// Package backend answers the API: it reads what the daemon's rooms hold, and asks the
// daemon's loop for what only that may do.
package backend

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/aside"
	"github.com/forsd/forsd/internal/board"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/delivery/desk"
	"github.com/forsd/forsd/internal/drains"
	"github.com/forsd/forsd/internal/history"
	"github.com/forsd/forsd/internal/jobs"
	"github.com/forsd/forsd/internal/reload"
	"github.com/forsd/forsd/internal/vault"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/internal/webhook"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// Loop is what the daemon's loop does for a request, in its turn. Each of the methods
// fails with ErrStopping when forsd is shutting down.
type Loop interface {
	// MayLead refuses what only the leading daemon may do, where this one does not lead.
	MayLead() error
	// Reroute has everything done again; the channel is closed when all of it is done.
	Reroute(ctx context.Context) (done <-chan struct{}, err error)
	// Rollback publishes an old plan again, if it holds on the fabric as it is.
	Rollback(ctx context.Context, epoch uint64) error
	// Accept makes the fabric as it is the baseline.
	Accept(ctx context.Context) error
	// ReleaseCable puts an isolated cable on probation, at an operator's word.
	ReleaseCable(ctx context.Context, name string) error
	// Between runs f while no action of the controller's is under way, so that neither the
	// tables nor the store change in the meantime, and waits for it.
	Between(ctx context.Context, f func(Ground)) error
	// Drain takes parts of the fabric out of the plan, or gives them back.
	Drain(ctx context.Context, all ...drains.Event) error
	// Stopped is closed when the loop has ended.
	Stopped() <-chan struct{}
}

// Ground is what a plan can be made for now.
type Ground struct {
	View     *view.View        // nil before the first, and while its routes are not known
	Avoid    []controller.Lane // that no plan may use
	Sweeping bool              // other tables are on their way into the switches
}

// ErrStopping answers requests that come too late.
var ErrStopping = api.Errorf(http.StatusServiceUnavailable, api.CodeStopping, "forsd is shutting down")

// Parts are what a backend reads and asks.
type Parts struct {
	Version string
	Started time.Time

	Board   *board.Board
	Store   *vault.Vault
	Desk    *desk.Desk
	Jobs    *jobs.Registry
	History *history.History
	Webhook *webhook.Hook
	Cables  *cables.Room
	OpenSM  func() api.OpenSM // the manager next door, and what tells of its fabric
	Loop    Loop
	Workers worker.Pools
	Watches bool // forsd only watches

	Drains   func() []drains.Drain // that there are
	Planning planner.Settings
	Settings *reload.Settings // that may change while forsd runs
	Terms    func(now time.Time) []access.Term
}

// Backend answers the API.
type Backend struct {
	Parts
	Metrics *Metrics
	Watched atomic.Pointer[api.Watched] // what was seen last where forsd only watches
	tables  tablesText
	seen    seen
}

// New returns a backend.
func New(parts Parts) *Backend {
	b := &Backend{Parts: parts}
	b.Metrics = newMetrics(b)
	return b
}

// Status returns the daemon's state now.
func (b *Backend) Status() api.Status {
	warnings := b.Board.Health.List(time.Now())
	match, readAt := b.TablesMatch()
	s := b.Board.Status()
	s.Version, s.Started, s.Warnings = b.Version, b.Started, warnings
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

// TablesMatch reports whether the tables read back last are those planned, or those planned
// on, and when they were read.
func (b *Backend) TablesMatch() (match bool, readAt time.Time) {
	match, readAt = b.Desk.Match()
	return match || b.Board.OwnRoutes() && b.Desk.InSwitches() != nil, readAt
}

// seen is the fabric as it is shown, and what it was made of.
type seen struct {
	mu   sync.Mutex // guards what follows
	of   *view.View
	held []controller.Lane
	t    *api.Topology
}

// Topology returns the fabric as last seen: the same for all who ask until something
// changes.
func (b *Backend) Topology() *api.Topology {
	v, held := b.Board.Latest(), b.Board.HeldBack()
	if v == nil {
		return nil
	}
	s := &b.seen
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of == v && slices.Equal(s.held, held):
		return s.t
	case v.Kind == controller.OwnRoutes:
		s.t = v.Topology()
	default:
		s.t = api.NewTopology(v.Held(held), v.Complete)
		s.t.Kind = v.Kind.String()
	}
	s.of, s.held = v, held
	return s.t
}

// Epochs lists the epochs that are kept.
func (b *Backend) Epochs() ([]api.Epoch, error) {
	out := []api.Epoch{}
	for _, e := range b.Store.Epochs() {
		out = append(out, board.SummaryOf(&e))
	}
	return out, nil
}

// errNoDump answers what needs a fabric.
var errNoDump = api.Refused("OpenSM has not written a usable dump yet: there is nothing to plan")

// Reroute has everything done again and waits until it is.
func (b *Backend) Reroute(ctx context.Context) (out api.Change, err error) {
	defer func() { b.Ordered(ctx, "reroute", out.Text, err) }()
	if err := b.Loop.MayLead(); err != nil {
		return api.Change{}, err
	}
	if b.Board.Latest() == nil {
		return api.Change{}, errNoDump
	}
	before := b.Board.EpochNumber()
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

// change says what became of the epoch.
func (b *Backend) change(before uint64, text string) api.Change {
	now := b.Board.EpochNumber()
	if now == before {
		text += "; the plan in force is still the right one"
	}
	return api.Change{Epoch: now, Changed: now != before, Text: text}
}

// WhatIf plans the fabric as it would be, and what remains of an exchange on it.
// Cables that are held back stay so.
func (b *Backend) WhatIf(ctx context.Context, q api.WhatIf) (*api.Forecast, error) {
	v := b.Board.Latest()
	if v == nil {
		return nil, errNoDump
	}
	if v.Kind == controller.OwnRoutes {
		return nil, v.NoTree("what OpenSM would route after a failure cannot be foretold")
	}
	leave, err := b.Workers.Questions(ctx).Enter() // to prepare the question takes time, too
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
	would, err := view.New(f, v.Tree.Baseline, b.Settings.Now().Planning.Exclude)
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	held := b.Board.HeldBack()
	ask := aside.Question{Tree: would.Held(held), Settings: aside.Settings(b.Planning), Epoch: b.Board.EpochNumber()}
	if q.Done != nil && ask.Tree.Pods != nil {
		return nil, api.Refused("what remains of an exchange is planned on fat trees of two levels alone")
	}
	if q.Done != nil {
		if err := b.remaining(&ask, q); err != nil {
			return nil, err
		}
	}
	forecast, err := aside.Forecast(ctx, b.Workers.Questions(ctx), &ask)
	if err != nil {
		return nil, err
	}
	for _, c := range topology.Diff(v.Fabric, f) {
		forecast.What = append(forecast.What, c.Text)
	}
	return forecast, nil
}

// remaining adds to a question what remains of an exchange.
func (b *Backend) remaining(ask *aside.Question, q api.WhatIf) error {
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
	// The plan for the fabric as it is may be run at once.
	if len(q.Fail) == 0 {
		ask.Tables = b.Desk.Possible()
		if slices.Contains(ask.Tables, nil) {
			return api.Refused("the tables in force are not known yet: ask again when they have been read back")
		}
	}
	return nil
}

// running returns the plan of an exchange under way, by its epoch; 0 is the one in force.
func (b *Backend) running(n uint64) (*phasetable.View, error) {
	e := b.Board.Current()
	if n != 0 && (e == nil || e.Epoch != n) {
		kept, err := b.Store.LoadEpoch(n)
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

// runningJob returns the same for a job, with its servers.
func (b *Backend) runningJob(q api.WhatIf) ([]topology.GUID, *phasetable.View, error) {
	j, err := b.Jobs.Find(q.Job)
	if err != nil {
		return nil, nil, err
	}
	if q.Epoch == 0 || q.Epoch == j.Epoch {
		return j.Guids(), j.Plan, nil
	}
	old, err := b.Store.LoadJob(j.ID, q.Epoch)
	if err != nil {
		return nil, nil, api.BadRequest("epoch %d of %s: its plan in force and the one before are kept: %v", q.Epoch, j.Label(), err)
	}
	return j.Guids(), old.Plan, nil
}

// Rollback publishes an old plan again, if it holds on the fabric as it is.
func (b *Backend) Rollback(ctx context.Context, n uint64) (out api.Change, err error) {
	defer func() { b.Ordered(ctx, fmt.Sprintf("rollback to epoch %d", n), out.Text, err) }()
	before := b.Board.EpochNumber()
	if err := b.Loop.Rollback(ctx, n); err != nil {
		return api.Change{}, err
	}
	return b.change(before, fmt.Sprintf("the plan of epoch %d is in force again", n)), nil
}
