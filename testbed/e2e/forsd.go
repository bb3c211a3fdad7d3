package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

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
	log  string        // file
	from int64         // offset in the log of its own output
}

// startForsd starts the program by the command prefix and with the further
// variables env; its log is appended to forsd.log in dir.
func startForsd(prefix, env []string, program, config, dir string) (*Forsd, error) {
	log, err := os.OpenFile(filepath.Join(dir, "forsd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	line := append(slices.Clone(prefix), program, "-config", config)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(append(os.Environ(), env...), "TMPDIR="+filepath.Join(dir, "tmp"), clockVariable+"="+filepath.Join(dir, clockFile), "NOTIFY_SOCKET=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	f := &Forsd{cmd: cmd, done: make(chan struct{}), log: log.Name(), from: info.Size()}
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

// Overrun reports whether the process was ended by a fault in the thread of ibsim's client
// library that takes datagrams: it looks for their owner by a null pointer if they are of a
// class without a registered agent, such as late answers to a previous process. The Go runtime
// reports a fault anywhere else in forsd.
func (f *Forsd) Overrun() bool {
	<-f.done
	status, is := f.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !is || !status.Signaled() || status.Signal() != syscall.SIGSEGV {
		return false
	}
	text, err := os.ReadFile(f.log)
	return err == nil && int64(len(text)) >= f.from && !bytes.Contains(text[f.from:], []byte("SIGSEGV"))
}

// Done is closed when the process has ended.
func (f *Forsd) Done() <-chan struct{} { return f.done }

// Kill kills the process by SIGKILL and waits for its end.
func (f *Forsd) Kill() {
	select {
	case <-f.done:
	default:
		_ = f.cmd.Process.Kill() // it may end by itself before that
		<-f.done
	}
}

// Stop asks the process to end, as the service manager does, and waits for it.
// The error describes an unsuccessful end.
func (f *Forsd) Stop(ctx context.Context) error {
	_ = f.cmd.Process.Signal(syscall.SIGTERM) // it may end by itself before that
	return f.Wait(ctx)
}

// Wait waits until the process ends by itself. The error describes an unsuccessful
// end.
func (f *Forsd) Wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return fmt.Errorf("wait for forsd to end: %w", context.Cause(ctx))
	}
}
