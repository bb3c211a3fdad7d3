package ibsim

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// A test process that has deathVar in its environment brings up a simulation,
// reports its processes, and dies in the way that the variable names.
const deathVar = "FORSD_TEST_DEATH"

// cast are the processes of a simulation and its directory.
type cast struct {
	IBSim, OpenSM, Tool, Janitor int
	Dir                          string
}

func TestMain(m *testing.M) {
	if way := os.Getenv(deathVar); way != "" {
		die(way)
	}
	os.Exit(m.Run())
}

func die(way string) {
	ctx := context.Background()
	s, err := Start(ctx, Options{Fabric: small()})
	if err != nil {
		panic(err)
	}
	m, err := s.StartOpenSM(ctx, OpenSMOptions{Host: "Hca0000"})
	if err != nil {
		panic(err)
	}
	go func() { _, _ = s.Run(ctx, "Hca0001", "sleep", "1000000") }()
	tool := 0
	for tool == 0 {
		runtime.Gosched()
		s.mu.Lock()
		for p := range s.clients {
			if p != m.current() {
				tool = p.pid()
			}
		}
		s.mu.Unlock()
	}
	_ = json.NewEncoder(os.Stdout).Encode(cast{s.ibsim.pid(), m.PID(), tool, s.janitor.cmd.Process.Pid, s.Dir()})
	switch way {
	case "panic":
		panic("as a test may")
	case "exit":
		os.Exit(3)
	}
	select {} // until killed
}

// becomeReaper makes the kernel hand this process the orphans of its children,
// so that it can wait for them.
func becomeReaper(t *testing.T) {
	t.Helper()
	const prSetChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0); errno != 0 {
		t.Fatalf("become a subreaper: %v", errno)
	}
}

// TestNothingIsLeftBehind kills test processes in the middle of their work; the
// kernel must kill their children, and the directory must go.
func TestNothingIsLeftBehind(t *testing.T) {
	becomeReaper(t)
	for _, way := range []string{"kill -9", "panic", "exit"} {
		t.Run(way, func(t *testing.T) {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), deathVar+"="+way)
			out, err := child.StdoutPipe()
			ok(t, err, child.Start())
			var c cast
			ok(t, json.NewDecoder(out).Decode(&c))
			if way == "kill -9" {
				ok(t, child.Process.Kill())
			}
			if err := child.Wait(); err == nil {
				t.Fatal("the child ended well")
			}
			for _, pid := range []int{c.IBSim, c.OpenSM, c.Tool} {
				if status, reaped := reap(t, pid); reaped && status.Signal() != syscall.SIGKILL {
					t.Errorf("process %d of %+v was not killed: status %x", pid, c, status)
				}
			}
			if status, reaped := reap(t, c.Janitor); reaped && status.ExitStatus() != 0 {
				t.Errorf("the janitor failed: status %x", status)
			}
			if _, err := os.Stat(c.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory is still there: %v", err)
			}
		})
	}
}

// reap waits for the end of an orphan. A thread of the dying parent may have
// been quicker to take the status; then the process must be gone.
func reap(t *testing.T, pid int) (status syscall.WaitStatus, reaped bool) {
	t.Helper()
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		switch {
		case err == nil:
			return status, true
		case err == syscall.ECHILD && syscall.Kill(pid, 0) == syscall.ESRCH:
			return 0, false
		case err != syscall.EINTR:
			t.Fatalf("wait for process %d: %v", pid, err)
		}
	}
}

// TestThreadEnds starts a simulation on a thread that ends before it.
func TestThreadEnds(t *testing.T) {
	var s *Sim
	var m *OpenSM
	tid := onDyingThread(func() {
		var err error
		if s, err = Start(t.Context(), Options{Fabric: small()}); err != nil {
			t.Error(err)
			return
		}
		if m, err = s.StartOpenSM(t.Context(), OpenSMOptions{Host: "Hca0000"}); err != nil {
			t.Error(err)
		}
	})
	if s == nil || m == nil {
		return
	}
	defer s.Close()
	for syscall.Tgkill(os.Getpid(), tid, 0) == nil {
		runtime.Gosched()
	}
	ok(t, m.Sweep(t.Context()))
}

// onDyingThread runs f on a thread that ends soon after, and returns the
// thread's number. The process's first thread would not end.
func onDyingThread(f func()) int {
	done := make(chan int)
	go func() {
		runtime.LockOSThread() // and never unlock
		tid := syscall.Gettid()
		if tid == os.Getpid() {
			tid = onDyingThread(f)
		} else {
			f()
		}
		done <- tid
	}()
	return <-done
}

func TestClose(t *testing.T) {
	s, err := Start(t.Context(), Options{Fabric: small()})
	ok(t, err)
	m, err := s.StartOpenSM(t.Context(), OpenSMOptions{Host: "Hca0000"})
	ok(t, err)
	ran := make(chan error)
	go func() {
		_, err := s.Run(t.Context(), "Hca0001", "sleep", "1000000")
		ran <- err
	}()
	ok(t, s.Close())
	if err := <-ran; err == nil {
		t.Error("Run ended well though Close killed the program")
	}
	ok(t, s.Close())
	if m.PID() != 0 || s.ibsim.running() {
		t.Error("a process outlived Close")
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if _, err := s.Command(t.Context(), "Attached"); err == nil {
		t.Error("Command works after Close")
	}
	if _, err := s.StartOpenSM(t.Context(), OpenSMOptions{Host: "Hca0000", Dir: filepath.Join(t.TempDir(), "late")}); !errors.Is(err, errGone) {
		t.Errorf("OpenSM after Close: got error %v, want %v", err, errGone)
	}
}
