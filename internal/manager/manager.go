// Package manager handles the local OpenSM: its process and settings, its dumps and log, the
// connection with its plugin, and its sweeps.
package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/rights"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
	"github.com/forsd/forsd/topology"
)

// The codes of the warnings about the manager.
const (
	Absent        = "opensm-not-running"
	LogUnreadable = "opensm-log-unreadable"
	PluginMissing = "plugin-disconnected"
	PluginDeaf    = "plugin-socket-failed"
)

// findEvery is the interval for looking up a running process again, because another one may
// have replaced it in its unit or PID file.
const findEvery = time.Minute

// lookEvery is the interval between checks of the manager's process.
const lookEvery = 2 * time.Second

// logEvery is the interval for reading OpenSM's log, which reports traps that OpenSM ignores.
const logEvery = 200 * time.Millisecond

// Parts are the components that a manager uses.
type Parts struct {
	Config  *config.OpenSM
	Log     *zap.Logger
	State   *state.Shared
	Finder  opensm.Finder
	Sweep   func(context.Context, opensm.Finder) (opensm.Process, error) // makes OpenSM sweep
	Started time.Time                                                    // of forsd
	Doubt   func()                                                       // called when the switches may hold tables other than forsd's
	// TrapLogged is called when OpenSM logs that it has received a trap about a link of a
	// switch, and when it logs that it forwards the trap.
	TrapLogged func(switchLID uint16, told bool)
	Watched    bool // forsd only watches: OpenSM is not signalled, and routes by itself
}

// Manager is the local OpenSM.
type Manager struct {
	Parts
	server *plugin.Server // nil if the plugin is disabled

	mu  sync.Mutex // guards the field below
	now known
}

// known is what is known of OpenSM.
type known struct {
	process  opensm.Process
	running  bool
	asked    time.Time       // when the process was last looked for
	settings opensm.Settings // as of its start
	link     link
}

// link is the connection with the plugin.
type link struct {
	connected bool
	peer      plugin.Peer
	state     plugin.State
	since     time.Time
}

// errWatched refuses actions on an OpenSM that is only watched.
var errWatched = errors.New("forsd only watches: it does not signal OpenSM")

// New returns a manager without any data about OpenSM.
func New(parts Parts) *Manager { return &Manager{Parts: parts} }

// known returns what is known now.
func (m *Manager) known() known {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// learn changes what is known, and returns what was known before.
func (m *Manager) learn(change func(*known)) (before known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.now
	change(&m.now)
	return before
}

// Watch detects that OpenSM is absent, was restarted, or has wrong settings.
func (m *Manager) Watch(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			m.Look(ctx)
		}
	}
}

// Look finds OpenSM's process and checks its settings.
func (m *Manager) Look(ctx context.Context) {
	if k := m.known(); k.running && time.Since(k.asked) < findEvery && k.process.Lives() {
		m.found(k.process) // without asking systemd
		return
	}
	p, err := m.Finder.Find(ctx)
	m.learn(func(k *known) { k.asked = time.Now() })
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		m.learn(func(k *known) { k.running = false })
		m.missPlugin(false)
		text := err.Error()
		if errors.Is(err, opensm.ErrNotRunning) {
			text += ": run systemctl restart opensm (start does nothing after a crash); forsd carries on when it writes its dump"
		}
		m.State.Health.Raise(Absent, text, time.Now())
		return
	}
	m.found(p)
}

// found records OpenSM's process, and reads its settings if it is a new one.
func (m *Manager) found(p opensm.Process) {
	m.State.Health.Clear(Absent)
	if was := m.learn(func(k *known) { k.process, k.running = p, true }); was.running && was.process.Same(p) {
		m.missPlugin(was.settings.PluginLoaded())
		return
	}
	m.Log.Info("OpenSM is running", zap.Int("pid", p.PID), zap.Strings("command", p.Cmdline))
	settings, err := opensm.LoadSettings(&p, m.Config.Conf)
	if err != nil {
		m.Log.Warn("OpenSM's settings", zap.Error(err))
	}
	lanes := 0
	if v := m.State.Now().Latest; v != nil {
		lanes = v.LIDs()
	}
	m.learn(func(k *known) { k.settings = settings })
	var warnings []health.Finding
	for _, w := range settings.Check(m.Config.Want(lanes)) {
		if w.Code == opensm.SettingsUnseen {
			continue // on every installation the environment is another user's; a dump elsewhere is dump-missing
		}
		warnings = append(warnings, health.Finding{Code: w.Code, Text: w.Text})
	}
	if m.Watched {
		warnings = nil // a watched OpenSM has its own settings
	}
	m.State.Health.Set("opensm", warnings, time.Now())
	m.missPlugin(settings.PluginLoaded())
	go m.Doubt()
}

// WatchDumps delivers every dump of the manager.
func (m *Manager) WatchDumps(ctx context.Context, deliver func(opensm.Snapshot)) error {
	w := opensm.Watcher{Dir: m.Config.DumpDir, GUID2LID: filepath.Join(m.Config.CacheDir, opensm.GUID2LIDFile), LMC: m.lmc, Deliver: deliver,
		Report: m.report} // no report changes the epoch in force
	return w.Run(ctx)
}

// report raises a warning about an error, or clears it.
func (m *Manager) report(code string, err error) {
	if err == nil {
		m.State.Health.Clear(code)
		return
	}
	m.State.Health.Raise(code, rights.Explain(err).Error(), time.Now())
}

// lmc returns the LMC of host ports if guid2lid does not give it.
func (m *Manager) lmc() uint8 {
	if m.Config.LMC != config.AutoLMC {
		return uint8(m.Config.LMC)
	}
	return m.known().settings.LMC
}

// Resweep makes the plugin start a heavy sweep. If it cannot, the error is
// plugin.ErrNotConnected.
func (m *Manager) Resweep() error {
	if m.server == nil {
		return plugin.ErrNotConnected
	}
	return m.server.Resweep(plugin.HeavySweep)
}

// Signal makes OpenSM sweep by a signal to its process.
func (m *Manager) Signal(ctx context.Context) error {
	if m.Watched {
		return errWatched
	}
	p, err := m.Sweep(ctx, m.Finder)
	if err == nil {
		m.found(p)
	}
	return err
}

// FallsBack reports whether OpenSM, which runs on this host without the plugin connected,
// computes tables itself if the table file is missing.
func (m *Manager) FallsBack() bool {
	k := m.known()
	return k.running && !k.link.connected && !m.Watched && k.settings.FallsBack()
}

// Status returns the manager's part of the status.
func (m *Manager) Status() (s api.OpenSM) {
	k := m.known()
	if s.Running = k.running; s.Running {
		s.PID, s.RoutingEngine, s.TablesFile = k.process.PID, k.settings.RoutingEngine, k.settings.LFTsFile
	}
	if l := &k.link; l.connected {
		s.Source = api.SourcePlugin
		s.Plugin = &api.Plugin{Since: l.since, Version: l.peer.Version, State: l.state.String(), DeadlineSeconds: l.peer.Deadline.Seconds()}
	}
	return s
}

// Withdraw moves the table file away for the time after forsd ends. OpenSM would load even an
// old file; without the file it makes its own tables at its next sweep. If the last sweep left
// entries that lead to dead ports, Withdraw makes OpenSM sweep. The file stays if OpenSM does
// not make its own tables.
func Withdraw(ctx context.Context, o *config.OpenSM, finder opensm.Finder) error {
	var process *opensm.Process
	if p, err := finder.Find(ctx); err == nil {
		process = &p
	}
	settings, _ := opensm.LoadSettings(process, o.Conf)
	if !settings.FallsBack() {
		return fmt.Errorf("%s stays: with routing_engine %s OpenSM makes no tables of its own: see forsctl doctor", o.LFTsFile, settings.RoutingEngine)
	}
	stale := stale(o)
	if err := opensm.WithdrawTables(o.LFTsFile); err != nil || !stale || process == nil {
		return err
	}
	_, err := opensm.Sweep(ctx, finder)
	return err
}

// stale reports whether the table file leads to ports that are dead in OpenSM's last dump.
func stale(o *config.OpenSM) bool {
	text, err := os.ReadFile(o.LFTsFile)
	if err != nil {
		return false
	}
	tables, err := lft.ReadBytes(text)
	if err != nil {
		return false
	}
	dump, err := os.ReadFile(filepath.Join(o.DumpDir, opensm.SubnetFile))
	if err != nil {
		return false
	}
	f, err := topology.ReadSubnetLst(dump)
	return err == nil && tables.Dead(f) > 0
}

// pluginPatience is how long forsd waits for the plugin to connect, or to come back, before it
// subscribes to traps.
const pluginPatience = 3 * time.Second

// Listen binds the plugin's socket and returns its server, nil if the plugin is disabled or
// optional. Its events and questions go to the two functions.
func (m *Manager) Listen(event func(plugin.Event), tables func(context.Context, plugin.Request) (*lft.Tables, error)) (func(context.Context) error, error) {
	c := &m.Config.Plugin
	if c.Enabled == config.EnabledOff || m.Config.Remote() {
		return nil, nil
	}
	s, err := plugin.Listen(plugin.Config{Path: c.Socket, Tables: tables, Event: event,
		Complain: func(err error) { m.Log.Warn("OpenSM's plugin", zap.Error(err)) }})
	if err != nil && c.Enabled == config.EnabledAuto {
		m.State.Health.Raise(PluginDeaf, err.Error()+"; forsd works by OpenSM's files", time.Now())
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m.server = s
	return s.Serve, nil
}

// PluginCame records that the plugin is connected: from now on its reports count.
func (m *Manager) PluginCame(e plugin.Connected) {
	m.Log.Info("OpenSM's plugin is connected", zap.Int("pid", e.Peer.PID), zap.String("opensm", e.Peer.Version), zap.Duration("deadline", e.Peer.Deadline))
	m.learn(func(k *known) { k.link = link{connected: true, peer: e.Peer, since: e.At} })
	m.State.Health.Clear(PluginMissing)
}

// PluginLeft records that the plugin is disconnected: from now on the files count.
func (m *Manager) PluginLeft(e plugin.Disconnected) {
	m.Log.Info("OpenSM's plugin has gone", zap.Error(e.Err))
	m.learn(func(k *known) { k.link = link{since: e.At} })
}

// SetState records the manager's state as reported by the plugin.
func (m *Manager) SetState(s plugin.State) {
	m.learn(func(k *known) { k.link.state = s })
	m.Log.Info("OpenSM's state", zap.Stringer("state", s))
}

// PluginConnected reports whether the plugin is connected.
func (m *Manager) PluginConnected() bool { return m.known().link.connected }

// Deadline is how long OpenSM waits for tables.
func (m *Manager) Deadline() time.Duration { return m.known().link.peer.Deadline }

// BringsTraps reports whether the plugin delivers traps, or may do so soon.
func (m *Manager) BringsTraps() bool {
	l, away := m.known().link, max(time.Since(m.Started), 0)
	if !l.since.IsZero() {
		away = time.Since(l.since)
	}
	return l.connected || m.server != nil && away <= pluginPatience
}

// missPlugin warns if the plugin should be connected and is not. loaded means that OpenSM
// runs and should load it.
func (m *Manager) missPlugin(loaded bool) {
	c := &m.Config.Plugin
	if m.server == nil || m.PluginConnected() || c.Enabled == config.EnabledAuto && !loaded {
		m.State.Health.Clear(PluginMissing)
		return
	}
	m.State.Health.Raise(PluginMissing, "OpenSM's plugin has not connected to "+c.Socket+"; forsd works by OpenSM's files: see OpenSM's log for "+opensm.PluginFile+", and forsctl doctor", time.Now())
}
