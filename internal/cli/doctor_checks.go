package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/rdma"
	"github.com/forsd/forsd/internal/rights"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/topology"
)

// checkManager finds OpenSM and checks the settings that it uses, or would start with.
func (d *doctor) checkManager() {
	c := &d.config.OpenSM
	if len(c.DiscoverCommand) > 0 {
		d.checkFromAfar()
		return
	}
	var process *opensm.Process
	if p, err := c.Finder().Find(d.ctx); err == nil {
		process = &p
		d.note("opensm", good, "OpenSM runs as %s", p)
	} else if errors.Is(err, opensm.ErrNotRunning) {
		d.note("opensm", fail, "%v; once the settings below are right, run systemctl restart opensm (start does nothing after a crash)", err)
	} else {
		d.note("opensm", fail, "%v", err)
	}
	settings, err := opensm.LoadSettings(process, c.Conf)
	if err != nil {
		d.note("opensm-conf", warn, "%v", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	d.checkPlugin(&settings)
	lanes := 0
	if d.status != nil {
		lanes = d.status.Lanes
	}
	findings := settings.Check(c.Want(lanes))
	for _, f := range findings {
		g := warn
		if f.Severity == health.Critical {
			g = fail
		}
		d.note(f.Code, g, "%s: %s", f.Title, f.Text)
	}
	if len(findings) == 0 {
		d.note("opensm-settings", good, "nothing in %s defeats forsd", settings.Conf)
	}
}

// checkUser looks up the user that forsd runs as.
func (d *doctor) checkUser(name string) {
	id, err := rights.Lookup(name)
	if err != nil {
		d.user = rights.Self()
		d.note("user", warn, "%v: permissions are checked for %s; create it with systemd-sysusers, or name another by --user", err, d.user.Name)
		return
	}
	d.user = id
	d.note("user", good, "permissions are checked for %s", id.Name)
}

// checkFiles checks that forsd's user may access its own files and the files that it shares
// with OpenSM.
func (d *doctor) checkFiles() {
	c := d.config
	if len(c.OpenSM.DiscoverCommand) > 0 { // OpenSM's files are on another host
		d.canWrite("state-dir", c.StateDir)
		return
	}
	d.canRead("dump", c.OpenSM.DumpDir, opensm.SubnetFile, "OpenSM writes it after its first successful sweep")
	d.canRead("guid2lid", c.OpenSM.CacheDir, opensm.GUID2LIDFile, "OpenSM writes it when it gives out LIDs; until then its setting tells the LMC")
	d.canWrite("table-file", filepath.Dir(c.OpenSM.LFTsFile))
	d.canWrite("state-dir", c.StateDir)
}

// canRead checks that a directory is readable, and that a file in it is readable if it exists.
func (d *doctor) canRead(check, dir, file, why string) {
	path := filepath.Join(dir, file)
	err := d.user.May(rights.Read|rights.Search, dir)
	if err == nil {
		err = d.user.May(rights.Read, path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.note(check, warn, "there is no %s yet: %s", path, why)
	case err != nil:
		d.note(check, fail, "%s", advised(err))
	default:
		d.note(check, good, "%s is readable", path)
	}
}

// canWrite checks that files can be created and replaced in a directory.
func (d *doctor) canWrite(check, dir string) {
	switch err := d.user.May(rights.Write|rights.Search, dir); {
	case errors.Is(err, fs.ErrNotExist):
		d.note(check, fail, "there is no directory %s: forsd.service creates it at its start, or run install -d -o %s %s", dir, d.user.Name, dir)
	case err != nil:
		d.note(check, fail, "%s", advised(err))
	default:
		d.note(check, good, "%s is writable", dir)
	}
}

// advised formats an error. For a missing permission it adds a remedy.
func advised(err error) string {
	if l, ok := errors.AsType[*rights.Lack](err); ok {
		return fmt.Sprintf("%v: %s", err, l.Advice())
	}
	return err.Error()
}

// checkReading checks how tables are read out of the switches: by forsd itself, or by a
// configured command.
func (d *doctor) checkReading() {
	port, own := opensm.PickPort(string(d.config.OpenSM.Umad), d.fabric())
	switch {
	case own == nil:
		d.note("reader", good, "forsd reads the switches itself, by %s", port)
	case d.config.OpenSM.Umad == config.UmadOff:
		d.note("reader", good, "opensm.umad is off: a command reads the switches")
	default:
		d.note("reader", warn, "forsd cannot read the switches itself, and a command does, which takes several times as long: %v", own)
	}
	name := d.config.OpenSM.DumpCommand[0]
	path, err := opensm.Program(name)
	if err != nil {
		d.note("readback", fail, "there is no command %s, which reads tables out of the switches: install infiniband-diags, or set opensm.dump_command in forsd.yaml", name)
		return
	}
	if own == nil {
		d.note("readback", good, "%s reads the tables where forsd cannot", path)
		return
	}
	d.note("readback", good, "tables are read back by %s", path)
}

// fabric returns the fabric from OpenSM's last dump, or nil if the dump cannot be read.
func (d *doctor) fabric() *topology.Fabric {
	data, err := command.ReadPath(filepath.Join(d.config.OpenSM.DumpDir, opensm.SubnetFile), command.MaxFile)
	if err != nil {
		return nil // another check reports this
	}
	f, err := topology.ReadSubnetLst(data)
	if err != nil {
		return nil
	}
	return f
}

// checkDevices lists the local RDMA ports, and checks that forsd's user may use one of them.
func (d *doctor) checkDevices(devices []rdma.Device, err error) {
	d.Devices = append([]rdma.Device{}, devices...)
	if err != nil {
		d.note("rdma", warn, "%v", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if len(devices) == 0 {
		d.note("rdma", warn, "no RDMA devices on this machine: OpenSM and %s need one with an InfiniBand port", d.config.OpenSM.DumpCommand[0])
		return
	}
	active, ethernet := 0, 0
	for i := range devices {
		for j := range devices[i].Ports {
			if devices[i].Ports[j].LinkLayer != "InfiniBand" {
				ethernet++ // RoCE, which a subnet manager does not handle
			} else if d.checkPort(&devices[i], &devices[i].Ports[j]) {
				active++
			}
		}
	}
	if active == 0 {
		beside := ""
		if ethernet > 0 {
			beside = fmt.Sprintf(" (%s)", command.Plural(ethernet, "Ethernet port does not count", "Ethernet ports do not count"))
		}
		d.note("umad", fail, "no InfiniBand port is active and can be used%s: tables cannot be read back", beside)
	}
}

// checkPort describes a port, and reports whether tables can be read back through it.
func (d *doctor) checkPort(device *rdma.Device, p *rdma.Port) bool {
	text := fmt.Sprintf("%s port %d (%s, firmware %s) is %s, %s, %s", device.Name, p.Number, p.LinkLayer, cmp.Or(device.Firmware, "none"), p.State, p.PhysState, p.Rate)
	text += fmt.Sprintf(", LID %d, umad node %s, issm node %s", p.LID, cmp.Or(p.Umad, "none"), cmp.Or(p.ISSM, "none"))
	switch {
	case p.State != "ACTIVE":
		d.note("rdma", warn, "%s: check its cable, and that a subnet manager runs", text)
		return false
	case p.Umad == "":
		d.note("rdma", warn, "%s: run modprobe ib_umad, and put ib_umad into a file in /etc/modules-load.d", text)
		return false
	}
	node := filepath.Join("/dev/infiniband", filepath.Base(p.Umad))
	switch err := d.user.May(rights.Read|rights.Write, node); {
	case errors.Is(err, fs.ErrNotExist):
		d.note("rdma", warn, "%s; there is no %s: run udevadm trigger -s infiniband_mad, and in a container hand the device in", text, node)
		return false
	case err != nil:
		d.note("rdma", warn, "%s; %v: install 70-forsd.rules, then run udevadm control --reload and udevadm trigger -s infiniband_mad", text, err)
		return false
	}
	d.note("rdma", good, "%s", text)
	return true
}
