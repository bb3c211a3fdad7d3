package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/topology"
)

// This file does what the API asks of the loop.

// commands is the loop as requests reach it.
type commands struct{ *Daemon }

var _ backend.Loop = commands{}

// MayLead refuses what only the leading daemon may do.
func (c commands) MayLead() error { return c.mustLead() }

// Stopped is closed when the loop has ended.
func (c commands) Stopped() <-chan struct{} { return c.stopped }

// Reroute has everything done anew.
func (c commands) Reroute(ctx context.Context) (done <-chan struct{}, err error) {
	err = c.call(ctx, func() {
		done = c.board.NextRest() // as of the order: what settles before it does not count
		c.step(c.life, controller.Reroute{})
	})
	return done, err
}

// Rollback publishes an old plan anew, if it holds on the fabric as it is.
func (c commands) Rollback(ctx context.Context, n uint64) error {
	var err error
	if cerr := c.call(ctx, func() { err = c.rollback(n) }); cerr != nil {
		return cerr
	}
	if err != nil {
		return api.Refused("epoch %d is not put in force: %v", n, err)
	}
	return nil
}

// Accept makes the fabric as it is the baseline.
func (c commands) Accept(ctx context.Context) error {
	var err error
	if cerr := c.call(ctx, func() { err = c.accept() }); cerr != nil {
		return cerr
	}
	if err != nil {
		return api.Refused("the baseline stays: %v", err)
	}
	return nil
}

// Between runs f while no action is under way.
func (c commands) Between(ctx context.Context, f func(backend.Ground)) error {
	return c.calm(ctx, func() {
		fabric, avoid := c.core.Ground()
		f(backend.Ground{Fabric: fabric, Avoid: avoid, Sweeping: c.core.State() == controller.Sweeping})
	})
}

// listen binds the API and returns what serves it.
func (d *Daemon) listen() (func(context.Context) error, error) {
	s, err := api.Listen(d.interfaces(), api.Listeners{Socket: d.cfg.API.Socket, Mode: d.cfg.API.SocketMode, TCP: d.cfg.API.Listen, Log: zap.NewStdLog(d.log)})
	if err != nil {
		return nil, err
	}
	return s.Serve, nil
}

// interfaces is what the API serves.
func (d *Daemon) interfaces() api.Config {
	return d.backend.Interfaces(backend.Answer(d.peer.desk.Answer), d.cfg.API.ReadOverTCP)
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

// accept runs between two events.
func (d *Daemon) accept() error {
	if err := d.mustLead(); err != nil {
		return err
	}
	v := d.board.Latest()
	if v == nil {
		return errors.New("OpenSM has not written a usable dump yet")
	}
	// What is under way was planned for the old numbers and would store them; what
	// is not believed is no measure for anything.
	if s := d.core.State(); d.core.Busy() || s == controller.Suspect {
		return fmt.Errorf("a change is being worked on (%s): try again when it has settled", s)
	}
	base, err := topology.NewBaseline(v.Fabric)
	if err != nil {
		return err
	}
	fresh, err := view.New(v.Fabric, base, d.cfg.Planning.Exclude)
	if err != nil {
		return err
	}
	if err := d.store.SaveBaseline(fresh.Tree.Baseline); err != nil {
		return err
	}
	d.board.TakeUp(fresh.Tree.Baseline, false, false)
	d.store.BaselineFound()
	fresh.SeenAt, fresh.Complete, fresh.Why = time.Now(), v.Complete, "the fabric was accepted as the baseline"
	d.take(d.life, fresh, true)
	return nil
}

// openSM is what the status has of OpenSM, and of what tells of its fabric.
func (d *Daemon) openSM() api.OpenSM {
	s := d.manager.Status()
	switch {
	case s.Source != "":
	case d.cfg.OpenSM.Remote():
		s.Source = api.SourceDiscovery
	case d.probe.Subscribed():
		s.Source = api.SourceSubscription
	default:
		s.Source = api.SourceFiles
	}
	return s
}
