package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/mend"
)

// step is an event at the site, and the checks after it; see site.failed. It returns its
// line of the report.
type step struct {
	name string
	do   func(*site, context.Context) string
}

// script is all steps in order: each finds a plan in force, and leaves one. The first
// always runs, the last but one ends what it made, and the last makes it again.
var script = []step{
	{"install", (*site).install},
	{"start without OpenSM", (*site).alone},
	{"reboot", (*site).reboot},
	{"cable", (*site).cablePulled},
	{"bad cable", (*site).badCable},
	{"spine", (*site).spineGone},
	{"certificate", (*site).expired},
	{"journal", (*site).journal},
	{"reload", (*site).reload},
	{"rights", (*site).rights},
	{"kill forsd", (*site).killForsd},
	{"kill OpenSM", (*site).killOpenSM},
	{"upgrade", (*site).upgrade},
	{"full disk", (*site).fullDisk},
	{"no ib_umad", (*site).noUmad},
	{"wrong configuration", (*site).wrongConfiguration},
	{"watchdog", (*site).watchdog},
	{"remove", (*site).remove},
	{"purge", (*site).purge},
	{"ansible", (*site).ansible},
}

// steps does all steps, or the first one and those named.
func (s *site) steps(ctx context.Context, only string) error {
	for i, step := range script {
		if i > 0 && only != "" && !slices.Contains(strings.Split(only, ","), step.name) {
			continue
		}
		start := time.Now()
		found := step.do(s, ctx)
		if s.failed != nil {
			fmt.Printf("%-22s %7.1f s  FAIL\n", step.name, time.Since(start).Seconds())
			return fmt.Errorf("%s: %w", step.name, s.failed)
		}
		fmt.Printf("%-22s %7.1f s  %s\n", step.name, time.Since(start).Seconds(), found)
		s.done++
	}
	return nil
}

// install makes a managed fabric of a fresh Debian by README's commands.
func (s *site) install(ctx context.Context) string {
	s.must(ctx, "systemctl is-system-running --wait || :; systemctl is-active ibsim && ! command -v forsd")
	s.all(ctx, "apt-get -y -q --no-install-recommends install opensm") // the manager that is there
	begun := time.Now()
	var said []string
	for _, section := range []string{"Watch first", "Install"} {
		for _, command := range mend.Commands(s.readme, section) {
			line := "cd /media; yes 2>/dev/null | { " + command + "\n}"
			if strings.Contains(command, "forsctl status") {
				line += " || [ $? -eq 1 ]" // a critical warning
			}
			if out := s.must(ctx, line); !strings.Contains(command, "apt-get") {
				said = append(said, command, out)
			}
		}
		if section == "Watch first" {
			s.await(ctx, "what an exchange costs now", func(t *api.Status) bool { return t.Watches && t.Watched != nil && t.Watched.Plan != nil })
		}
	}
	status := s.await(ctx, "a plan in force", inForce)
	took := time.Since(begun)
	s.verified(ctx)
	if status.Servers != s.leaves*s.spines {
		s.fail("the plan is of %d servers, and the fabric has %d", status.Servers, s.leaves*s.spines)
	}
	doctor := s.must(ctx, "cd /run/forsd; set -a; . /etc/fabric.env; forsctl doctor")
	s.says(ctx, "forsctl doctor", "OpenSM and forsd start at boot")
	s.all(ctx, "cd /media && apt-get -y -q install ./dist/*.deb", // and all settings, as they are installed without the first watch
		"dpkg-deb --fsys-tarfile /media/dist/forsd_*.deb | tar -xO ./etc/forsd/forsd.yaml >/etc/forsd/forsd.yaml; systemctl restart forsd")
	s.planned(ctx)
	return fmt.Sprintf("README's commands: %.1f s to the plan in force\n%s\n%s", took.Seconds(), indent(strings.Join(said, "\n")), indent(doctor))
}

// indent puts text below a line of the report.
func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// alone starts forsd without a subnet manager: the command that starts it does not wait.
func (s *site) alone(ctx context.Context) string {
	s.all(ctx, "systemctl stop opensm forsd", "timeout 600 systemctl enable --now forsd", "forsctl status >/dev/null || [ $? -eq 1 ]", "systemctl restart opensm")
	s.planned(ctx)
	return "systemctl enable --now forsd returns, the API answers"
}

// reboot: the subnet is managed and a plan in force without intervention.
func (s *site) reboot(ctx context.Context) string {
	before := s.status(ctx)
	begun := time.Now()
	s.boot(ctx)
	s.must(ctx, "systemctl is-system-running --wait")
	booted := time.Since(begun)
	after := s.planned(ctx)
	if after.Epoch < before.Epoch {
		s.fail("epoch %d is in force after the reboot, and was %d before", after.Epoch, before.Epoch)
	}
	return fmt.Sprintf("system running after %.1f s, plan in force after %.1f s", booted.Seconds(), time.Since(begun).Seconds())
}

// cablePulled: a plan without the dead cable, tables without it, and back.
func (s *site) cablePulled(ctx context.Context) string {
	before := s.status(ctx)
	s.pull(ctx, 1)
	down := s.await(ctx, "a plan without the cable", func(t *api.Status) bool {
		return inForce(t) && t.Epoch > before.Epoch && e2e.HasWarning(t, "cable-down")
	})
	s.verified(ctx)
	s.byPage(ctx, "cable-down", "relink "+s.cable(1))
	return fmt.Sprintf("published %.0f ms after the first sign, read back after %.0f ms", 1e3*down.LastEvent.PublishedSeconds, 1e3*down.LastEvent.ReadBackSeconds)
}

// mend puts a cable back, and waits until it is in the plan.
func (s *site) mend(ctx context.Context, leaf int) {
	s.console(ctx, "relink "+s.cable(leaf))
	s.await(ctx, "a plan with the cable", func(t *api.Status) bool {
		return inForce(t) && !e2e.HasWarning(t, "cable-down") && len(t.Baseline) == 0
	})
	s.verified(ctx)
}

// killForsd: systemd brings it back with the plan that it had.
func (s *site) killForsd(ctx context.Context) string {
	before := s.status(ctx)
	manager := s.manager(ctx)
	begun := time.Now()
	s.all(ctx, "systemctl kill -s KILL forsd")
	s.back(ctx, before)
	s.untouched(ctx, manager)
	return fmt.Sprintf("back after %.1f s", time.Since(begun).Seconds())
}

// back waits until another forsd has a plan in force, not an older one.
func (s *site) back(ctx context.Context, before *api.Status) {
	var after *api.Status
	s.until(ctx, "forsd is back", func(try *site) { // it may not answer for a moment
		if after = try.status(ctx); !inForce(after) || !after.Started.After(before.Started) {
			try.fail("it has not come back")
		}
	})
	if s.failed == nil && after.Epoch < before.Epoch {
		s.fail("epoch %d is in force, and was %d before", after.Epoch, before.Epoch)
	}
	s.verified(ctx)
}

// killOpenSM: systemd brings it back, and the plugin finds forsd again. If systemd does not,
// an operator does.
func (s *site) killOpenSM(ctx context.Context) string {
	var found []string
	for _, signal := range []string{"KILL", "SEGV"} {
		pid := s.manager(ctx)
		begun := time.Now()
		s.all(ctx, "systemctl kill -s "+signal+" '"+opensm+"'")
		s.until(ctx, "OpenSM is back", func(try *site) {
			if try.manager(ctx) == pid {
				try.fail("it has not come back")
			}
		})
		s.planned(ctx)
		found = append(found, fmt.Sprintf("SIG%s: back after %.1f s", signal, time.Since(begun).Seconds()))
	}
	const once = "/run/systemd/system/opensm@.service.d/zz.conf"
	s.all(ctx, "mkdir -p $(dirname "+once+"); printf '[Service]\\nRestart=no\\n' >"+once+"; systemctl daemon-reload; systemctl kill -s KILL '"+opensm+"'")
	s.byPage(ctx, "opensm-not-running", "")
	s.all(ctx, "rm "+once+"; systemctl daemon-reload")
	return strings.Join(found, ", ") + "; where it stays away, the page brings it back"
}

// load is the activity during an upgrade: readers of the plan, a job, and a cable that
// dies and comes back.
const load = `systemd-run -q --unit=load --collect sh -c 'while :; do forsctl phases --out /tmp/load.bin; forsctl status; forsctl topology; done >/dev/null 2>&1'
systemd-run -q --unit=flap --collect sh -c 'while :; do echo unlink %[1]s; sleep 5; echo relink %[1]s; sleep 5; done >/run/ibsim/console'
forsctl job create --nodes Hca000[1-4] --name upgraded`

// upgrade: from the previous packages under load, with OpenSM's process untouched.
func (s *site) upgrade(ctx context.Context) string {
	s.all(ctx, "echo '# ours' >>/etc/forsd/forsd.yaml; cd /media && apt-get -y -q --allow-downgrades install ./previous/*.deb", "systemctl restart forsd opensm")
	before := s.planned(ctx)
	manager := s.manager(ctx)
	s.all(ctx, fmt.Sprintf(load, s.cable(1)), "sleep 5; cd /media && apt-get -y -q install ./dist/*.deb", "systemctl stop load flap")
	s.untouched(ctx, manager)
	s.mend(ctx, 1)
	s.back(ctx, before)
	s.all(ctx, "grep -q '# ours' /etc/forsd/forsd.yaml && sed -i '/# ours/d' /etc/forsd/forsd.yaml",
		"grep -q 'libforsosm.so (deleted)' /proc/"+manager+"/maps", "forsctl job rm upgraded")
	return "downgraded, upgraded under load; OpenSM's process stayed, job and settings too"
}

// fullDisk: a dead cable leaves the tables though nothing can be stored.
func (s *site) fullDisk(ctx context.Context) string {
	const fill = `fallocate -l $(df --output=avail -B1 / | tail -n 1) /fill || :; dd if=/dev/zero bs=4096 >>/fill 2>/dev/null || :; ! echo something >/var/lib/forsd/x 2>/dev/null`
	before := s.status(ctx)
	s.all(ctx, fill)
	begun := time.Now()
	s.pull(ctx, 1)
	mended := time.Since(begun)
	s.await(ctx, "a plan that could not be stored", func(t *api.Status) bool { return e2e.HasWarning(t, "state-not-durable") && t.Epoch > before.Epoch })
	full := s.byPage(ctx, "state-not-durable", "")
	s.all(ctx, "rm -f /var/lib/forsd/x; systemctl restart forsd")
	s.back(ctx, full)
	s.mend(ctx, 1)
	return fmt.Sprintf("tables without the dead cable after %.1f s, epoch kept", mended.Seconds())
}

// noUmad: without the module the host boots, nothing fails, and doctor names the missing
// module.
func (s *site) noUmad(ctx context.Context) string {
	s.all(ctx, "mv /etc/modules-load.d/fabric.conf /root")
	s.boot(ctx)
	s.all(ctx, "systemctl is-system-running --wait", "! systemctl is-active opensm && ! systemctl is-active forsd")
	s.says(ctx, "forsctl doctor", "ib_umad")
	s.all(ctx, "mv /root/fabric.conf /etc/modules-load.d; modprobe ib_umad; systemctl restart opensm forsd")
	s.planned(ctx)
	return "the host boots; doctor names the module"
}

// wrongConfiguration: forsd reports the mistake once, and OpenSM routes on.
func (s *site) wrongConfiguration(ctx context.Context) string {
	manager := s.manager(ctx)
	s.all(ctx, "echo 'planing: {}' >>/etc/forsd/forsd.yaml", "! systemctl restart forsd",
		"systemctl is-failed forsd; [ $(systemctl show -P NRestarts forsd) = 0 ] && [ $(systemctl show -P ExecMainStatus forsd) = 78 ]")
	for _, script := range []string{"forsd --check", "journalctl -u forsd -n 20", "forsctl doctor"} {
		s.says(ctx, script, "planing", "forsd.yaml")
	}
	s.untouched(ctx, manager)
	s.byPage(ctx, "configuration-refused", "")
	return "refused once, with the file and the key; OpenSM's process stayed"
}

// watchdog: a forsd that hangs is ended and started again.
func (s *site) watchdog(ctx context.Context) string {
	before := s.status(ctx)
	begun := time.Now()
	s.all(ctx, "systemctl kill -s STOP forsd", "timeout 600 sh -c 'until journalctl -b -u forsd | grep -q \"Watchdog timeout\"; do sleep 1; done'")
	ended := time.Since(begun)
	s.back(ctx, before)
	return fmt.Sprintf("ended after %.1f s, back after %.1f s", ended.Seconds(), time.Since(begun).Seconds())
}

// remove: OpenSM goes on with the tables that it has; settings and state stay.
func (s *site) remove(ctx context.Context) string {
	manager := s.manager(ctx)
	s.says(ctx, "apt-get -y -q remove forsd", "forsctl setup --undo")
	s.all(ctx, "! systemctl is-active forsd", "test -e /etc/forsd/forsd.yaml && test -e /var/lib/forsd/epochs")
	s.untouched(ctx, manager)
	s.all(ctx, scan+"forsctl verify --topology /tmp/net --lfts /tmp/tables --phases /tmp/phases.bin")
	return "OpenSM's process stayed and routes on, settings and state stay too"
}

// purge: nothing of forsd is left.
func (s *site) purge(ctx context.Context) string {
	s.all(ctx, "forsctl setup --undo; systemctl restart opensm")
	s.until(ctx, "OpenSM routes by itself", func(try *site) {
		try.all(ctx, scan+"! grep -q 'lmc [1-7]' /tmp/net && grep -q 'valid lids dumped' /tmp/tables")
	})
	s.all(ctx, "apt-get -y -q purge 'forsd*' forsctl 'libfors*' 'libforgpu*'", "! test -e /var/lib/forsd && ! test -e /etc/forsd",
		`! find / -xdev \( -path /media -o -path /proc -o -path /var/lib/dpkg -o -path /etc/opensm -o -path '*/forsd.service.d' \) -prune -o -name '*fors[dcm]*' -print | grep .`)
	return "OpenSM routes by itself; nothing of forsd is left"
}

// ansible: the role makes a managed fabric of a Debian without forsd, and a second run
// changes nothing.
func (s *site) ansible(ctx context.Context) string {
	const play = `printf "[opensm]\\nlocalhost\\n" >/tmp/inventory; cd /media/ansible && LC_ALL=C.UTF-8 ansible-playbook -i /tmp/inventory -c local -e ansible_python_interpreter=/usr/bin/python3 -e ansible_become=false -e forsd_restart_opensm=true -e "{forsd_packages: [$(ls /media/dist/forsd_*.deb), $(ls /media/dist/forsctl_*.deb)]}" `
	begun := time.Now()
	s.says(ctx, play+"site.yml", "failed=0")
	first := time.Since(begun)
	s.planned(ctx)
	s.says(ctx, play+"site.yml", "changed=0", "failed=0")
	s.all(ctx, "systemctl stop opensm 'opensm@*' forsd", "! { "+play+"-e forsd_wait=2 site.yml; }", "systemctl start opensm forsd")
	return fmt.Sprintf("plan in force after %.1f s; a second run changes nothing; without a plan it fails", first.Seconds())
}
