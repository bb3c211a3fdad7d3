// Package daemon is forsd: it wires the subnet manager's files and signals, the
// planner, the store and the API to the controller, and carries out what the
// controller decides.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ilp"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/board"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/delivery/desk"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/jobs"
	"github.com/forsd/forsd/internal/linkstate"
	"github.com/forsd/forsd/internal/linkstate/probe"
	"github.com/forsd/forsd/internal/manager"
	"github.com/forsd/forsd/internal/press"
	"github.com/forsd/forsd/internal/standby"
	"github.com/forsd/forsd/internal/vault"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
	"github.com/forsd/forsd/planner"
)

// Daemon is one forsd. It does not touch signals or exit, so that tests and the
// demo can run it like any other value: New, Run until the context ends.
type Daemon struct {
	cfg     *config.Config
	version string
	log     *zap.Logger
	started time.Time
	notify  func(state string) // tells systemd

	core    *controller.Controller // owned by loop
	store   *vault.Vault
	reader  func() *opensm.Switches // the one of this process; it opens the local port when it is first used
	health  *health.Tracker
	backend *backend.Backend // answers the API
	press   *press.Press
	desk    *desk.Desk
	manager *manager.Manager // the OpenSM next door
	probe   *probe.Probe     // reads switches for the link state
	peer    *peer            // the other forsd, if there is one, and which of the two leads

	pluginEvents chan plugin.Event
	pluginAsks   chan asked

	links *linkstate.Links // owned by the loop

	snapshots chan opensm.Snapshot
	answers   chan controller.Event
	calls     chan func()
	giveUp    context.CancelFunc // ends the read-back or the planning of the action under way; owned by loop
	waiting   []func()           // calls that run when no action is under way; owned by loop
	stopped   chan struct{}      // closed when the loop ends
	work      sync.WaitGroup     // actions under way
	life      context.Context    // of Run; for what an API request starts and does not end with it

	workers *worker.Pool // plans what others ask for

	board *board.Board // what everybody reads

	jobs *jobs.Registry
}

// keepEvents is how many events a subscriber can catch up on.
const keepEvents = 1024

// New prepares a daemon: it takes the state directory for itself, takes up the
// epoch in force, and installs an empty table file where none exists, without
// which OpenSM's first start would not come to an end. Run gives the directory
// up at its end.
func New(cfg *config.Config, version string, log *zap.Logger, notify func(string)) (*Daemon, error) {
	if cfg.Planning.Engine == config.EngineILP && !ilp.Available() {
		return nil, fmt.Errorf("planning.engine is ilp: %w", ilp.ErrNotBuiltIn)
	}
	cfg = untouched(cfg)
	d := &Daemon{cfg: cfg, version: version, log: log, started: time.Now(), notify: notify,
		core:      controller.New(controllerSettings(cfg)),
		snapshots: make(chan opensm.Snapshot, 1), answers: make(chan controller.Event), calls: make(chan func()), stopped: make(chan struct{}),
		pluginEvents: make(chan plugin.Event, eventsAhead), pluginAsks: make(chan asked),
		links: linkstate.New(probe.Settings(&cfg.OpenSM)), giveUp: func() {}}
	d.workers = worker.NewPool(worker.Defaults())
	d.reader = sync.OnceValue(d.newReader)
	d.health = health.NewTracker(append(warnables, opensm.Kinds()...), d.warned)
	d.board = board.New(log, d.health, api.NewEvents(keepEvents, d.started), func() { d.peer.desk.Ring() })
	d.manager = manager.New(manager.Parts{Config: &cfg.OpenSM, Log: log, Board: d.board, Finder: finder(&cfg.OpenSM), Started: d.started, Watched: d.watches(),
		Doubt: func() { d.tell(controller.TablesDoubted{}) }})
	d.probe = probe.New(probe.Parts{Config: &cfg.OpenSM, Log: log, Board: d.board, Manager: d.manager, Reader: d.reader})
	var err error
	if d.peer, err = newPeer(cfg.Peer); err != nil {
		return nil, err
	}
	d.peer.desk.State = d.showPeer
	d.jobs = &jobs.Registry{Log: log, Board: d.board}
	if d.store, err = vault.Open(cfg, log, d.board, d.jobs.Stored); err != nil {
		return nil, err
	}
	d.jobs.Store = d.store
	if err := d.takeUp(); err != nil {
		return nil, errors.Join(err, d.store.Close())
	}
	d.backend = backend.New(backend.Parts{Version: version, Started: d.started, Board: d.board, Store: d.store, Desk: d.desk, Jobs: d.jobs,
		OpenSM: d.openSM, Loop: commands{d}, Workers: d.workers, Planning: d.press.Planning, Exclude: cfg.Planning.Exclude, Watches: d.watches()})
	return d, nil
}

// takeUp goes on from what is stored.
func (d *Daemon) takeUp() (err error) {
	base, lost := d.store.Baseline()
	gone := base == nil && lost != nil
	d.board.TakeUp(base, lost != nil && !gone, gone) // a copy goes where it belongs with the next plan
	if gone {
		d.health.Raise(vault.BaselineLost, lost.Error()+"; the fabric as it is takes its place, in memory alone: bring the file back and restart forsd, or run forsctl baseline accept", d.started)
		lost = nil
	}
	current, damaged := d.store.Current()
	reissue := d.store.Passed() > d.store.Last() && (current == nil || current.RollbackOf == 0) // what a rollback chose stays
	// Where a later epoch was in force, or may have been, this one may use what has died
	// since: nobody gets it before it is verified and published anew.
	if current != nil && damaged == nil && !reissue {
		if err := d.board.SetCurrent(current); err != nil {
			return err
		}
	}
	skipped, err := d.jobs.TakeUp(reissue)
	if err != nil {
		return err
	}
	if damaged = errors.Join(lost, damaged, skipped, d.store.Broken()); damaged != nil {
		d.health.Raise(stateDamaged, damaged.Error(), d.started)
	}
	d.store.ShowDurability()
	if d.watches() {
		d.desk = desk.Closed(d.log)
	} else if d.desk, err = desk.Open(d.cfg.OpenSM.LFTsFile, d.cfg.OpenSM.TableComments, d.log); err != nil {
		d.log.Error("the first table file could not be made", zap.Error(err)) // so cannot the next, which is a warning
	}
	d.press = press.New(press.Parts{Log: d.log, Board: d.board, Store: d.store, Desk: d.desk, Jobs: d.jobs, Planning: planning(&d.cfg.Planning), KeepEpochs: d.cfg.KeepEpochs, Paired: d.peer.is()}, reissue)
	if d.desk.Fresh() {
		d.log.Info("installed an empty table file", zap.String("path", d.cfg.OpenSM.LFTsFile))
	}
	return nil
}

func controllerSettings(c *config.Config) controller.Settings {
	return controller.Settings{
		SweepTimeout: c.OpenSM.SweepTimeout, RetryFirst: c.Retry.First, RetryMax: c.Retry.Max,
		HoldDown: c.Damping.HoldDown, HoldDownMax: c.Damping.MaxHoldDown, Flaps: c.Damping.Flaps, FlapWindow: c.Damping.Window,
		MaxLoss: c.Safety.MaxLoss, Confirm: c.Safety.Confirm, Audit: time.Minute,
	}
}

// planning is how plans are made, with a memory of plans made ahead.
func planning(c *config.Planning) planner.Settings {
	return planner.Settings{Engine: string(c.Engine), LIDs: c.LIDs, Memory: &planner.Memory{}, MaxUnreachable: &c.MaxUnreachable}
}

func finder(c *config.OpenSM) opensm.Finder {
	if c.PIDFile != "" {
		return opensm.PIDFile{Path: c.PIDFile}
	}
	return opensm.FirstOf{opensm.Unit{Pattern: c.Unit}, opensm.Search{}}
}

// endWithin is how long Run waits at its end for what is under way. All of it ends with
// its context but calls that cannot be broken off: into the disk, and into libraries.
// A crash loses nothing, and neither does an end amid these.
const endWithin = 800 * time.Millisecond

// Run works until ctx ends or the API cannot be served, and no longer than endWithin
// after that. The state directory stays its own where something is under way still.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.life = ctx
	var group sync.WaitGroup
	run := func(name string, f func(context.Context) error) {
		group.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	server, err := d.listen()
	if err != nil {
		return errors.Join(err, d.store.Close())
	}
	forPlugin, err := d.manager.Listen(d.pluginEvent, d.tablesAsked)
	if err != nil {
		return errors.Join(err, d.store.Close())
	}
	if d.watches() {
		d.log.Info("forsd only watches: it writes no tables and does not signal OpenSM")
		d.step(ctx, controller.Mastership{Master: false})
	} else {
		d.stand(ctx, standby.Start{})
	}
	if d.peer.is() {
		run("ask the other forsd", d.askPeer)
	}
	if !d.cfg.OpenSM.Remote() {
		d.manager.Look(ctx)
		d.wakeManager(ctx)
		run("watch OpenSM's files", func(ctx context.Context) error {
			return d.manager.WatchDumps(ctx, func(s opensm.Snapshot) { d.dumped(ctx, s) })
		})
		run("watch OpenSM", d.manager.Watch)
		run("follow OpenSM's log", d.manager.FollowLog)
	}
	run("api", server)
	run("take traps", d.probe.WatchTraps)
	if forPlugin != nil {
		run("serve OpenSM's plugin", forPlugin)
	}
	d.log.Info("started", zap.String("version", d.version), zap.String("state_dir", d.cfg.StateDir), zap.Uint64("epoch", d.board.EpochNumber()))
	// Others may be started: the API answers. Plans come when OpenSM has brought the subnet up.
	d.notify("READY=1\nSTATUS=no plan is in force yet")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.loop(ctx)
		close(d.stopped)
		d.work.Wait()
		d.store.RestoreAt = time.Time{}
		d.store.Restore(time.Now())
		if err := d.desk.Settle(); err != nil {
			d.log.Error("OpenSM has the tables, but the file that it loads without forsd has not", zap.Error(err))
		}
		group.Wait()
	}()
	<-ctx.Done()
	err = context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	select {
	case <-ended:
		return errors.Join(err, d.store.Close())
	case <-time.After(endWithin):
		d.log.Warn("forsd ends amid its work, as a crash would: the disk or a library does not answer", zap.Duration("waited", endWithin))
		return err
	}
}

// wakeManager has an OpenSM sweep that may have failed for want of the table file which
// was installed just now: by itself it tries again after its sweep interval only.
func (d *Daemon) wakeManager(ctx context.Context) {
	if !d.desk.Fresh() || !d.manager.Running() {
		return
	}
	if err := d.signal(ctx); err != nil {
		d.log.Info("OpenSM was not told of the table file", zap.Error(err))
	}
}

// settled notes that plan and tables in force fit the fabric.
func (d *Daemon) settled(ctx context.Context, a controller.Settled) {
	marks, planned := d.board.Settled()
	if planned && !a.Planless {
		d.nowReady()
		d.notify(fmt.Sprintf("STATUS=epoch %d is in force", d.board.EpochNumber()))
	}
	if v, held := d.board.Latest(), d.board.HeldBack(); v != nil && v.Tree != nil {
		d.work.Go(func() { d.press.PrepareAhead(ctx, v, held) })
	}
	if marks.Settled {
		d.log.Info("settled again", zap.String("fabric", a.Fabric), zap.Uint64("epoch", d.board.EpochNumber()))
		return
	}
	d.backend.Metrics.Observe(marks)
	d.log.Info("settled", zap.String("fabric", a.Fabric), zap.Uint64("epoch", d.board.EpochNumber()), zap.Strings("what", marks.What),
		zap.Duration("to_plan", marks.Since(marks.Verified)), zap.Duration("to_publish", marks.Since(marks.Published)),
		zap.Duration("to_tables", marks.Since(marks.ReadBack)))
}

// nowReady notes that a verified plan is in force.
func (d *Daemon) nowReady() {
	if d.board.GetReady() {
		d.log.Info("ready", zap.Uint64("epoch", d.board.EpochNumber()))
	}
}

// warned logs and publishes what the health tracker says.
func (d *Daemon) warned(w health.Warning, on bool) {
	if !on {
		d.log.Info("warning over", zap.String("code", w.Code))
	} else {
		d.log.Warn(w.Title, zap.String("code", w.Code), zap.String("severity", string(w.Severity)), zap.String("text", w.Text))
	}
	d.board.Say(api.KindWarning, struct {
		health.Warning
		Raised bool `json:"raised"`
	}{w, on})
}
