package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
)

// TestComesBack kills OpenSM and forsd's end in turn. Each finds the other again after its
// restart, and a new forsd receives the fabric without a sweep.
func TestComesBack(t *testing.T) {
	s := simulate(t, fabgen.Spec{Spines: 3, Leaves: 3})
	stop := s.serve()
	s.start(ibsim.OpenSMOptions{LMC: 2})
	fabric := s.installed()

	s.m.Kill()
	gone, _ := next[Disconnected](s)
	if gone.Err == nil {
		t.Error("disconnected without a reason")
	}
	start := time.Now()
	if err := s.m.Restart(s.ctx); err != nil {
		t.Fatal(err)
	}
	running := time.Now()
	back, _ := next[Connected](s)
	t.Logf("OpenSM started in %v, connected %v later", running.Sub(start), back.At.Sub(running))
	if back.Peer.PID != s.m.PID() {
		t.Errorf("connected: %+v", back)
	}
	if outcome, _ := next[Outcome](s); outcome.Result != Installed {
		t.Errorf("after the restart: %+v", outcome)
	}
	s.up()

	stop()
	next[Disconnected](s)
	s.serve()
	next[Connected](s)
	up, before := next[SubnetUp](s)
	if up.Fabric.Hash() != fabric.Hash() {
		t.Error("the new forsd is told of another fabric")
	}
	for _, e := range before {
		if _, swept := e.(SweepStart); swept {
			t.Error("it took a sweep to tell the new forsd")
		}
	}
}

// TestResweep has OpenSM sweep, and route without sweeping.
func TestResweep(t *testing.T) {
	s := simulate(t, fabgen.Spec{Spines: 3, Leaves: 3})
	s.serve()
	s.start(ibsim.OpenSMOptions{LMC: 2})
	next[Connected](s)
	s.up()
	if err := s.server.Resweep(Reroute); err != nil {
		t.Fatal(err)
	}
	routed, before := next[RoutingDone](s)
	if !routed.Reroute || !routed.Own {
		t.Errorf("routed: %+v after %v", routed, before)
	}
	for _, e := range before {
		if _, swept := e.(SweepStart); swept {
			t.Error("it swept to reroute")
		}
	}
	if err := s.server.Resweep(HeavySweep); err != nil {
		t.Fatal(err)
	}
	if _, before := next[Discovered](s); len(before) == 0 {
		t.Error("there was no start of a sweep")
	}
	if routed, _ := next[RoutingDone](s); routed.Reroute || !routed.Own {
		t.Errorf("routed: %+v", routed)
	}
}

// TestStandby runs two managers. The plugin of the standby reports only its state. It asks
// for tables when the master dies, and falls silent again when the master is back.
func TestStandby(t *testing.T) {
	t.Parallel()
	s := simulate(t, fabgen.Spec{Spines: 3, Leaves: 3})
	rival := func(priority string) ibsim.OpenSMOptions {
		return ibsim.OpenSMOptions{LMC: 2, Rival: true, Conf: map[string]string{"sm_priority": priority}}
	}
	o := rival("15")
	o.Host, o.Dir = "Hca0002", filepath.Join(s.sim.Dir(), "other")
	other, err := s.sim.StartOpenSM(s.ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	// A sweep of its own, or one that was asked for: both end like this.
	swept := func(from int64) {
		t.Helper()
		if _, _, err := other.WaitLog(s.ctx, ibsim.SubnetUp, from); err != nil {
			t.Fatal(err)
		}
	}
	becomes := func(state State) {
		t.Helper()
		for reached := false; !reached; {
			m, _ := next[Mastership](s)
			reached = m.State == state
		}
	}
	swept(0)
	s.serve()
	s.start(rival("5"))
	becomes(Standby)

	for range 2 {
		from := other.LogSize()
		if err := s.sim.Unlink(s.ctx, "Leaf001", 4); err != nil {
			t.Fatal(err)
		}
		swept(from)
		if err := s.sim.Relink(s.ctx, "Leaf001", 4); err != nil {
			t.Fatal(err)
		}
		if err := other.Sweep(s.ctx); err != nil {
			t.Fatal(err)
		}
		if len(s.events) > 0 {
			t.Errorf("a manager that stands by tells of %T", <-s.events)
		}

		other.Kill()
		becomes(Master)
		if outcome, _ := next[Outcome](s); outcome.Result != Installed {
			t.Errorf("after taking over: %+v", outcome)
		}
		s.up()
		if err := other.Restart(s.ctx); err != nil {
			t.Fatal(err)
		}
		becomes(Standby)
	}
}

// TestUsers has each side refuse a process of a user that it does not trust.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	const nobody = 65534
	s := simulate(t, fabgen.Spec{Spines: 2, Leaves: 2})
	stranger := s.process(nobody, "listening")
	defer end(stranger)
	s.start(ibsim.OpenSMOptions{})
	if _, _, err := s.m.WaitLog(s.ctx, "neither root nor of the users trusted", 0); err != nil {
		t.Error(err)
	}
	s.m.Kill()
	s.start(ibsim.OpenSMOptions{PluginOptions: fmt.Sprintf("socket=%s user=%d deadline=10000", s.socket, nobody)})
	if _, _, err := s.m.WaitLog(s.ctx, "forsd's tables are installed", 0); err != nil {
		t.Error(err)
	}
}

// TestOptions holds that nonsense in event_plugin_options keeps the plugin out
// and OpenSM going.
func TestOptions(t *testing.T) {
	s := simulate(t, fabgen.Spec{Spines: 2, Leaves: 2})
	for _, options := range []string{"deadline=0", "deadline=10001", "settle=101", "settle=-1", "deadline=5x", "socket=relative", "socket=/" + strings.Repeat("x", 200),
		"user=no-such-user-anywhere", "colour=blue", "socket", "=", "socket=/tmp/x, deadline=-1"} {
		s.start(ibsim.OpenSMOptions{PluginOptions: options})
		from := int64(0)
		for _, line := range []string{"libforsosm: event_plugin_options: cannot use", "cannot load plugin 'forsosm'", ibsim.SubnetUp} {
			var err error
			if _, from, err = s.m.WaitLog(s.ctx, line, from); err != nil {
				t.Errorf("%s: %v", options, err)
			}
		}
		s.m.Kill()
		os.Remove(s.m.LogFile())
	}
}

// TestMemory sweeps under Valgrind, with cables pulled and plugged and forsd's
// end coming and going: the library neither errs nor leaks.
func TestMemory(t *testing.T) {
	sweeps := 5
	if os.Getenv("FORS_LONG") != "" {
		sweeps = 200
	}
	s := simulate(t, fabgen.Spec{Spines: 3, Leaves: 3})
	log := filepath.Join(s.sim.Dir(), "valgrind.log")
	stop := s.serve()
	s.start(ibsim.OpenSMOptions{LMC: 2, Wrap: []string{"valgrind", "--leak-check=full", "--show-leak-kinds=definite,indirect,possible",
		"--keep-debuginfo=yes", "--num-callers=40", "--log-file=" + log}})
	s.installed()
	for i := range sweeps {
		do := []func(context.Context, string, int) error{s.sim.Unlink, s.sim.Relink}[i%2]
		if err := do(s.ctx, "Leaf001", 4); err != nil {
			t.Fatal(err)
		}
		if outcome, _ := next[Outcome](s); outcome.Result != Installed {
			t.Errorf("sweep %d: %+v", i, outcome)
		}
		s.up()
		if i%5 == 3 {
			stop()
			next[Disconnected](s)
			stop = s.serve()
			s.installed()
		}
	}
	if err := s.m.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next[Disconnected](s)
	report := awaitText(s.ctx, t, log, "ERROR SUMMARY")
	t.Log(report[strings.LastIndex(report, "ERROR SUMMARY"):])
	blame := 0
	for _, block := range regexp.MustCompile(`(?m)^==\d+== *$`).Split(report, -1) {
		if strings.Contains(block, "libforsosm") || regexp.MustCompile(`\((plugin|engine|fabric|link|thread|tables|wire)\.c:\d+\)`).MatchString(block) {
			t.Error(block)
			blame++
		}
	}
	if blame == 0 && !strings.Contains(report, "LEAK SUMMARY") && !strings.Contains(report, "All heap blocks were freed") {
		t.Errorf("no report:\n%s", report)
	}
}

// awaitText waits for a text in a file, and returns all of it.
func awaitText(ctx context.Context, t *testing.T, path, text string) string {
	t.Helper()
	for {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), text) {
			return string(data)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s lacks %q:\n%s", path, text, data)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
