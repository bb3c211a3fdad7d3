package ibsim

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// pollInterval is the time between two polls.
const pollInterval = 2 * time.Millisecond

// forks runs functions on one operating system thread that lives as long as
// this process. The kernel ties a child's death signal to the thread that
// forked it, and the Go runtime ends a thread whose locked goroutine returns:
// started from just any goroutine, children could die early.
var forks = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// process is a child in a process group of its own. The kernel kills it when
// this process dies, in whatever way.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended and been waited for
	err  error         // how it ended; to be read once done is closed
}

// startProcess starts cmd as such a child.
func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second // for a pipe that a grandchild still holds
	started := make(chan error)
	forks() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// running reports whether the child is still running.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill kills the child's process group and waits until the child is gone.
func (p *process) kill() {
	if p.running() {
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
	}
	<-p.done
}

// awaitHandler waits until the child has a handler for sig. Before that, and as
// long as it is still the shell that ibsim-run begins as, sig would kill it.
func (p *process) awaitHandler(ctx context.Context, sig syscall.Signal) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if catches(p.pid(), sig) {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended at once: %v", p.cmd.Path, p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", p.cmd.Path, context.Cause(ctx))
		}
	}
}

// catches reports whether a process has a handler for sig, from the mask of caught
// signals in /proc.
func catches(pid int, sig syscall.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, field, found := strings.Cut(string(status), "\nSigCgt:")
	if !found {
		return false
	}
	field, _, _ = strings.Cut(field, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(field), 16, 64)
	return err == nil && mask&(1<<(sig-1)) != 0
}

// janitor is a shell that outlives this process by a moment to remove a
// directory. It waits for the end of its standard input, which comes when
// release closes the pipe or the kernel does.
type janitor struct {
	cmd  *exec.Cmd
	pipe interface{ Close() error }
}

// startJanitor hires a janitor for dir. The children that still write there
// when this process is killed are being killed, too: hence several attempts.
func startJanitor(dir string) (*janitor, error) {
	const script = `cat; for i in 1 2 3 4 5 6 7 8 9; do rm -rf -- "$1" && [ ! -e "$1" ] && exit; sleep 0.2; done`
	cmd := exec.Command("sh", "-c", script, "sh", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &janitor{cmd, pipe}, nil
}

// release lets the janitor remove the directory and waits for it.
func (j *janitor) release() error {
	j.pipe.Close()
	return j.cmd.Wait()
}
