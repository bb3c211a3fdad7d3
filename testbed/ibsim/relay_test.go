package ibsim

import (
	"strings"
	"syscall"
	"testing"
)

// rivals starts a master and a standby of higher priority, so that the second
// becomes the master as soon as it is there.
func rivals(t *testing.T, s *Sim) (low, high *OpenSM) {
	t.Helper()
	rival := func(priority string) OpenSMOptions {
		return OpenSMOptions{Rival: true, Conf: map[string]string{"sm_priority": priority}}
	}
	o := rival("5")
	o.Host = "Hca0000"
	low = up(t, s, o)
	o = rival("10")
	o.Host = "Hca0001"
	return low, up(t, s, o)
}

// TestHandover kills the master and starts it again: the standby takes over, and
// hands over to it. Neither sweep ends where a request or a trap to the other
// one stays under way for ever.
func TestHandover(t *testing.T) {
	f, ctx := small(), t.Context()
	s := start(t, f)
	low, high := rivals(t, s)
	waitLog(t, low, "Entering STANDBY state", 0)
	for range 3 {
		from := low.LogSize()
		high.Kill()
		waitLog(t, low, SubnetUp, from)
		from, back := low.LogSize(), high.LogSize()
		ok(t, high.Restart(ctx))
		waitLog(t, low, "Entering STANDBY state", from)
		waitLog(t, high, SubnetUp, back)
	}
	sees(t, high, f)
	for _, m := range []*OpenSM{low, high} {
		log, err := m.Log()
		ok(t, err)
		if i := strings.Index(string(log), "SubnTrap("); i >= 0 {
			t.Errorf("a trap was not answered:\n%s", log[max(0, i-500):])
		}
	}
	low.Stop(ctx)
	high.Stop(ctx)
	if clients, err := s.Command(ctx, "Attached"); err != nil || clients != "" {
		t.Errorf("the ended are still attached: %q, %v", clients, err)
	}
}

// TestSilentRival stops the standby, which then answers nothing: the master's
// sweeps end all the same. When it goes on, it is a standby as before.
func TestSilentRival(t *testing.T) {
	f := small()
	s := start(t, f)
	low, high := rivals(t, s)
	waitLog(t, low, "Entering STANDBY state", 0)
	ok(t, low.Signal(syscall.SIGSTOP))
	from := high.LogSize()
	sees(t, high, f)
	log, err := high.Log()
	ok(t, err)
	if !strings.Contains(string(log[from:]), "SubnGet(SMInfo)") {
		t.Errorf("the master does not miss the standby's answer:\n%s", log[from:])
	}
	ok(t, low.Signal(syscall.SIGCONT))
	from = high.LogSize()
	sees(t, high, f)
	if log, err = high.Log(); err != nil || strings.Contains(string(log[from:]), "Entering") {
		t.Errorf("%v\n%s", err, log[from:])
	}
}
