package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
)

// Ibdmchk runs ibdmchk, of Debian's ibutils, on tables: it checks that every adapter is reached
// from every other, and that packets cannot wait for each other for ever. ibdmchk knows one LID
// a port; it gets the LID that is after LIDs after the port's base LID, if the port has it. These
// LIDs are numbered from 1 for it, because its time grows with the largest. Tables that it has
// accepted are not checked again.
func (s *Site) Ibdmchk(ctx context.Context, f *Fabric, t Tables, after int) error {
	text, lids, adapters := f.subnet(after, f.unread(t))
	fdbs := f.fdbs(t, lids)
	question := maphash.Bytes(seed, slices.Concat(text, fdbs))
	if s.agreed[question] {
		return nil
	}
	out, _, err := runIbdmchk(ctx, text, fdbs)
	if scanned := fmt.Sprintf("Scanned:%d CA to CA paths", adapters*(adapters-1)); bytes.Contains(out, []byte("-E-")) ||
		!bytes.Contains(out, []byte(scanned)) || !bytes.Contains(out, []byte("no credit loops found")) {
		return fmt.Errorf("ibdmchk, with LIDs %d after the base LIDs: %w; want %s and no credit loops: %s", after, err, scanned, told.FindAll(out, 5))
	}
	if s.agreed == nil {
		s.agreed = map[uint64]bool{}
	}
	s.agreed[question] = true
	return nil
}

// reports is the directory in which every run of ibdmchk leaves its reports.
const reports = "/var/cache/ibutils"

// runIbdmchk runs ibdmchk on a fabric as OpenSM's subnet.lst has it, and on tables as OpenSM
// wrote them when ibdmchk was made. It returns its output, and its report of how many
// destinations each port has. Only one ibdmchk runs at a time, even from other programs.
//
// If switches have ports without cables, ibdmchk prints its verdict, and then crashes when it
// frees its memory: its output counts, and not its exit status.
func runIbdmchk(ctx context.Context, subnet, fdbs []byte) (out, uses []byte, err error) {
	dir, err := os.MkdirTemp("", "ibdmchk-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	args := []string{"-l", "0"}
	for _, file := range []struct {
		flag string
		text []byte
	}{{"-s", subnet}, {"-f", fdbs}, {"-m", nil}} {
		path := filepath.Join(dir, file.flag)
		if err := os.WriteFile(path, file.text, 0o644); err != nil {
			return nil, nil, err
		}
		args = append(args, file.flag, path)
	}
	lock, err := os.Open(reports)
	if err != nil {
		return nil, nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, nil, fmt.Errorf("wait for others that run ibdmchk: %w", err)
	}
	out, err = exec.CommandContext(ctx, "ibdmchk", args...).CombinedOutput()
	uses, unread := os.ReadFile(filepath.Join(reports, "ibdmchk.sw_out_port_num_dlids"))
	return out, uses, errors.Join(err, unread)
}

// told are the words of ibdmchk's verdict.
var told = regexp.MustCompile(`(?m)^(?:-E-|-I- Scanned).*$`)

// subnet is the fabric as OpenSM's subnet.lst has it, with its LIDs, in order, and the number of
// its adapters' ports: a port whose LID has entries that were not read is left out.
func (f *Fabric) subnet(after, unread int) (text []byte, lids []int, adapters int) {
	var cables []end
	for i := range f.nodes {
		for p := range f.nodes[i].ports {
			at := end{i, p}
			if f.at(at).peer < 0 {
				continue
			}
			lid := f.after(at, after)
			if unread > 0 && (lid == unread || f.after(f.far(at), after) == unread) {
				continue
			}
			cables, lids = append(cables, at), append(lids, lid)
			if f.nodes[i].kind != 'S' {
				adapters++
			}
		}
	}
	slices.Sort(lids)
	lids = slices.Compact(lids)
	number := func(at end) int {
		n, _ := slices.BinarySearch(lids, f.after(at, after))
		return n + 1
	}
	var out bytes.Buffer
	for _, at := range cables {
		fmt.Fprintf(&out, "%s%sPHY=4x LOG=ACT SPD=10\n", f.half(at, number(at)), f.half(f.far(at), number(f.far(at))))
	}
	return out.Bytes(), lids, adapters
}

// after is the LID that is some LIDs after the base LID of an end, if it has that, or the base LID.
func (f *Fabric) after(at end, after int) int {
	own := f.at(at)
	if f.nodes[at.node].kind == 'S' {
		own = f.at(end{at.node, 0})
	}
	if after < 1<<own.lmc {
		return own.lid + after
	}
	return own.lid
}

// half is one end of a cable there.
func (f *Fabric) half(at end, lid int) string {
	n := &f.nodes[at.node]
	kind, own := "CA", &n.ports[at.port]
	if n.kind == 'S' {
		kind, own = "SW", &n.ports[0]
	}
	return fmt.Sprintf("{ %s Ports:%02x SystemGUID:%016x NodeGUID:%016x PortGUID:%016x VenID:000002C9 DevID:5A440000 Rev:000000A1 {%s} LID:%04x PN:%02x } ",
		kind, len(n.ports)-1, n.guid, n.guid, own.guid, n.name, lid, at.port)
}

// fdbs are the entries for some LIDs, by their numbers, as OpenSM wrote tables when ibdmchk was
// made.
func (f *Fabric) fdbs(t Tables, lids []int) []byte {
	var out bytes.Buffer
	for i := range f.nodes {
		if f.nodes[i].kind != 'S' || !slices.ContainsFunc(f.nodes[i].ports, func(p port) bool { return p.peer >= 0 }) { // subnet has no other switches
			continue
		}
		fmt.Fprintf(&out, "osm_ucast_mgr_dump_ucast_routes: Switch 0x%016x\nLID    : Port : Hops : Optimal\n", f.nodes[i].guid)
		for n, lid := range lids {
			if port := t[f.nodes[i].guid][lid]; port != noEntry {
				fmt.Fprintf(&out, "0x%04X : %03d  : 00   : yes\n", n+1, port)
			}
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}
