package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/forsd/forsd/ib"
)

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
		return ""
	}
	return strings.TrimSpace(string(data))
}

// optional reads an attribute that may be missing.
func (r *reader) optional(name string) string {
	data, err := fs.ReadFile(r.sys, path.Join(r.dir, name))
	if err != nil {
		return ""
	}
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

// guid reads an attribute such as 0002:c903:0030:4bd0.
func (r *reader) guid(name string) ib.GUID {
	text := r.text(name)
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
	g, err := ib.ParseGUID(strings.Join(groups[4:], ""))
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("read /sys/%s/%s: %w", r.dir, name, err))
	}
	return g
}

// afterNumber returns the word of a state such as "4: ACTIVE".
func afterNumber(s string) string {
	if _, word, ok := strings.Cut(s, ": "); ok {
		return word
	}
	return s
}
