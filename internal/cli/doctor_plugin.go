package cli

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/opensm"
)

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
