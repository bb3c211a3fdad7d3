package ibsim

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
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

// TestRepress has a manager answer the trap of another one: the TrapRepress reaches it, and
// the trap is not under way any more.
func TestRepress(t *testing.T) {
	s := &Sim{relays: map[*relay]bool{}}
	ends := func() (c [2]*net.UnixConn) {
		names := [2]string{socketName(), socketName()}
		for i := range c {
			var err error
			c[i], err = listenAt(names[i])
			ok(t, err)
			t.Cleanup(func() { c[i].Close() })
		}
		ok(t, connectTo(c[0], names[1]), connectTo(c[1], names[0]))
		return c
	}
	manager, simulator := ends(), ends()
	var at [3]*relay
	for place := range at {
		at[place] = &relay{sim: s, place: place, client: manager[0], ibsim: simulator[0], pending: map[transaction]request{}}
		s.relays[at[place]] = true
	}
	var packet, got [packetSize]byte
	packet[madClass], packet[madMethod], packet[madTransaction+7] = classSMP, 0x05, 77
	at[1].sends(packet[:])
	packet[madMethod], packet[madTransaction+1] = methodTrapRepress, 1 // as ibsim marks it
	at[2].sends(packet[:])
	ok(t, manager[1].SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := manager[1].Read(got[:]); err != nil || got != packet {
		t.Errorf("the manager got %x: %v", got, err)
	}
	if lost := at[1].lost(time.Now().Add(lostAfter)); len(lost) > 0 {
		t.Errorf("it was answered, and comes back as lost: %x", lost)
	}
}

// TestHandover kills the master and starts it again: the standby takes over, and
// hands over to it. No sweep ends if a request or a trap to the other manager stays
// under way for ever. (OpenSM drops a trap if it is not the master: one that is sent
// during the handover comes back as timed out, as on a real adapter.)
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
	low.Stop(ctx)
	high.Stop(ctx)
	if clients, err := s.Command(ctx, "Attached"); err != nil || clients != "" {
		t.Errorf("the ended are still attached: %q, %v", clients, err)
	}
}

// TestSilentRival stops the standby, which then answers nothing: the master's
// sweeps still end. When it goes on, it is a standby as before.
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
