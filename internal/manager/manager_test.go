package manager

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/internal/state"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
)

// finder returns a process, or none.
type finder struct {
	process opensm.Process
	err     error
}

func (f *finder) Find(context.Context) (opensm.Process, error) { return f.process, f.err }

// newManager returns a manager without data, its finder, and a channel that counts its calls of
// Doubt.
func newManager(t *testing.T) (*Manager, *finder, chan struct{}) {
	t.Helper()
	var kinds []health.Warnable
	for _, code := range []string{Absent, LogUnreadable, PluginMissing, PluginDeaf} {
		kinds = append(kinds, health.Warnable{Code: code, Severity: health.Critical, Title: code})
	}
	tracker := health.NewTracker(append(kinds, opensm.Kinds()...), func(health.Warning, bool) {})
	b := state.New(zap.NewNop(), tracker, published.NewEvents(1, time.Now()))
	c := config.Default().OpenSM
	c.Conf = filepath.Join(t.TempDir(), "opensm.conf")
	c.Plugin.Socket = filepath.Join(t.TempDir(), "socket")
	f := &finder{err: opensm.ErrNotRunning}
	doubts := make(chan struct{}, 10)
	return New(Parts{Config: &c, Log: zap.NewNop(), State: b, Finder: f, Sweep: opensm.Sweep, Started: time.Now(), Doubt: func() { doubts <- struct{}{} }}), f, doubts
}

func (m *Manager) raised(code string) bool {
	return slices.ContainsFunc(m.State.Health.List(time.Now().Add(time.Hour)), func(w health.Warning) bool { return w.Code == code })
}

// TestToldTwice checks that OpenSM's log does not raise a warning again that the plugin has
// reported.
func TestToldTwice(t *testing.T) {
	m, _, doubts := newManager(t)
	fallback := opensm.LogEvent{Kind: opensm.EngineUsed, Engine: "minhop", Text: "minhop tables configured on all switches"}
	if !fallback.Fallback() {
		t.Fatal("that is a fallback")
	}
	m.PluginCame(plugin.Connected{})
	if m.Logged(fallback); m.raised(opensm.EngineFallback) {
		t.Error("the log raises a fallback beside the plugin")
	}
	m.PluginLeft(plugin.Disconnected{})
	if m.Logged(fallback); !m.raised(opensm.EngineFallback) {
		t.Error("the log raises no fallback without the plugin")
	}
	<-doubts // in both cases the switches hold other tables than forsd's
	<-doubts
}

// TestLook checks that an absent, new, unchanged and replaced OpenSM is detected.
func TestLook(t *testing.T) {
	m, f, doubts := newManager(t)
	m.Look(t.Context())
	if !m.raised(Absent) || m.known().running || m.Status().Running {
		t.Error("no warning tells that OpenSM is absent")
	}
	own, err := opensm.Inspect(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	f.process, f.err = own, nil
	m.Look(t.Context())
	if <-doubts; m.raised(Absent) || !m.known().running || m.Status().PID != own.PID {
		t.Errorf("OpenSM is there, and the status says %+v", m.Status())
	}
	if m.raised(opensm.SettingsUnseen) {
		t.Error("every installation has a warning of an environment that is root's") // doctor reports it
	}
	m.Look(t.Context())
	if len(doubts) != 0 {
		t.Error("the same process counts as a new one")
	}
	f.err = errors.New("systemd does not answer")
	m.Look(t.Context())
	if m.raised(Absent) || !m.known().running {
		t.Error("a process that lives is looked for before its time")
	}
	m.now.asked = m.now.asked.Add(-findEvery)
	m.Look(t.Context())
	if !m.raised(Absent) || m.known().running {
		t.Error("no warning tells that OpenSM cannot be found")
	}
	f.err = nil
	m.Look(t.Context())
	<-doubts // it may have been restarted
}

// TestSignalFinds checks that the warning of an absent OpenSM also ends if a signal finds its
// process.
func TestSignalFinds(t *testing.T) {
	m, f, _ := newManager(t)
	m.Look(t.Context())
	child := exec.CommandContext(t.Context(), "sh", "-c", "trap '' HUP; echo; exec sleep 60")
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1)) // now it ignores the signal
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	f.process, err = opensm.Inspect(child.Process.Pid)
	if f.err = err; err != nil {
		t.Fatal(err)
	}
	if err := m.Signal(t.Context()); err != nil || !m.known().running || m.raised(Absent) {
		t.Errorf("signalled: %v, running: %v, and the warning is in force: %v", err, m.known().running, m.raised(Absent))
	}
}

// TestBringsTraps checks how long the manager waits for the plugin, and for its return.
func TestBringsTraps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, _ := newManager(t)
		brings := func(when string, want bool) {
			t.Helper()
			if got := m.BringsTraps(); got != want {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		brings("switched off", false)
		m.server = &plugin.Server{}
		brings("at the start", true)
		time.Sleep(pluginPatience + time.Second)
		brings("it does not come", false)
		m.PluginCame(plugin.Connected{At: time.Now()})
		time.Sleep(time.Hour)
		brings("connected", true)
		m.PluginLeft(plugin.Disconnected{At: time.Now()})
		brings("just gone", true)
		time.Sleep(pluginPatience + time.Second)
		brings("gone", false)
	})
}

// TestPluginMissing checks the warnings about a missing plugin, and about a socket that cannot
// be listened on.
func TestPluginMissing(t *testing.T) {
	m, _, _ := newManager(t)
	listen := func() (func(context.Context) error, error) {
		return m.Listen(func(plugin.Event) {}, func(context.Context, plugin.Request) (*lft.Tables, error) { return nil, nil })
	}
	serve, err := listen()
	if err != nil || serve == nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		how    config.Enabled
		loaded bool
		want   bool
	}{{config.EnabledAuto, false, false}, {config.EnabledAuto, true, true}, {config.EnabledOn, false, true}} {
		m.Config.Plugin.Enabled = c.how
		if m.missPlugin(c.loaded); m.raised(PluginMissing) != c.want {
			t.Errorf("%s, loaded %v: warned %v", c.how, c.loaded, !c.want)
		}
	}
	if m.PluginCame(plugin.Connected{}); m.raised(PluginMissing) {
		t.Error("the warning stays")
	}

	deaf, _, _ := newManager(t)
	deaf.Config.Plugin.Socket = filepath.Join(t.TempDir(), "no", "such", "folder")
	m = deaf
	if serve, err := listen(); serve != nil || err != nil || !m.raised(PluginDeaf) {
		t.Errorf("a socket that cannot be: %v", err)
	}
	m.Config.Plugin.Enabled = config.EnabledOn
	if _, err := listen(); err == nil {
		t.Error("a socket that must be, and cannot, is passed over")
	}
	m.Config.Plugin.Enabled = config.EnabledOff
	if serve, err := listen(); serve != nil || err != nil {
		t.Errorf("switched off: %v", err)
	}
	if err := m.Resweep(); !errors.Is(err, plugin.ErrNotConnected) {
		t.Errorf("a sweep by no plugin: %v", err)
	}
}

// TestSettingsInUse takes paths and the LMC of OpenSM's settings, unless forsd's own name others.
func TestSettingsInUse(t *testing.T) {
	m, _, _ := newManager(t)
	names := filepath.Join(t.TempDir(), "names")
	if err := os.WriteFile(names, []byte("0x200000 \"a leaf\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m.logPath() != opensm.DefaultLog || m.FallsBack() {
		t.Errorf("without settings: %s", m.logPath())
	}
	m.now.running, m.now.settings = true, opensm.Settings{LogFile: "/log", LMC: 3, NodeNames: names, RoutingEngine: "file,updn"}
	if m.logPath() != "/log" || m.lmc() != 3 || len(m.NodeNames()) != 1 || !m.FallsBack() {
		t.Errorf("log %s, LMC %d, names %v", m.logPath(), m.lmc(), m.NodeNames())
	}
	m.Config.Log, m.Config.LMC = "/other", 1
	m.now.settings.NodeNames = names + "x"
	if m.logPath() != "/other" || m.lmc() != 1 || m.NodeNames() != nil {
		t.Errorf("log %s, LMC %d, names %v", m.logPath(), m.lmc(), m.NodeNames())
	}
	m.PluginCame(plugin.Connected{Peer: plugin.Peer{Deadline: time.Second}})
	m.SetState(plugin.Master)
	if m.FallsBack() || m.Deadline() != time.Second || m.Status().Plugin.State != plugin.Master.String() {
		t.Errorf("with the plugin: %+v", m.Status())
	}
}

// TestFollowLog warns of a log that cannot be read.
func TestFollowLog(t *testing.T) {
	m, _, _ := newManager(t)
	m.Config.Log = t.TempDir()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.FollowLog(ctx) }()
	for range 100 {
		if m.raised(LogUnreadable) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if !m.raised(LogUnreadable) {
		t.Error("no warning tells of a log that is a folder")
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestWithdraw leaves the table file where OpenSM makes no tables of its own, and takes it away where
// it does.
func TestWithdraw(t *testing.T) {
	m, f, _ := newManager(t)
	c := *m.Config
	c.LFTsFile, c.DumpDir = filepath.Join(t.TempDir(), "lfts.dump"), t.TempDir()
	for engine, stays := range map[string]bool{"file,no_fallback": true, "file,updn": false} {
		if err := errors.Join(os.WriteFile(c.LFTsFile, nil, 0o600), os.WriteFile(c.Conf, []byte("routing_engine "+engine+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		err := Withdraw(t.Context(), &c, f)
		if _, there := os.Stat(c.LFTsFile); (err != nil) != stays || (there == nil) != stays {
			t.Errorf("%s: %v, %v", engine, err, there)
		}
	}
}
