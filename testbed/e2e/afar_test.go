package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/ibsim"
)

// afar prepares a site whose forsd is on another host than OpenSM: it discovers the
// fabric itself, now and then, and runs a command that takes the tables to OpenSM.
func afar(t *testing.T, every string, o Options) *test {
	t.Helper()
	o.Host = "Hca0005"
	o.Manager = func(m *ibsim.OpenSMOptions) {
		m.Host, m.LFTsFile = "Hca0000", filepath.Join(m.Dir, "installed.lfts")
	}
	x := newSite(t, 5*time.Minute, o)
	there := filepath.Join(x.ManagerDir(), "installed.lfts")
	push := filepath.Join(x.Dir(), "push")
	x.ok(os.WriteFile(push, fmt.Appendf(nil, "#!/bin/sh -e\ncp \"$1\" %[1]s.new\nmv %[1]s.new %[1]s\nkill -HUP $(cat %[2]s)\n", there, x.pidFile()), 0o755))
	config, err := os.ReadFile(x.ConfigFile())
	x.ok(err)
	discover := fmt.Sprintf("[env, IBSIM_SOCKNAME=%s, ibnetdiscover]", x.Sim.Socket())
	afar := strings.Replace(string(config), "\nopensm:\n", fmt.Sprintf("\nopensm:\n  discover_command: %s\n  discover_every: %s\n  install_command: [%q]\n", discover, every, push), 1)
	x.ok(os.WriteFile(x.ConfigFile(), []byte(afar), 0o644))

	if o.Reports { // forsd is there first, and finds a fabric that is not up
		x.ok(x.StartForsd())
		x.logSays("the subnet manager has not finished")
		x.ok(x.StartOpenSM(x.ctx))
	} else {
		x.ok(x.StartOpenSM(x.ctx), x.StartForsd())
	}
	if st := x.settled(nil); st.OpenSM.Source != api.SourceDiscovery || st.OpenSM.Running {
		t.Errorf("the status says %+v", st.OpenSM)
	}
	return x
}

// TestFromAfar runs forsd on another host than OpenSM, with the same requirements. No trap
// arrives there, so forsd looks at the fabric often.
func TestFromAfar(t *testing.T) {
	t.Parallel()
	x := afar(t, "200ms", small())
	x.comesAndGoes()
}

// TestTrapsFromAfar has forsd on another host than OpenSM, and discover the fabric by itself
// so rarely that it depends on the traps that it has subscribed to.
func TestTrapsFromAfar(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(built.UmadHeader); err != nil {
		t.Skipf("forsd cannot subscribe here: install libibumad-dev: %v", err)
	}
	o := small()
	o.Reports = true
	x := afar(t, "1h", o)
	x.logSays("traps are taken from the subnet administrator")
	x.comesAndGoes()
}

// logSays waits until forsd's log has a text.
func (x *test) logSays(text string) {
	x.Helper()
	x.ok(x.Until(x.ctx, func() error {
		log, err := os.ReadFile(filepath.Join(x.Dir(), "forsd.log"))
		if err == nil && !strings.Contains(string(log), text) {
			err = fmt.Errorf("forsd's log does not say %q", text)
		}
		return err
	}))
}

// comesAndGoes pulls cables and puts them back, and checks the site after each.
func (x *test) comesAndGoes() {
	x.Helper()
	s := x.check()
	broken := false
	for _, c := range []struct{ leaf, lane int }{{2, 1}, {0, 3}} {
		x.toggle(s, c.leaf, c.lane, &broken)
		x.settled(Cable(c.leaf, c.lane, "missing"))
		x.unmoved(s, x.check(), c.lane)
		x.toggle(s, c.leaf, c.lane, &broken)
		x.settled(Cable(c.leaf, c.lane, "full"))
		x.unmoved(s, x.check())
	}
	x.noRoutingErrors()
}
