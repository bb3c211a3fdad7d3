// Package rdma lists the RDMA devices of this machine: the ports that OpenSM and the diagnostic
// tools can use, their device nodes, and their states. It does not read switches.
package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/Mellanox/rdmamap"
	"github.com/vishvananda/netlink"

	"github.com/forsd/forsd/ib"
)

// Device is a local RDMA device.
type Device struct {
	Name     string  `json:"name"` // such as mlx5_0
	NodeGUID ib.GUID `json:"node_guid"`
	Firmware string  `json:"firmware"` // "" if neither netlink nor sysfs has it
	Ports    []Port  `json:"ports"`    // by number

	// NetlinkErr is why the kernel's RDMA netlink did not describe the device, or nil. The
	// other fields come from sysfs and are valid in any case.
	NetlinkErr error `json:"-"`
}

// Port is a port of a local RDMA device.
type Port struct {
	Number    int     `json:"number"`
	GUID      ib.GUID `json:"guid"`       // zero if the port has no GID
	LID       ib.LID  `json:"lid"`        // zero until a subnet manager assigns one
	LMC       uint8   `json:"lmc"`        // 0 to 7
	SMLID     ib.LID  `json:"sm_lid"`     // of the subnet manager; zero if unknown
	State     string  `json:"state"`      // DOWN, INIT, ARMED, ACTIVE
	PhysState string  `json:"phys_state"` // such as LinkUp, Polling, Disabled
	Rate      string  `json:"rate"`       // such as "200 Gb/sec (4X HDR)"
	LinkLayer string  `json:"link_layer"` // InfiniBand or Ethernet
	Umad      string  `json:"umad"`       // node for management datagrams, or ""
	ISSM      string  `json:"issm"`       // node that a subnet manager holds open, or ""
}

// Devices lists the devices by name. The list is empty, without an error, on a machine without
// RDMA devices or without RDMA in its kernel. If some data of a device are missing, the error
// describes them, and the list has the rest.
func Devices() ([]Device, error) {
	s := scanner{
		devices: rdmamap.GetRdmaDeviceList,
		ports:   rdmamap.GetPorts,
		link:    netlink.RdmaLinkByName,
		sys:     os.DirFS("/sys"),
	}
	return s.scan()
}

// scanner has the sources of Devices. rdmamap only uses the real /sys.
type scanner struct {
	devices func() []string
	ports   func(device string) []string
	link    func(device string) (*netlink.RdmaLink, error)
	sys     fs.FS
}

func (s *scanner) scan() ([]Device, error) {
	nodes, err := s.madNodes()
	errs := []error{err}
	names := s.devices()
	slices.Sort(names)
	devices := make([]Device, 0, len(names))
	for _, name := range names {
		d, err := s.device(name, nodes)
		devices = append(devices, d)
		errs = append(errs, err)
	}
	return devices, errors.Join(errs...)
}

func (s *scanner) device(name string, nodes map[madKey]madNodes) (Device, error) {
	d := Device{Name: name}
	r := reader{sys: s.sys, dir: classDir + "/" + name}
	d.NodeGUID = r.guid("node_guid", r.text("node_guid"))
	if link, err := s.link(name); err != nil {
		d.NetlinkErr = err
		d.Firmware = r.optional("fw_ver")
	} else {
		d.Firmware = link.Attrs.FirmwareVersion
	}
	for _, number := range s.ports(name) {
		d.Ports = append(d.Ports, r.port(number, nodes[madKey{name, number}]))
	}
	slices.SortFunc(d.Ports, func(a, b Port) int { return cmp.Compare(a.Number, b.Number) })
	return d, errors.Join(r.errs...)
}

// The kernel's classes in /sys for RDMA devices and their management nodes.
const (
	classDir = "class/infiniband"
	madDir   = "class/infiniband_mad"
)

// nodeDir is where udev creates the management nodes.
const nodeDir = "/dev/infiniband"

// madKey identifies a port in the terms of the management nodes.
type madKey struct{ device, port string }

// madNodes holds the management nodes of a port.
type madNodes struct{ umad, issm string }

// madNodes finds the management nodes of all ports. rdmamap names only one of each for a
// device, which does not suffice for a device with several ports.
func (s *scanner) madNodes() (map[madKey]madNodes, error) {
	entries, err := fs.ReadDir(s.sys, madDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list the management devices: %w", err)
	}
	nodes := map[madKey]madNodes{}
	var errs []error
	for _, e := range entries {
		umad, issm := strings.HasPrefix(e.Name(), "umad"), strings.HasPrefix(e.Name(), "issm")
		if !umad && !issm {
			continue
		}
		r := reader{sys: s.sys, dir: path.Join(madDir, e.Name())}
		key := madKey{r.text("ibdev"), r.text("port")}
		errs = append(errs, r.errs...)
		n := nodes[key]
		if umad {
			n.umad = path.Join(nodeDir, e.Name())
		} else {
			n.issm = path.Join(nodeDir, e.Name())
		}
		nodes[key] = n
	}
	return nodes, errors.Join(errs...)
}

// reader reads the attributes in a directory of /sys and records failures.
type reader struct {
	sys  fs.FS
	dir  string
	errs []error
}

// port reads a port.
func (r *reader) port(number string, nodes madNodes) Port {
	dir := "ports/" + number + "/"
	n, err := strconv.Atoi(number)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("/sys/%s/ports/%s is not the number of a port", r.dir, number))
	}
	return Port{
		Number:    n,
		GUID:      r.gid(dir + "gids/0"),
		LID:       ib.LID(r.number(dir+"lid", 16)),
		LMC:       uint8(r.number(dir+"lid_mask_count", 3)),
		SMLID:     ib.LID(r.number(dir+"sm_lid", 16)),
		State:     afterNumber(r.text(dir + "state")),
		PhysState: afterNumber(r.text(dir + "phys_state")),
		Rate:      r.text(dir + "rate"),
		LinkLayer: r.text(dir + "link_layer"),
		Umad:      nodes.umad,
		ISSM:      nodes.issm,
	}
}

// text reads an attribute and trims the space around it.
func (r *reader) text(name string) string {
	data, err := fs.ReadFile(r.sys, path.Join(r.dir, name))
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("read /sys/%s/%s: %w", r.dir, name, err))
	}
	return strings.TrimSpace(string(data))
}

// optional reads an attribute that may be missing.
func (r *reader) optional(name string) string {
	data, _ := fs.ReadFile(r.sys, path.Join(r.dir, name))
	return strings.TrimSpace(string(data))
}

// number reads an attribute such as 0x1f or 5 that has at most the given number of bits.
func (r *reader) number(name string, bits int) uint64 {
	text := r.text(name)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("read /sys/%s/%s: %q is not a number of %d bits", r.dir, name, text, bits))
		return 0
	}
	return v
}

// guid parses the text of an attribute such as 0002:c903:0030:4bd0; "" gives 0.
func (r *reader) guid(name, text string) ib.GUID {
	if text == "" {
		return 0
	}
	g, err := ib.ParseGUID(strings.ReplaceAll(text, ":", ""))
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("read /sys/%s/%s: %w", r.dir, name, err))
	}
	return g
}

// gid reads the GUID in the lower half of a GID. A port of a device without InfiniBand may lack
// a GID.
func (r *reader) gid(name string) ib.GUID {
	groups := strings.Split(r.optional(name), ":")
	if len(groups) != 8 {
		return 0
	}
	return r.guid(name, strings.Join(groups[4:], ""))
}

// afterNumber returns the word of a state such as "4: ACTIVE".
func afterNumber(s string) string {
	if _, word, ok := strings.Cut(s, ": "); ok {
		return word
	}
	return s
}
