package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
)

// reloads gives the daemon a configuration file with its present settings, and records
// the log level.
func (s *site) reloads(level *config.LogLevel) (write func(lines string)) {
	path := filepath.Join(s.dir, "forsd.yaml")
	write = func(lines string) {
		s.t.Helper()
		ok(s.t, os.WriteFile(path, fmt.Appendf(nil, `version: 1
state_dir: %[1]s/state
opensm:
  dump_dir: %[1]s
  cache_dir: %[1]s
  lfts_file: %[1]s/lfts.dump
  root_guid_file: %[1]s/root
  pid_file: %[1]s/opensm.pid
  dump_command: [%[2]q, %[3]q, %[4]q]
  plugin: {socket: %[1]s/p}
api: {socket: %[1]s/s}
%[5]s`, s.dir, s.cfg.OpenSM.DumpCommand[0], s.cfg.OpenSM.DumpCommand[1], s.cfg.OpenSM.DumpCommand[2], lines), 0o644))
	}
	s.Configuration(config.File{Path: path, Load: func() (*config.Config, error) { return config.Load(path) }, Level: func(l config.LogLevel) { *level = l }})
	return write
}

// TestReload lets a running forsd read changed files. A wrong file changes nothing and is
// reported with file and line, also as a warning. A correct file applies the live
// settings immediately and lists the others.
func TestReload(t *testing.T) {
	var level config.LogLevel
	s := running(t, fabric(4, 4))
	write := s.reloads(&level)
	client, err := api.Dial(s.cfg.API.Socket)
	ok(t, err)
	ask := func(dry bool) (*api.Reload, error) { return client.Reload(s.ctx, api.ReloadRequest{DryRun: dry}) }
	warned := func(code string) string { return s.warning(code) }
	first := s.state.Now().EpochNumber()

	write("planing: {exclude: Hca0003}\ndamping: {flaps: 0}\n")
	for _, dry := range []bool{true, false} {
		out, err := ask(dry)
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeRefused || out != nil {
			t.Fatalf("a wrong file: %+v, %v", out, err)
		}
		for _, text := range []string{"forsd.yaml:12: planing: is unknown: the keys here are version,", "forsd.yaml:13: damping.flaps: 0 is too few"} {
			if !strings.Contains(refused.Text, text) || !dry && !strings.Contains(warned(config.Refused), text) {
				t.Errorf("dry run %v: the answer is %q, and the warning %q; neither may lack %q", dry, refused.Text, warned(config.Refused), text)
			}
		}
		if good, _ := s.settings.Last(); good != dry || dry && warned(config.Refused) != "" {
			t.Errorf("dry run %v: the last reload was good: %v, warning %q", dry, good, warned(config.Refused))
		}
	}
	if s.settings.Now() != s.cfg || s.state.Now().EpochNumber() != first {
		t.Error("a file that is refused changes something")
	}

	write("keep_epochs: 7\nplanning: {exclude: Hca0003, engine: exact}\ndamping: {flaps: 9}\nlog: {level: debug}\n")
	want := api.Reload{File: filepath.Join(s.dir, "forsd.yaml"), Changed: []string{"planning.exclude", "damping.flaps", "log.level"}, Restart: []string{"keep_epochs", "planning.engine"}}
	for _, dry := range []bool{true, false} {
		out, err := ask(dry)
		ok(t, err)
		if fmt.Sprint(*out) != fmt.Sprint(want) {
			t.Errorf("dry run %v: %+v, want %+v", dry, *out, want)
		}
		if dry && (s.settings.Now() != s.cfg || level != "") {
			t.Error("a dry run changes something")
		}
	}
	s.settles(func(e *store.Epoch, _ *view.View) bool { return e.Epoch > first && e.Plan.Servers() == 15 })
	if now := s.settings.Now(); now.Damping.Flaps != 9 || now.KeepEpochs != s.cfg.KeepEpochs || level != config.LevelDebug {
		t.Errorf("in force are %+v, log level %q", now, level)
	}
	if text := warned(config.Waiting); warned(config.Refused) != "" || !strings.Contains(text, "keep_epochs, planning.engine: run systemctl restart forsd") {
		t.Errorf("warnings: %q, %q", warned(config.Refused), text)
	}
	if epochs, err := client.Epochs(s.ctx); err != nil || !slices.Contains(epochs[len(epochs)-1].What, "the configuration was reloaded") {
		t.Errorf("the last epoch: %+v, %v", epochs, err)
	}

	// A file that excludes all hosts is refused, too.
	write("planning: {exclude: Hca}\n")
	if _, err := ask(false); err == nil || !strings.Contains(err.Error(), "by these settings the fabric cannot be used") || s.settings.Now().Planning.Exclude.String() != "Hca0003" {
		t.Errorf("no host takes part: %v", err)
	}
	write("planning: {roles: {storage: Hca0003}}\n")
	out, err := ask(false)
	ok(t, err)
	if !slices.Equal(out.Changed, []string{"planning.exclude", "planning.roles.storage", "damping.flaps", "log.level"}) || len(out.Restart) > 0 || warned(config.Waiting) != "" {
		t.Errorf("back: %+v, warning %q", out, warned(config.Waiting))
	}
	s.settles(func(e *store.Epoch, _ *view.View) bool { return e.Plan.Servers() == 15 })
	write("")
	_, err = ask(false)
	ok(t, err)
	s.settles(func(e *store.Epoch, _ *view.View) bool { return e.Plan.Servers() == 16 })
	if again, err := ask(false); err != nil || len(again.Changed)+len(again.Restart) > 0 {
		t.Errorf("nothing differs: %+v, %v", again, err)
	}
	s.cancel()
	ok(t, <-s.ended)
}

// TestReloadWithoutFile checks that a reload is refused without a configuration file.
func TestReloadWithoutFile(t *testing.T) {
	d := newDaemon(t)
	if _, err := d.backend.Reload(t.Context(), false); err == nil || !strings.Contains(err.Error(), "was not started with a configuration file") {
		t.Errorf("%v", err)
	}
}

// TestHangup sends a forsd process the signal of systemctl reload, with a wrong file and
// with correct ones. The process stays up, and tells systemd when it begins and when it
// is ready.
func TestHangup(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	ok(t, err)
	defer conn.Close()
	hears := func(want ...string) {
		t.Helper()
		for buf := make([]byte, 4096); ; {
			ok(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
			n, err := conn.Read(buf)
			ok(t, err)
			said := string(buf[:n])
			if all := !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(said, w) }); all {
				return
			}
		}
	}
	b := besiege(t, 4, 4, "NOTIFY_SOCKET="+socket)
	hears("READY=1", "STATUS=")
	client, err := api.Dial(b.socket)
	ok(t, err)
	path := filepath.Join(filepath.Dir(b.socket), "forsd.yaml")
	good, err := os.ReadFile(path)
	ok(t, err)
	for _, c := range []struct {
		more   string
		warned string // "" if none
	}{{"nonsense: 1\n", config.Refused}, {"keep_epochs: 5\n", config.Waiting}, {"damping: {flaps: 7}\n", ""}} {
		ok(t, os.WriteFile(path, append(slices.Clone(good), c.more...), 0o644), syscall.Kill(b.pid, syscall.SIGHUP))
		hears("RELOADING=1\nMONOTONIC_USEC=")
		hears("READY=1")
		status, err := client.Status(t.Context())
		ok(t, err)
		var codes []string
		for _, w := range status.Warnings {
			if strings.HasPrefix(w.Code, "configuration-") {
				codes = append(codes, w.Code)
			}
		}
		if got := strings.Join(codes, " "); got != c.warned {
			t.Errorf("after %q: warnings %q, want %q", c.more, got, c.warned)
		}
	}
}
