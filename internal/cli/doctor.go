package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/rdma"
	"github.com/forsd/forsd/internal/rights"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/opensm"
)

// grade is the outcome of a check.
type grade string

const (
	good grade = "ok"
	warn grade = "warn"
	fail grade = "fail"
)

// finding is a line of forsctl doctor.
type finding struct {
	Check string `json:"check"` // the name of the check; stable
	Grade grade  `json:"grade"`
	Text  string `json:"text"` // the result, and a remedy
}

// diagnosis is the output of forsctl doctor --json.
type diagnosis struct {
	OK      bool          `json:"ok"` // no check failed
	Checks  []finding     `json:"checks"`
	Devices []rdma.Device `json:"devices"` // local RDMA devices
}

// doctor carries the checks of one run.
type doctor struct {
	diagnosis
	ctx    context.Context
	path   string // of forsd.yaml
	config *config.Config
	user   *rights.ID  // the user that forsd runs as
	status *api.Status // of a running forsd; nil if none answers
}

func doctorCommand() *cobra.Command {
	var path, user string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything around forsd: OpenSM's settings, permissions, tools, devices",
		Long: `Doctor looks at all that forsd depends on and prints one line a check (ok, warn
or fail), with what to do: forsd's configuration, whether forsd answers, OpenSM's
process and settings, whether forsd's user has the permissions it needs, how
tables are read back, and the local RDMA devices with their umad and issm
nodes and port states. Run it as root to see everything.

Exit code 1: something fails.`,
		Example: "  sudo forsctl doctor\n  forsctl doctor --config ./forsd.yaml --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{ctx: cmd.Context(), path: path}
			d.checkConfig(cmd.Flags().Changed("config"))
			addr := d.config.API.Socket
			if given, _ := cmd.Flags().GetString("server"); given != defaultSocket {
				addr = given
			}
			d.checkDaemon(addr)
			d.checkAccess()
			d.checkManager()
			d.checkBoot()
			d.checkUser(user)
			d.checkFiles()
			d.checkReading()
			d.checkDevices(rdma.Devices())
			return d.report(cmd)
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "forsd's configuration; the default one may be absent")
	cmd.Flags().StringVar(&user, "user", "forsd", "the user that forsd runs as")
	return cmd
}

// note adds a finding.
func (d *doctor) note(check string, g grade, format string, args ...any) {
	d.Checks = append(d.Checks, finding{check, g, fmt.Sprintf(format, args...)})
}

// report prints the findings. It fails if a check failed.
func (d *doctor) report(cmd *cobra.Command) error {
	failed := 0
	for _, f := range d.Checks {
		if f.Grade == fail {
			failed++
		}
	}
	d.OK = failed == 0
	err := command.Show(cmd, d.diagnosis, func(w io.Writer) {
		for _, f := range d.Checks {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Grade, f.Check, f.Text)
		}
	})
	if err == nil && failed > 0 {
		err = command.Violated{Err: fmt.Errorf("%s of %d failed", command.Plural(failed, "check", "checks"), len(d.Checks))}
	}
	return err
}

// checkConfig reads forsd.yaml. If the file cannot be used, the other checks continue with the
// defaults.
func (d *doctor) checkConfig(given bool) {
	cfg, err := config.Load(d.path)
	switch {
	case err == nil:
		d.note("config", good, "%s is valid", d.path)
	case !given && errors.Is(err, fs.ErrNotExist):
		d.note("config", good, "there is no %s: forsd works with its defaults", d.path)
	default:
		d.note("config", fail, "%v; the checks below take the defaults; see %s", err, health.Runbook(config.Refused))
	}
	if d.config = cfg; err != nil {
		d.config = config.Default()
	}
}

// checkDaemon asks forsd for its state.
func (d *doctor) checkDaemon(addr string) {
	c, err := api.Dial(addr)
	if err != nil {
		d.note("forsd", fail, "%v", err)
		return
	}
	defer c.Close()
	s, err := c.Status(d.ctx)
	if err != nil {
		d.note("forsd", fail, "%v", unreached(rights.Self(), addr, err))
		return
	}
	d.status = s
	switch {
	case !s.Ready && critical(s.Warnings) == 0:
		d.note("forsd", warn, "forsd %s answers at %s, and no verified epoch is in force yet: it is in state %s", s.Version, addr, s.State)
	case len(s.Warnings) > 0:
		grade, codes := warn, make([]string, len(s.Warnings))
		for i := range s.Warnings {
			codes[i] = s.Warnings[i].Code
		}
		if critical(s.Warnings) > 0 {
			grade = fail
		}
		d.note("forsd", grade, "epoch %d is in force, with %s (%s): see forsctl status --all", s.Epoch, command.Plural(len(codes), "warning", "warnings"), strings.Join(slices.Compact(codes), ", "))
	default:
		d.note("forsd", good, "forsd %s answers at %s, epoch %d is in force", s.Version, addr, s.Epoch)
	}
}

// checkAccess checks that the API is served as configured, and that the credentials of clients
// are valid. It asks a running forsd, or else reads the files that forsd would start with.
func (d *doctor) checkAccess() {
	before := len(d.Checks)
	if d.status != nil {
		for _, w := range d.status.Warnings {
			if slices.ContainsFunc(access.Kinds(), func(k health.Warnable) bool { return k.Code == w.Code }) {
				d.expires(w.Code, w.Text)
			}
		}
	} else {
		d.wouldServe()
	}
	if len(d.Checks) == before {
		d.note("access", good, "nothing of the API's certificates and tokens expires soon, and its addresses can be listened on")
	}
}

// wouldServe checks the files and addresses of the API if forsd does not run.
func (d *doctor) wouldServe() {
	c := &d.config.API
	if c.TLS.Certificate != "" {
		certificates := access.LoadCertificates(c.TLS.Files, func(err error) {
			d.note(access.Incomplete, fail, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		})
		for _, f := range access.Judge(certificates.Terms(), time.Now()) {
			d.expires(f.Code, f.Text)
		}
	}
	for _, x := range []struct{ setting, address string }{{"api.listen", c.Listen}, {"api.tls.listen", c.TLS.Listen}} {
		if x.address == "" {
			continue
		}
		if err := server.CanListen(x.address); err != nil {
			d.note(access.ListenerDown, fail, "%s: %v", x.setting, err)
		}
	}
}

// expires adds a finding for a warning about access. It fails if something has expired.
func (d *doctor) expires(code, text string) {
	g := warn
	if code == access.Expired {
		g = fail
	}
	d.note(code, g, "%s", text)
}

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

// checkPlugin checks whether OpenSM's plugin is installed, must be loaded, and is connected.
func (d *doctor) checkPlugin(s *opensm.Settings) {
	enabled := d.config.OpenSM.Plugin.Enabled
	if enabled == config.EnabledOff {
		d.note("plugin", good, "opensm.plugin.enabled is off: forsd works by OpenSM's files")
		return
	}
	if d.status != nil && d.status.OpenSM.Plugin != nil {
		p := d.status.OpenSM.Plugin
		d.note("plugin", good, "OpenSM's plugin is connected since %s: %s, %s, waits %s for tables", command.Clock(p.Since), p.Version, p.State, command.Seconds(p.DeadlineSeconds))
		return
	}
	path := findPlugin()
	const get = opensm.PluginFile + " is not where the dynamic linker looks: make install puts it there where libopensm-dev is installed, and ldconfig makes it known"
	switch loaded := s.PluginLoaded(); {
	case loaded && path == "":
		d.note("plugin", fail, "%s names the plugin, and %s; then restart OpenSM", s.Conf, get)
	case loaded && d.status != nil && d.status.OpenSM.Running:
		d.note("plugin", fail, "%s names the plugin (%s), and it is not connected to %s: restart OpenSM if it was changed, then look into its log for %s",
			s.Conf, path, d.config.OpenSM.Plugin.Socket, opensm.PluginFile)
	case loaded:
		d.note("plugin", good, "OpenSM is to load %s", path)
	case path == "":
		d.note("plugin", warn, "forsd works by OpenSM's files, so that a failure takes two sweeps, and %s; then append the lines of opensm.conf.fragment to %s", get, s.Conf)
	default:
		d.note("plugin", warn, "forsd works by OpenSM's files, so that a failure takes two sweeps: %s is installed, append the lines of opensm.conf.fragment to %s and restart OpenSM", path, s.Conf)
	}
}

// findPlugin returns the plugin's path in the dynamic linker's cache, or "".
func findPlugin() string {
	ldconfig, err := opensm.Program("ldconfig")
	if err != nil {
		return ""
	}
	out, _ := exec.Command(ldconfig, "-p").Output() // without output the plugin is not found
	// "	libforsosm.so (libc6,x86-64) => /usr/local/lib/libforsosm.so"
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		name, path, found := strings.Cut(lines.Text(), " => ")
		if found && strings.HasPrefix(strings.TrimSpace(name), opensm.PluginFile+" ") {
			return filepath.Clean(path)
		}
	}
	return ""
}

// checkFromAfar checks the commands that a remote OpenSM needs.
func (d *doctor) checkFromAfar() {
	c := &d.config.OpenSM
	d.note("opensm", good, "OpenSM is on another host: its settings are not looked at")
	if len(c.InstallCommand) == 0 {
		d.note("install", warn, "opensm.install_command is empty: forsd does not bring its tables to OpenSM, and publishes only plans that hold on the tables in the switches")
	}
	for _, command := range [][]string{c.DiscoverCommand, c.InstallCommand} {
		if len(command) == 0 {
			continue
		}
		path, err := opensm.Program(command[0])
		if err != nil {
			d.note("command", fail, "there is no command %s", command[0])
			continue
		}
		d.note("command", good, "%s is there", path)
	}
}
