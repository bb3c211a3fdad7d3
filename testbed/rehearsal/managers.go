package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/forsd/forsd/testbed/e2e"
)

// Managers are the managers of a fabric, with a forsd each.
type Managers struct {
	First, Second *e2e.Site // Second is nil on a site with one manager
	Leader        *e2e.Site
}

// Bring brings up the first manager and, once its forsd is at rest, the second one.
func (m *Managers) Bring(ctx context.Context) error {
	m.Leader = m.First
	if m.Second != nil {
		if err := m.Second.StartForsd(); err != nil {
			return err
		}
		if _, err := m.Second.Warned(ctx); err != nil { // it answers
			return err
		}
	}
	if err := m.First.Up(ctx); err != nil || m.Second == nil {
		return err
	}
	if err := m.Second.StartOpenSM(ctx); err != nil {
		return err
	}
	return m.Second.Until(ctx, func() error {
		st, err := m.Second.Client.Status(ctx)
		if err == nil && (!st.OpenSM.Standby || !st.Ready) {
			err = fmt.Errorf("the second forsd does not follow: %s %v", st.State, st.Warnings)
		}
		return err
	})
}

// Overruns is how often ibsim's client library has ended a forsd; see e2e.Forsd.Overrun.
func (m *Managers) Overruns() int {
	n := m.First.Overruns
	if m.Second != nil {
		n += m.Second.Overruns
	}
	return n
}

// Disturb makes a change by act while one of the programs that must respond is disturbed, as
// with says, after a time or, if that is below 0, before.
func (m *Managers) Disturb(ctx context.Context, with string, after time.Duration, act func() error) error {
	switch with {
	case "kill-forsd":
		return Around(ctx, after, act, func() error { return m.Leader.KillForsd(ctx) }, m.Leader.StartForsd)
	case "kill-opensm":
		kill := func() error {
			m.Leader.SM.Kill()
			return nil
		}
		return Around(ctx, after, act, kill, func() error { return m.Leader.SM.Restart(ctx) })
	case "hang-forsd":
		pid := m.Leader.Forsd.PID()
		return Around(ctx, after, act, func() error { return syscall.Kill(pid, syscall.SIGSTOP) }, func() error {
			time.Sleep(2 * time.Second)
			return syscall.Kill(pid, syscall.SIGCONT)
		})
	case "handover":
		return m.handover(ctx, after, act)
	}
	return fmt.Errorf("%q: there is no such disturbance", with)
}

// Around makes the change before the disturbance begins, or between its beginning and its
// end.
func Around(ctx context.Context, after time.Duration, act, begin, end func() error) error {
	first, then := act, begin
	if after < 0 {
		first, then = begin, act
	}
	if err := first(); err != nil {
		return err
	}
	select {
	case <-time.After(after.Abs()):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := then(); err != nil {
		return err
	}
	return end()
}

// handover makes the other manager the master. If the first one is the master, it is killed;
// otherwise it is started again and takes over by its higher priority.
func (m *Managers) handover(ctx context.Context, after time.Duration, act func() error) error {
	next := m.Second
	hand := func() error {
		m.First.SM.Kill()
		return nil
	}
	if m.Leader == m.Second {
		next = m.First
		hand = func() error { return m.First.SM.Restart(ctx) }
	}
	lead := func() error {
		m.Leader = next
		err := next.Until(ctx, func() error {
			st, err := next.Client.Status(ctx)
			if err == nil && st.OpenSM.Standby {
				err = errors.New("the other forsd does not lead")
			}
			return err
		})
		if err != nil {
			return err
		}
		if _, err := next.Settled(ctx, nil); err != nil {
			return err
		}
		return next.SM.Sweep(ctx) // forsd may be done before its manager has dumped the fabric
	}
	return Around(ctx, after, act, hand, lead)
}

// KeepLogs copies the logs of the programs to a directory that outlives the run. Each forsd is
// ended first by the signal that makes it log its goroutines.
func (m *Managers) KeepLogs() string {
	dir, err := os.MkdirTemp("", "forsd-logs-")
	if err != nil {
		return err.Error()
	}
	for i, one := range []*e2e.Site{m.First, m.Second} {
		if one == nil {
			continue
		}
		if one.Forsd != nil && syscall.Kill(one.Forsd.PID(), syscall.SIGQUIT) == nil {
			select {
			case <-one.Forsd.Done():
			case <-time.After(10 * time.Second):
			}
		}
		for _, path := range []string{filepath.Join(one.Dir(), "forsd.log"), filepath.Join(one.ManagerDir(), "opensm.log")} {
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-%s", i+1, filepath.Base(path))), text, 0o644)
			}
			if err != nil {
				return err.Error()
			}
		}
	}
	return dir
}
