// Package rdma lists the RDMA devices of this machine: which of their ports
// OpenSM and the diagnostic tools can use, by which device nodes, and in which
// state they are. It sees no switch.
package rdma

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/forsd/forsd/topology"
)

// Device is a local RDMA device.
type Device struct {
	Name     string        `json:"name"` // such as mlx5_0
	NodeGUID topology.GUID `json:"node_guid"`
	Firmware string        `json:"firmware"` // "" where the kernel does not tell
	Ports    []Port        `json:"ports"`    // by number
}

// Port is a port of a local RDMA device.
type Port struct {
	Number    int           `json:"number"`
	GUID      topology.GUID `json:"guid"`       // zero where the port has no GID
	LID       topology.LID  `json:"lid"`        // zero until a subnet manager assigns one
	LMC       uint8         `json:"lmc"`        // 0 to 7
	SMLID     topology.LID  `json:"sm_lid"`     // of the subnet manager, zero if unknown
	State     string        `json:"state"`      // DOWN, INIT, ARMED, ACTIVE
	PhysState string        `json:"phys_state"` // such as LinkUp, Polling, Disabled
	Rate      string        `json:"rate"`       // such as "200 Gb/sec (4X HDR)"
	LinkLayer string        `json:"link_layer"` // InfiniBand or Ethernet
	Umad      string        `json:"umad"`       // node for management datagrams, "" if none
	ISSM      string        `json:"issm"`       // node that a subnet manager holds open, "" if none
}

// Devices lists the devices by name; a machine without any, or without RDMA in
// its kernel, has none and that is no error. Where a device tells less than it
// should, the error says what, and the list holds the rest.
func Devices() ([]Device, error) { return scan(os.DirFS("/sys")) }

// scan lists the devices that a /sys shows.
func scan(sys fs.FS) ([]Device, error) {
	nodes, err := findNodes(sys)
	errs := []error{err}
	var devices []Device
	for _, name := range entries(sys, classDir) {
		r := reader{sys: sys, dir: path.Join(classDir, name)}
		d := Device{Name: name, NodeGUID: r.guid("node_guid"), Firmware: r.optional("fw_ver")}
		for _, number := range entries(sys, path.Join(r.dir, "ports")) {
			d.Ports = append(d.Ports, r.port(number, nodes[madKey{name, number}]))
		}
		slices.SortFunc(d.Ports, func(a, b Port) int { return cmp.Compare(a.Number, b.Number) })
		devices = append(devices, d)
		errs = append(errs, r.errs...)
	}
	return devices, errors.Join(errs...)
}

// entries lists a directory by name; one that is missing has none.
func entries(sys fs.FS, dir string) (names []string) {
	list, _ := fs.ReadDir(sys, dir)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
