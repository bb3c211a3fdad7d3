// Package daemon is forsd. It connects the components (internal/manager, internal/plans,
// internal/state and so on) to the state machines that decide, which are the controller,
// the link state and the standby, and carries out their actions.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ilp"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/linkstate/probe"
	"github.com/forsd/forsd/internal/plans"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/opensm"
)

// Daemon is one forsd. It does not handle signals or exit the process, so tests and the
// demo can run it like any other value: call New, then Run until the context ends.
type Daemon struct {
	*loop
	closing sync.WaitGroup // all that Run started, which may outlast it
}

// New returns a daemon that has locked the state directory and has resumed from the epoch
// in force. Run releases the directory at its end.
func New(cfg *config.Config, version string, log *zap.Logger, notify func(string)) (*Daemon, error) {
	if cfg.Planning.Engine == config.EngineILP && !ilp.Available() {
		return nil, fmt.Errorf("planning.engine is ilp: %w", ilp.ErrNotBuiltIn)
	}
	if cfg.Watches() { // it sends nothing to OpenSM or its fabric, except questions to switches
		c := *cfg
		c.OpenSM.Plugin.Enabled, c.OpenSM.Traps, c.OpenSM.InstallCommand = config.EnabledOff, config.TrapsOff, nil
		cfg = &c
	}
	r, err := open(cfg, version, log, notify)
	if err != nil {
		return nil, err
	}
	x := &actions{components: r, plans: plans.NewPublisher(plans.Parts{Log: log, State: r.state, Store: r.store, Desk: r.desk, Planning: r.planning, Paired: r.peer.Exists()})}
	l := &loop{components: r, core: controller.New(controllerSettings(cfg)), links: linkstate.New(probe.Settings(&cfg.OpenSM)), actions: x,
		standby: standby.New(standby.Settings{Peer: cfg.Peer.Address, TakeoverWait: cfg.Peer.Timeout, Salt: rand.Uint32()}), giveUp: func() {}}
	l.excluder = &excluder{components: r, loop: l, costs: cables.Costs{Workers: r.workers.Orders, Planning: r.planning},
		drains: exclusions.NewDrains(exclusions.DrainSettings{Grace: cfg.Drains.Grace, Look: drainLook})}
	l.excluder.resume(false)
	return &Daemon{loop: l}, nil
}

func controllerSettings(c *config.Config) controller.Settings {
	return controller.Settings{
		SweepTimeout: c.OpenSM.SweepTimeout, RetryFirst: c.Retry.First, RetryMax: c.Retry.Max,
		HoldDown: c.Damping.HoldDown, HoldDownMax: c.Damping.MaxHoldDown, Flaps: c.Damping.Flaps, FlapWindow: c.Damping.Window,
		MaxLoss: c.Safety.MaxLoss, Confirm: c.Safety.Confirm, Audit: time.Minute,
	}
}

// endWithin is how long Run waits at its end for work under way. All work ends with its
// context, except calls into the disk and into libraries, which cannot be interrupted. A
// crash loses nothing, so ending during such a call is safe.
const endWithin = 800 * time.Millisecond

// Run works until ctx ends or the API cannot be served, and at most endWithin longer. If
// work is still under way then, the state directory stays locked.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	run := func(name string, f func(context.Context) error) {
		group.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	keep, stopKeeping := context.WithCancel(context.WithoutCancel(ctx)) // the history ends last
	defer stopKeeping()
	server, err := listen(d.components)
	if err != nil {
		return errors.Join(err, d.store.Close())
	}
	forPlugin, err := d.manager.Listen(d.inbox.pluginEvent, d.tablesAsked)
	if err != nil {
		return errors.Join(err, d.store.Close())
	}
	if d.cfg.Watches() {
		d.log.Info("forsd only watches: it writes no tables and does not signal OpenSM")
		d.step(ctx, controller.Mastership{Master: false})
	} else {
		d.stepStandby(ctx, standby.Start{})
	}
	if d.peer.Exists() {
		run("ask the other forsd", func(ctx context.Context) error { return askPeer(ctx, d.components) })
	}
	if !d.cfg.OpenSM.Remote() {
		d.manager.Look(ctx)
		run("watch OpenSM's files", func(ctx context.Context) error {
			return d.manager.WatchDumps(ctx, func(s opensm.Snapshot) { d.inbox.dumped(ctx, s) })
		})
		run("watch OpenSM", d.manager.Watch)
		run("follow OpenSM's log", d.manager.FollowLog)
	}
	run("api", server)
	run("follow terms", func(ctx context.Context) error { return judgeTerms(ctx, d.components) })
	run("take traps", d.probe.WatchTraps)
	run("send warnings", d.webhook.Run)
	if d.cfg.Cables.Mode != cablehealth.Off {
		run("read the cables' counters", d.counters().Run)
	}
	if forPlugin != nil {
		run("serve OpenSM's plugin", forPlugin)
	}
	kept := make(chan error, 1)
	go func() { kept <- d.history.Run(keep) }()
	d.log.Info("started", zap.String("version", d.version), zap.String("state_dir", d.cfg.StateDir), zap.Uint64("epoch", d.state.Now().EpochNumber()))
	// The API answers, so dependent services may start. Plans follow when OpenSM has
	// brought the subnet up.
	d.notify("READY=1\nSTATUS=no plan is in force yet")
	ended := make(chan struct{})
	d.closing.Go(func() {
		defer close(ended)
		d.run(ctx)
		close(d.inbox.stopped)
		d.work.Wait()
		d.store.RestoreNow()
		if err := d.desk.Written(); err != nil {
			d.log.Error("the tables were delivered by the plugin, but the fallback table file could not be written", zap.Error(err))
		}
		group.Wait()
		stopKeeping()
		if err := <-kept; err != nil {
			d.log.Error("the end of the history is not stored", zap.Error(err))
		}
	})
	<-ctx.Done()
	err = context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	select {
	case <-ended:
		return errors.Join(err, d.store.Close())
	case <-time.After(endWithin):
		d.log.Warn("shutdown timed out: a disk or library call did not return", zap.Duration("waited", endWithin))
		return err
	}
}
