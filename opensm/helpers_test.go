package opensm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// fabric is FT(2;spines,leaves) with LIDs.
func fabric(tb testing.TB, spines, leaves int, lmc uint8) *topology.Fabric {
	tb.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: spines, Leaves: leaves, LMC: lmc})
	fabgen.AssignLIDs(f, lmc)
	return f
}

// dump is the opensm-subnet.lst of f.
func dump(f *topology.Fabric) []byte {
	var b bytes.Buffer
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if port := &f.Nodes[i].Ports[p]; port.Peer != topology.None {
				dumpEnd(&b, f, topology.PortRef{Node: int32(i), Port: uint8(p)})
				dumpEnd(&b, f, topology.PortRef{Node: port.Peer, Port: port.PeerPort})
				b.WriteString("PHY=4x LOG=ACT SPD=50\n")
			}
		}
	}
	return b.Bytes()
}

func dumpEnd(b *bytes.Buffer, f *topology.Fabric, at topology.PortRef) {
	n := &f.Nodes[at.Node]
	owner, kind := n.Ports[at.Port], "CA"
	if n.Kind == topology.Switch {
		owner, kind = n.Ports[0], "SW"
	}
	fmt.Fprintf(b, "{ %s Ports:%02X SystemGUID:%016x NodeGUID:%016x PortGUID:%016x VenID:000000 DevID:0000 Rev:000000A1 {%s} LID:%04X PN:%02X } ",
		kind, len(n.Ports)-1, uint64(n.System), uint64(n.GUID), uint64(owner.GUID), n.Name, uint16(owner.LID), at.Port)
}

// guid2lid is the cache that goes with f.
func guid2lid(f *topology.Fabric) []byte {
	var b bytes.Buffer
	for _, e := range f.EndPorts() {
		fmt.Fprintf(&b, "%s 0x%04x 0x%04x\n\n", e.GUID, uint16(e.LID), int(e.LID)+1<<e.LMC-1)
	}
	return b.Bytes()
}

func put(tb testing.TB, path string, data []byte) {
	tb.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		tb.Fatal(err)
	}
}

// mustContain checks that err says each of the texts.
func mustContain(tb testing.TB, err error, texts ...string) {
	tb.Helper()
	if err == nil {
		tb.Fatalf("no error, want one that says %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			tb.Errorf("error %q does not say %q", err, text)
		}
	}
}

// journal collects what a watcher says.
type journal struct {
	mu        sync.Mutex
	snapshots []Snapshot
	reports   []string // code, or -code when it is over
	texts     []string
}

func (j *journal) deliver(s Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.snapshots = append(j.snapshots, s)
}

func (j *journal) report(code string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		j.reports = append(j.reports, "-"+code)
		return
	}
	j.reports = append(j.reports, code)
	j.texts = append(j.texts, err.Error())
}

// take returns and forgets what was said.
func (j *journal) take() ([]Snapshot, []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, r := j.snapshots, j.reports
	j.snapshots, j.reports = nil, nil
	return s, r
}

// fakeProc builds a /proc of the given processes.
type fakeProcess struct {
	pid   int
	comm  string
	state string
	args  []string
	env   []string
}

func fakeProc(tb testing.TB, processes ...fakeProcess) procFS {
	tb.Helper()
	root := tb.TempDir()
	put(tb, filepath.Join(root, "stat"), []byte("cpu 1 2 3 4 5 6 7 8 9 10\nbtime 1700000000\n"))
	for _, p := range processes {
		dir := filepath.Join(root, fmt.Sprint(p.pid))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			tb.Fatal(err)
		}
		fields := slices.Repeat([]string{"0"}, 42)
		fields[0], fields[19] = p.state, fmt.Sprint(100*p.pid)
		put(tb, filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (%s) %s\n", p.pid, p.comm, strings.Join(fields, " ")))
		put(tb, filepath.Join(dir, "comm"), []byte(p.comm+"\n"))
		uid := os.Geteuid()
		if slices.Contains(p.env, "STRANGER") {
			uid = 65534
		}
		put(tb, filepath.Join(dir, "status"), fmt.Appendf(nil, "Name:\t%s\nTgid:\t%d\nUid:\t%d\t%d\t0\t0\nGid:\t0\t0\t0\t0\n", p.comm, p.pid, uid, uid))
		put(tb, filepath.Join(dir, "cmdline"), []byte(strings.Join(p.args, "\x00")+"\x00"))
		put(tb, filepath.Join(dir, "environ"), []byte(strings.Join(p.env, "\x00")+"\x00"))
		if err := os.Symlink("/somewhere", filepath.Join(dir, "cwd")); err != nil {
			tb.Fatal(err)
		}
	}
	return procFS(root)
}
