package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forsd/api"
	"forsd/internal/ibsim"
	"forsd/opensm"
)

// TestFromAfar has forsd on another host than OpenSM: it discovers the fabric itself,
// and has a command take the tables to OpenSM. What it promises is the same. The
// simulation hands traps to managers alone, so the fabric is looked at often.
func TestFromAfar(t *testing.T) {
	o := small()
	o.Host = "Hca0005"
	o.Manager = func(m *ibsim.OpenSMOptions) {
		m.Host, m.LFTsFile = "Hca0000", filepath.Join(m.Dir, "installed.lfts")
	}
	x := newSite(t, 5*time.Minute, o)
	there := filepath.Join(x.ManagerDir(), "installed.lfts")
	_, err := opensm.InstallEmpty(there)
	x.ok(err)
	push := filepath.Join(x.Dir(), "push")
	x.ok(os.WriteFile(push, fmt.Appendf(nil, "#!/bin/sh -e\ncp \"$1\" %[1]s.new\nmv %[1]s.new %[1]s\nkill -HUP $(cat %[2]s)\n", there, x.pidFile()), 0o755))
	config, err := os.ReadFile(x.ConfigFile())
	x.ok(err)
	afar := strings.Replace(string(config), "\nopensm:\n", fmt.Sprintf("\nopensm:\n  discover_command: [ibnetdiscover]\n  discover_every: 200ms\n  install_command: [%q]\n", push), 1)
	x.ok(os.WriteFile(x.ConfigFile(), []byte(afar), 0o644))

	x.ok(x.StartOpenSM(x.ctx), x.StartForsd())
	if st := x.settled(nil); st.OpenSM.Source != api.SourceDiscovery || st.OpenSM.Running {
		t.Errorf("the status says %+v", st.OpenSM)
	}
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
