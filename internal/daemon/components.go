package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/cables"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/delivery/desk"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/history"
	"github.com/forsd/forsd/internal/linkstate/probe"
	"github.com/forsd/forsd/internal/manager"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/standby/replica"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/internal/webhook"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// components are the daemon's parts, which loop, turn, excluder and actions share. Each guards its
// own state, so every goroutine may read them. Only an action or a turn may change plans, tables and
// the store.
type components struct {
	cfg     *config.Config // as at the start; settings has the values that may change
	version string
	log     *zap.Logger
	started time.Time
	notify  func(state string) // tells systemd

	inbox    *inbox
	settings *config.Settings
	state    *state.Shared // the state that all parts read
	history  *history.History
	health   *health.Tracker
	webhook  *webhook.Hook
	store    *state.Store
	desk     *desk.Desk              // brings tables into the switches
	manager  *manager.Manager        // the local OpenSM
	reader   func() *opensm.Switches // of this process; opens the local port on first use
	probe    *probe.Probe            // reads switches for the link state
	cables   *cables.Tracker         // the health of the cables
	peer     *replica.Peer           // the other forsd, if there is one
	planning planner.Settings        // the planner's settings
	backend  *backend.Backend        // answers the API
	callers  *callers                // identifies those who ask
	workers  worker.Pools            // run the plans that clients request
	work     crew                    // outside the loop
}

// crew does work outside the loop.
type crew struct {
	sync.WaitGroup
	begin func(f func()) // calls f in a goroutine; nil means at once
}

// Go starts f.
func (c *crew) Go(f func()) {
	if c.begin == nil {
		c.WaitGroup.Go(f)
		return
	}
	c.Add(1)
	c.begin(func() { defer c.Done(); f() })
}

// keepEvents is how many events a subscriber can catch up on.
const keepEvents = 1024

// open creates the components and resumes from the stored state.
func open(cfg *config.Config, version string, log *zap.Logger, notify func(string)) (r *components, err error) {
	r = &components{cfg: cfg, version: version, log: log, started: time.Now(), notify: notify, inbox: newInbox(), planning: planning(cfg), workers: worker.NewPools()}
	r.settings = config.NewSettings(cfg, r.started)
	r.settings.Apply = func(ctx context.Context, next *config.Config, take func()) error {
		return r.inbox.try(ctx, func(ctx context.Context, t turn) error { return t.reconfigure(ctx, next, take) })
	}
	r.reader = sync.OnceValue(func() *opensm.Switches { return newReader(&cfg.OpenSM, log) })
	r.health = health.NewTracker(kinds(), func(w health.Warning, on bool) {
		logWarning(log, w, on)
		r.webhook.Note(w, on)
		r.state.Emit(api.KindWarning, warningEvent{w, on})
	})
	hook := &cfg.Webhook
	r.webhook = webhook.New(webhook.Settings{URL: hook.URL, Secret: hook.SecretFile, Template: hook.Template, Severity: hook.Severity, Version: version, Fabric: cfg.Fabric}, log, r.health)
	events := published.NewEvents(keepEvents, r.started)
	events.Name(cfg.Fabric)
	r.history = history.New(history.Settings{Path: filepath.Join(cfg.StateDir, "history.db"), MaxAge: cfg.History.MaxAge, MaxBytes: int64(cfg.History.MaxMB) << 20}, events.Run(), log, r.health)
	events.KeepIn(r.history)
	r.state = state.New(log, r.health, events)
	r.manager = manager.New(manager.Parts{Config: &cfg.OpenSM, Log: log, State: r.state, Finder: cfg.OpenSM.Finder(), Sweep: opensm.Sweep, Started: r.started, Watched: cfg.Watches(),
		Doubt: func() { r.inbox.tell(controller.TablesDoubted{}) }, TrapLogged: func(lid uint16, told bool) { r.probe.TrapLogged(ib.LID(lid), told) }})
	r.probe = probe.New(probe.Parts{Config: &cfg.OpenSM, Log: log, State: r.state, Manager: r.manager, Reader: r.reader})
	r.callers = openCallers(cfg, log, r.health)
	if r.peer, err = replica.Dial(cfg.Peer.Address, r.callers.credentials()); err != nil {
		return nil, err
	}
	r.peer.Desk.Claimed = r.inbox.peerClaims
	if r.store, err = state.Open(cfg, log, r.state); err != nil {
		return nil, err
	}
	r.state.Plans.Stored = func(n uint64) (*phasetable.View, error) {
		e, err := r.store.Disk.Epochs.Load(n)
		if err != nil {
			return nil, err
		}
		return e.Plan, nil
	}
	r.state.Emit(api.KindStart, api.Start{Version: version})
	damaged, err := r.store.Resume()
	if err != nil {
		return nil, errors.Join(err, r.store.Close())
	}
	if damaged != nil {
		r.health.Raise(stateDamaged, damaged.Error(), r.started)
	}
	if cfg.Watches() {
		r.desk = desk.Closed(log)
	} else {
		r.desk = desk.Open(cfg.OpenSM.LFTsFile, cfg.OpenSM.RootFile, cfg.OpenSM.TableComments, log)
	}
	r.cables = cables.New(cables.Parts{Settings: cfg.Cables.Settings, MaxCost: cfg.Cables.MaxCost, Log: log, Health: r.health, Say: r.state.Emit})
	r.backend = backend.New(backend.Parts{Version: version, Fabric: cfg.Fabric, Started: r.started, State: r.state, Store: r.store, Desk: r.desk, Log: log, Cables: r.cables,
		History: r.history, Webhook: r.webhook, OpenSM: func() api.OpenSM { return openSM(r) }, Loop: r.inbox, MayLead: r.mayLead, Workers: r.workers, Planning: r.planning, Settings: r.settings, Watches: cfg.Watches(),
		Terms: func(now time.Time) []access.Term { return terms(r, now) }})
	return r, nil
}

// planning returns the planner's settings, with a memory of plans made ahead.
func planning(c *config.Config) planner.Settings {
	p := &c.Planning
	return planner.Settings{Engine: string(p.Engine), LIDs: p.LIDs, Memory: &planner.Memory{}, MaxUnreachable: &p.MaxUnreachable, KeepPrice: &p.KeepPrice, JobLIDs: c.Jobs.BaseLIDs}
}

// listen binds the API and returns the function that serves it.
func listen(r *components) (func(context.Context) error, error) {
	s, err := server.Listen(interfaces(r), server.Listeners{Socket: r.cfg.API.Socket, Mode: r.cfg.API.SocketMode, TCP: r.cfg.API.Listen, TLS: r.cfg.API.TLS.Listen, Log: zap.NewStdLog(r.log), Note: r.callers.listening})
	if err != nil {
		return nil, err
	}
	return s.Serve, nil
}

// interfaces returns the API's configuration.
func interfaces(r *components) server.Config {
	c := r.backend.Interfaces(r.cfg.API.ReadOverTCP, r.peer.Answer)
	c.Names, c.Access = r.cfg.API.Names, r.callers.access
	return c
}

// mayLead returns an error unless this daemon leads.
func (r *components) mayLead() error {
	switch {
	case !r.state.Now().Standby:
		return nil
	case r.cfg.Watches():
		return errWatches
	case !r.peer.Exists():
		return api.Refused("another subnet manager is the master: ask the forsd beside it")
	}
	return api.Refused("another subnet manager is the master: ask the forsd beside it, at %s", r.peer.Address)
}

// newReader returns the reader of the switches. It lasts as long as the process, so that
// the local port stays open.
func newReader(c *config.OpenSM, log *zap.Logger) *opensm.Switches {
	note := func(err error) {
		if err == nil {
			log.Info("tables are read out of the switches directly")
			return
		}
		log.Info("tables are read out of the switches by a command", zap.Strings("command", c.DumpCommand), zap.NamedError("because", err))
	}
	return &opensm.Switches{Port: string(c.Umad), Command: opensm.ReadBack{Command: c.DumpCommand, Timeout: c.ReadbackTimeout}, Note: note}
}

// openSM returns the status of OpenSM and of the source of its fabric.
func openSM(r *components) api.OpenSM {
	s := r.manager.Status()
	switch {
	case s.Source != "":
	case r.cfg.OpenSM.Remote():
		s.Source = api.SourceDiscovery
	case r.probe.Subscribed():
		s.Source = api.SourceSubscription
	default:
		s.Source = api.SourceFiles
	}
	return s
}

// logWarning logs a change of a warning.
func logWarning(log *zap.Logger, w health.Warning, on bool) {
	if !on {
		log.Info("warning over", zap.String("code", w.Code))
		return
	}
	log.Warn(w.Title, zap.String("code", w.Code), zap.String("severity", string(w.Severity)), zap.String("text", w.Text))
}

// warningEvent is the event of a change of a warning.
type warningEvent struct {
	health.Warning
	Raised bool `json:"raised"`
}

// askPeer asks the other forsd the machine's questions.
func askPeer(ctx context.Context, r *components) error {
	return r.peer.Run(ctx, func(ctx context.Context, serial uint64, said *replica.Replica, err error) {
		// If f does not run, another question follows or the daemon is shutting down.
		_ = r.inbox.between(ctx, func(ctx context.Context, t turn) { t.peerSays(ctx, serial, said, err) })
	})
}
