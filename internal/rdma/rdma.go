// Package rdma lists the RDMA devices of this machine: the ports that OpenSM and the diagnostic
// tools can use, their device nodes, and their states. It does not read switches.
package rdma

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"

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
	d.NodeGUID = r.guid("node_guid")
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
