package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/aside"
	"github.com/forsd/forsd/internal/board"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// backend answers the API.
type backend struct{ *Daemon }

// Status is the daemon's state now.
func (b backend) Status() api.Status {
	now := time.Now()
	warnings := b.health.List(now)
	match, readAt := b.tablesMatch()
	s := b.board.Status()
	s.Version, s.Started, s.Warnings = b.version, b.started, warnings
	b.mu.Lock()
	defer b.mu.Unlock()
	s.OpenSM.Running, s.OpenSM.TablesMatch, s.OpenSM.ReadBackAt = b.manager.running, match, readAt
	if b.manager.running {
		s.OpenSM.PID, s.OpenSM.RoutingEngine, s.OpenSM.TablesFile = b.manager.process.PID, b.manager.settings.RoutingEngine, b.manager.settings.LFTsFile
	}
	s.OpenSM.Source = b.source()
	if l := &b.link; l.connected {
		s.OpenSM.Plugin = &api.Plugin{Since: l.since, Version: l.peer.Version, State: l.state.String(), DeadlineMS: float64(l.peer.Deadline.Microseconds()) / 1e3}
	}
	return s
}

// source is what tells of the fabric now. The caller holds mu.
func (d *Daemon) source() string {
	switch {
	case d.link.connected:
		return api.SourcePlugin
	case d.remote():
		return api.SourceDiscovery
	case d.subscription:
		return api.SourceSubscription
	}
	return api.SourceFiles
}

// Topology is the fabric as last seen.
func (b backend) Topology() *api.Topology {
	v := b.board.Latest()
	if v == nil {
		return nil
	}
	if v.Kind == controller.OwnRoutes {
		return v.Topology()
	}
	held := b.board.HeldBack()
	t := api.NewTopology(v.Held(held), v.Complete)
	t.Kind = v.Kind.String()
	return t
}

// Epochs lists the epochs that are kept.
func (b backend) Epochs() ([]api.Epoch, error) {
	out := []api.Epoch{}
	for _, e := range b.store.Epochs() {
		out = append(out, board.SummaryOf(&e))
	}
	return out, nil
}

// Reroute has everything done anew and waits until it is.
func (b backend) Reroute(ctx context.Context) (api.Change, error) {
	if err := b.mustLead(); err != nil {
		return api.Change{}, err
	}
	if b.board.Latest() == nil {
		return api.Change{}, api.Refused("OpenSM has not written a usable dump yet: there is nothing to plan")
	}
	before := b.board.EpochNumber()
	var rest <-chan struct{} // as of the order: what settles before it does not count
	err := b.call(ctx, func() {
		rest = b.board.NextRest()
		b.step(b.life, controller.Reroute{})
	})
	if err != nil {
		return api.Change{}, err
	}
	select {
	case <-rest:
	case <-b.stopped:
		return api.Change{}, errStopping
	case <-ctx.Done():
		return api.Change{}, fmt.Errorf("the reroute is under way and has not settled: %w", ctx.Err())
	}
	return b.change(before, "planned, programmed and read back anew"), nil
}

// change says what became of the epoch.
func (b backend) change(before uint64, text string) api.Change {
	now := b.board.EpochNumber()
	if now == before {
		text += "; the plan in force is still the right one"
	}
	return api.Change{Epoch: now, Changed: now != before, Text: text}
}

// WhatIf plans the fabric as it would be, and what remains of an exchange on it.
// Cables that are held back stay so.
func (b backend) WhatIf(ctx context.Context, q api.WhatIf) (*api.Forecast, error) {
	v := b.board.Latest()
	if v == nil {
		return nil, api.Refused("OpenSM has not written a usable dump yet: there is nothing to plan")
	}
	if v.Kind == controller.OwnRoutes {
		return nil, v.NoTree("what OpenSM would route after a failure cannot be foretold")
	}
	f := v.Fabric.Clone()
	for _, spec := range q.Fail {
		if _, err := f.Fail(spec); err != nil {
			return nil, api.BadRequest("fail %s: %v", spec, err)
		}
	}
	tree, err := topology.Fit(f, v.Tree.Baseline, b.cfg.Planning.Exclude)
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	held := b.board.HeldBack()
	tree = (&view.View{Tree: tree}).Held(held)
	ask := aside.Question{Tree: tree, Settings: aside.Settings(b.press.Planning), Epoch: b.board.EpochNumber()}
	if q.Done != nil {
		if err := b.remaining(&ask, q); err != nil {
			return nil, err
		}
	}
	forecast, err := aside.Forecast(ctx, b.workers, &ask)
	if err != nil {
		return nil, err
	}
	for _, c := range topology.Diff(v.Fabric, f) {
		forecast.What = append(forecast.What, c.Text)
	}
	return forecast, nil
}

// remaining adds to a question what remains of an exchange.
func (b backend) remaining(ask *aside.Question, q api.WhatIf) error {
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
		ask.Tables = b.desk.Possible()
		if slices.Contains(ask.Tables, nil) {
			return api.Refused("the tables in force are not known yet: ask again when they have been read back")
		}
	}
	return nil
}

// running is the plan of an exchange under way, by its epoch; 0 is the one in force.
func (b backend) running(n uint64) (*phasetable.View, error) {
	e := b.board.Current()
	if n != 0 && (e == nil || e.Epoch != n) {
		kept, err := b.store.LoadEpoch(n)
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

// runningJob is the same for a job, with its servers.
func (b backend) runningJob(q api.WhatIf) ([]topology.GUID, *phasetable.View, error) {
	j, err := b.jobs.Find(q.Job)
	if err != nil {
		return nil, nil, err
	}
	if q.Epoch == 0 || q.Epoch == j.Epoch {
		return j.Guids(), j.Plan, nil
	}
	old, err := b.store.LoadJob(j.ID, q.Epoch)
	if err != nil {
		return nil, nil, api.BadRequest("epoch %d of %s: its plan in force and the one before are kept: %v", q.Epoch, j.Label(), err)
	}
	return j.Guids(), old.Plan, nil
}

// Rollback publishes an old plan anew, if it holds on the fabric as it is.
func (b backend) Rollback(ctx context.Context, n uint64) (api.Change, error) {
	before := b.board.EpochNumber()
	var err error
	if cerr := b.call(ctx, func() { err = b.rollback(n) }); cerr != nil {
		return api.Change{}, cerr
	}
	if err != nil {
		return api.Change{}, api.Refused("epoch %d is not put in force: %v", n, err)
	}
	return b.change(before, fmt.Sprintf("the plan of epoch %d is in force again", n)), nil
}

// rollback runs between two events.
func (d *Daemon) rollback(n uint64) error {
	if err := d.mustLead(); err != nil {
		return err
	}
	if s := d.core.State(); s != controller.Idle {
		return fmt.Errorf("a change is being worked on (%s): try again when it has settled", s)
	}
	v, tables := d.board.Latest(), d.desk.InSwitches()
	if fabric, _ := d.core.Ground(); v == nil || tables == nil || v.Kind == controller.OwnRoutes && v.ID != fabric {
		return fmt.Errorf("the tables in force are not known yet")
	}
	old, err := d.store.LoadEpoch(n)
	if err != nil {
		return err
	}
	if err := v.Carries(tables, old.Plan, d.core.Held()); err != nil {
		return err
	}
	table := old.Plan.Table()
	table.Epoch, table.TopologyHash = d.store.Next(), v.Fabric.Hash()
	report := old.Report
	report.TopologyHash = table.TopologyHash
	e, err := store.NewEpoch(table)
	if err != nil {
		return err
	}
	return d.press.Put(e, store.EpochInfo{Fabric: v.ID, What: []string{fmt.Sprintf("rollback to epoch %d", n)}, RollbackOf: n, Report: report, Warnings: old.Warnings})
}
