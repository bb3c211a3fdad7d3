package opensm

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestProcess(t *testing.T) {
	proc := fakeProc(t,
		fakeProcess{7, "opensm", "S", []string{"opensm", "-F", "x.conf"}, []string{"OSM_TMP_DIR=/d", "SECRET=1"}},
		fakeProcess{8, "a) S 1 (b", "R", []string{"odd"}, nil},
		fakeProcess{9, "opensm", "Z", nil, nil})
	p, err := proc.process(7)
	if err != nil {
		t.Fatal(err)
	}
	if p.Comm != "opensm" || p.Ticks != 700 || p.Started.Unix() != 1700000007 || p.Cwd != "/somewhere" || len(p.Cmdline) != 3 {
		t.Errorf("process 7 is %+v", p)
	}
	if len(p.Env) != 1 || p.Env["OSM_TMP_DIR"] != "/d" || p.EnvErr != nil {
		t.Errorf("environment %v, %v: only OpenSM's own variables are wanted", p.Env, p.EnvErr)
	}
	if p, err := proc.process(8); err != nil || p.Comm != "a) S 1 (b" || p.Ticks != 800 {
		t.Errorf("process 8 is %+v, %v", p, err)
	}
	for _, pid := range []int{9, 10} { // a zombie, and a PID not in use
		if _, err := proc.process(pid); !errors.Is(err, ErrNotRunning) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	self, err := Inspect(os.Getpid())
	if err != nil || !self.Same(self) || self.Cmdline[0] != os.Args[0] {
		t.Errorf("myself: %+v, %v", self, err)
	}
}

func TestFinders(t *testing.T) {
	ctx := t.Context()
	one := fakeProc(t, fakeProcess{7, "opensm", "S", []string{"opensm", "-A"}, nil}, fakeProcess{8, "bash", "S", []string{"bash"}, nil})
	two := fakeProc(t, fakeProcess{7, "opensm", "S", []string{"opensm", "-A"}, nil}, fakeProcess{9, "opensm", "S", []string{"opensm", "-B"}, nil})
	none := fakeProc(t)
	stranger := fakeProcess{6, "opensm", "S", []string{"opensm", "-N"}, []string{"STRANGER"}}
	nobody := fakeProc(t, stranger)
	besides := fakeProc(t, stranger, fakeProcess{7, "opensm", "S", []string{"opensm", "-A"}, nil})
	pidFile := func(proc procFS, text string) PIDFile {
		path := filepath.Join(t.TempDir(), "pid")
		if text != "" {
			put(t, path, []byte(text))
		}
		return PIDFile{Path: path, proc: proc}
	}
	unit := func(proc procFS, pids map[string]int, err error) Unit {
		return Unit{proc: proc, list: func(_ context.Context, pattern string) (map[string]int, error) {
			if pattern != DefaultUnit {
				t.Errorf("pattern %q", pattern)
			}
			return pids, err
		}}
	}
	for name, c := range map[string]struct {
		finder Finder
		pid    int
		gone   bool
		text   string
	}{
		"pid file":        {pidFile(one, "7\n"), 7, false, ""},
		"stranger":        {pidFile(one, "8"), 0, true, "stale"},
		"dead":            {pidFile(one, "77"), 0, true, "process 77"},
		"no file":         {pidFile(one, ""), 0, true, "there is no PID file"},
		"garbage":         {pidFile(one, "x\x00y"), 0, false, "not a process ID"},
		"everybody":       {pidFile(one, "-1"), 0, false, "not a process ID"},
		"init":            {pidFile(one, "1"), 0, false, "not a process ID"},
		"search":          {Search{one}, 7, false, ""},
		"search none":     {Search{none}, 0, true, "no process is called opensm"},
		"search two":      {Search{two}, 0, false, "process 7 (opensm -A), process 9 (opensm -B)"},
		"search nobody":   {Search{nobody}, 0, true, "process 6 (opensm -N) is called opensm, but is the process of user 65534"},
		"search besides":  {Search{besides}, 7, false, ""},
		"unit":            {unit(one, map[string]int{"opensm@a.service": 7}, nil), 7, false, ""},
		"unit of a shell": {unit(one, map[string]int{"opensm@a.service": 8}, nil), 0, true, "no active unit"},
		"two units":       {unit(two, map[string]int{"opensm@a.service": 7, "opensm@b.service": 9}, nil), 0, false, "2 are running"},
		"no systemd":      {unit(one, nil, io.ErrUnexpectedEOF), 0, true, "unexpected EOF"},
		"second":          {FirstOf{pidFile(one, ""), Search{one}}, 7, false, ""},
		"stop at fault":   {FirstOf{Search{two}, Search{one}}, 0, false, "2 are running"},
		"all fail":        {FirstOf{pidFile(one, ""), Search{none}}, 0, true, "there is no PID file"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := c.finder.Find(ctx)
			if c.text != "" {
				mustContain(t, err, c.text)
				if errors.Is(err, ErrNotRunning) != c.gone {
					t.Errorf("wraps ErrNotRunning: %v, want %v (%v)", !c.gone, c.gone, err)
				}
				return
			}
			if err != nil || p.PID != c.pid {
				t.Errorf("found %+v, %v; want PID %d", p, err, c.pid)
			}
		})
	}
}

// sleeper starts a program that is called name and says when it gets a SIGHUP.
func sleeper(t *testing.T, name string) (pid int, heard func() string) {
	t.Helper()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip("there is no /bin/sh to copy")
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, shell, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", `trap "echo hup; exit" HUP; echo ready; while read -r line; do :; done`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// A signal that the tests ignore, as under nohup, a shell cannot trap.
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	defer signal.Stop(hups)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, func() string {
		_, _ = io.WriteString(in, "\n")
		_ = in.Close()
		text, _ := io.ReadAll(out)
		return strings.TrimSpace(string(text))
	}
}

func TestSweep(t *testing.T) {
	pid, heard := sleeper(t, "opensm")
	path := filepath.Join(t.TempDir(), "pid")
	put(t, path, []byte(strconv.Itoa(pid)))
	p, err := Sweep(t.Context(), PIDFile{Path: path})
	if err != nil || p.PID != pid {
		t.Fatalf("%+v, %v", p, err)
	}
	if got := heard(); got != "hup" {
		t.Errorf("the process said %q", got)
	}

	pid, heard = sleeper(t, "stranger")
	put(t, path, []byte(strconv.Itoa(pid)))
	if _, err := Sweep(t.Context(), PIDFile{Path: path}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a stranger: %v", err)
	}
	if got := heard(); got != "" {
		t.Errorf("the stranger said %q", got)
	}
	if _, err := Sweep(t.Context(), found{PID: pid, Ticks: 1}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a PID that means another process now: %v", err)
	}
}

// found is a Finder that has always found the same.
type found Process

func (f found) Find(context.Context) (Process, error) { return Process(f), nil }
