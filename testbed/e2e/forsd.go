package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/forsd/forsd/testbed/built"
)

// Build builds forsd into a directory and returns the program's path; see built.Program.
func Build(ctx context.Context, dir string) (string, error) {
	return built.Program(ctx, dir, "cmd/forsd")
}

// Forsd is a running forsd, or one that has ended. The kernel kills it when this
// process dies.
type Forsd struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; to be read once done is closed
}

// startForsd starts the program by the command prefix and with the further
// variables env; its log goes to forsd.log in dir, behind what is there. ibsim's client
// library reads datagrams before it has made itself ready for them, and may crash a program
// by that before this has begun: it is started again.
func startForsd(prefix, env []string, program, config, dir string) (f *Forsd, err error) {
	log, err := os.OpenFile(filepath.Join(dir, "forsd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	size := func() int64 {
		info, err := log.Stat()
		if err != nil {
			return -1
		}
		return info.Size()
	}
	for range 3 {
		before := size()
		if f, err = launchForsd(prefix, env, program, config, dir, log); err != nil || !f.crashes(func() bool { return size() != before }) {
			break
		}
	}
	return f, err
}

// crashes tells whether the process is ended by a segmentation fault within a second, and
// before it has said anything.
func (f *Forsd) crashes(spoken func() bool) bool {
	for until := time.Now().Add(time.Second); time.Now().Before(until) && !spoken(); {
		select {
		case <-f.done:
			status, is := f.cmd.ProcessState.Sys().(syscall.WaitStatus)
			return is && status.Signaled() && status.Signal() == syscall.SIGSEGV && !spoken()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return false
}

func launchForsd(prefix, env []string, program, config, dir string, log *os.File) (*Forsd, error) {
	line := append(slices.Clone(prefix), program, "-config", config)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(append(os.Environ(), env...), "TMPDIR="+filepath.Join(dir, "tmp"), "NOTIFY_SOCKET=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	f := &Forsd{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The death signal comes when the thread that started the child ends:
		// this one waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			f.err = cmd.Wait()
			close(f.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start forsd: %w", err)
	}
	return f, nil
}

// PID is the number of the process.
func (f *Forsd) PID() int { return f.cmd.Process.Pid }

// Done is closed when the process has ended.
func (f *Forsd) Done() <-chan struct{} { return f.done }

// Kill kills the process by SIGKILL and waits for its end.
func (f *Forsd) Kill() {
	select {
	case <-f.done:
	default:
		_ = f.cmd.Process.Kill() // it may end by itself meanwhile
		<-f.done
	}
}

// Stop asks the process to end, as the service manager does, and waits for it.
// The error says how it ended where that was not well.
func (f *Forsd) Stop(ctx context.Context) error {
	_ = f.cmd.Process.Signal(syscall.SIGTERM) // it may end by itself meanwhile
	return f.Wait(ctx)
}

// Wait waits until the process ends by itself, and says how where that was not
// well.
func (f *Forsd) Wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return fmt.Errorf("wait for forsd to end: %w", context.Cause(ctx))
	}
}
