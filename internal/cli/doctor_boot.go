package cli

import (
	"context"
	"os"
	"os/exec"
	"strings"
)

// boot is systemd's view of OpenSM and forsd at boot.
type boot struct {
	manager bool   // multi-user.target wants opensm.service
	forsd   bool   // multi-user.target wants forsd.service
	state   string // of forsd.service, such as active
	restart string // Restart= of OpenSM's instances; "" without one
}

// bootState asks systemd. It does not find a state if systemd does not run or knows neither
// unit.
func bootState(ctx context.Context) (b boot, found bool) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return b, false
	}
	for unit, wanted := range map[string]*bool{"opensm.service": &b.manager, "forsd.service": &b.forsd} {
		p := properties(ctx, unit, "LoadState", "ActiveState", "WantedBy")
		*wanted = strings.Contains(" "+p["WantedBy"]+" ", " multi-user.target ")
		found = found || p["LoadState"] == "loaded"
		if unit == "forsd.service" {
			b.state = p["ActiveState"]
		}
	}
	b.restart = properties(ctx, "opensm@*.service", "Restart")["Restart"]
	return b, found
}

// properties returns properties of a unit. If a pattern matches several units, it uses the
// first.
func properties(ctx context.Context, unit string, names ...string) map[string]string {
	out, err := exec.CommandContext(ctx, "systemctl", "show", "-p", strings.Join(names, ","), unit).Output()
	p := make(map[string]string)
	if err != nil {
		return p
	}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if _, known := p[key]; !known {
			p[key] = value
		}
	}
	return p
}

// checkBoot checks that the fabric is managed after a reboot and after a crash of OpenSM,
// without manual steps, and that forsd does not delay the boot.
func (d *doctor) checkBoot() {
	b, found := bootState(d.ctx)
	if !found {
		return
	}
	before := len(d.Checks)
	if _, err := os.Stat("/sys/class/infiniband_mad/abi_version"); err != nil {
		d.note("boot", fail, "the kernel module ib_umad is not loaded, and without it systemd starts neither OpenSM nor forsd: run modprobe ib_umad, put ib_umad into a file in /etc/modules-load.d, then systemctl restart opensm forsd")
	}
	if !b.manager {
		d.note("boot", warn, "opensm.service is not wanted by multi-user.target: after a reboot the subnet has no manager; run systemctl add-wants multi-user.target opensm.service")
	}
	if !b.forsd {
		d.note("boot", warn, "forsd does not start at boot: run systemctl enable forsd")
	}
	if b.state == "activating" {
		d.note("boot", warn, "forsd.service is still starting, and what waits for it waits too: see journalctl -u forsd")
	}
	if b.restart == "no" {
		d.note("boot", warn, "systemd does not bring OpenSM back after a crash: install the drop-in opensm@.service.d/forsd.conf, then run systemctl daemon-reload")
	}
	if len(d.Checks) == before {
		d.note("boot", good, "OpenSM and forsd start at boot, and again after a crash")
	}
}
