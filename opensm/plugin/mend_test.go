package plugin

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/arrival"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/routed"
	"github.com/forsd/forsd/topology"
)

// mender is the part of the library that mends tables, in a process of its own.
type mender struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

// menderProgram is built once.
var menderProgram = sync.OnceValues(func() (string, error) { return build(scratch, "testdata/mend.c", "address,undefined") })

func newMender(t *testing.T) *mender {
	t.Helper()
	program, err := menderProgram()
	if err != nil {
		t.Fatal(err)
	}
	_ = t.TempDir() // the files that the program reads go after it has ended
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &mender{t, in, bufio.NewReader(out)}
}

// show tells the mender of a fabric.
func (m *mender) show(f *topology.Fabric) {
	var text bytes.Buffer
	text.WriteString("map\n")
	var switches []int32
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			switches = append(switches, int32(i))
		}
	}
	slices.SortFunc(switches, func(a, b int32) int { return int(f.Nodes[a].GUID) - int(f.Nodes[b].GUID) })
	var cables bytes.Buffer
	owners := make([][]string, len(switches))
	own := func(i int, p *topology.Port, port int) {
		if p.LID != 0 {
			owners[i] = append(owners[i], fmt.Sprintf("owner %d %05d %d %d\n", i, p.LID, 1<<p.LMC, port))
		}
	}
	for i, s := range switches {
		hosts := 0
		own(i, &f.Nodes[s].Ports[0], 0)
		for p := range f.Nodes[s].Ports {
			port := &f.Nodes[s].Ports[p]
			if !port.Up() {
				continue
			}
			if f.Nodes[port.Peer].Kind == topology.Switch {
				fmt.Fprintf(&cables, "cable %d %d %d %d\n", i, p, slices.Index(switches, port.Peer), 1)
				continue
			}
			hosts++
			own(i, &f.Nodes[port.Peer].Ports[port.PeerPort], p)
		}
		fmt.Fprintf(&text, "switch %x %d\n", uint64(f.Nodes[s].GUID), hosts)
		slices.Sort(owners[i])
	}
	text.Write(cables.Bytes())
	for i := range owners {
		text.WriteString(strings.Join(owners[i], ""))
	}
	if _, err := m.in.Write(text.Bytes()); err != nil {
		m.t.Fatal(err)
	}
}

// hold has tables be forsd's for the fabric shown last.
func (m *mender) hold(tables *lft.Tables) {
	m.t.Helper()
	path := filepath.Join(m.t.TempDir(), "lfts")
	file, err := os.Create(path)
	if err == nil {
		err = tables.Write(file, nil)
	}
	if err == nil {
		err = file.Close()
	}
	if err == nil {
		_, err = fmt.Fprintf(m.in, "held %s\n", path)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// mend returns the tables for the fabric shown last.
func (m *mender) mend() *lft.Tables {
	m.t.Helper()
	if _, err := io.WriteString(m.in, "mend\n"); err != nil {
		m.t.Fatal(err)
	}
	var text bytes.Buffer
	for {
		line, err := m.out.ReadString('\n')
		if err != nil {
			m.t.Fatal(err)
		}
		if strings.HasSuffix(line, "changed\n") {
			break
		}
		text.WriteString(line)
	}
	tables, err := lft.ReadBytes(text.Bytes())
	if err != nil {
		m.t.Fatal(err)
	}
	return tables
}

// shapes are fabrics of all kinds.
var shapes = map[string]func() *topology.Fabric{
	"two levels": func() *topology.Fabric {
		return fabgen.Generate(fabgen.Spec{Spines: 5, Leaves: 6, Hosts: []int{4}, LMC: 2})
	},
	"few leaves": func() *topology.Fabric { return fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3, LMC: 1}) },
	"parallel cables": func() *topology.Fabric {
		return fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 5, Cables: 2, Shuffle: 7, LMC: 1})
	},
	"three levels": func() *topology.Fabric { return fabgen.GenerateTree(fabgen.KAry(4)) },
	"three levels, wider": func() *topology.Fabric {
		return fabgen.GenerateTree(fabgen.TreeSpec{Pods: 3, Leaves: 3, Mids: 2, Tops: 3, Hosts: 2, LMC: 1})
	},
	"dragonfly": func() *topology.Fabric { return fabgen.Dragonfly(5, 2, 1) },
	"torus":     func() *topology.Fabric { return fabgen.Torus(4, 3, 1) },
}

// TestMend loses and returns cables and whole switches at random, with and without tables
// of forsd's that were made at one time or another: everything is routed at all times.
func TestMend(t *testing.T) {
	for name, make := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, full := newMender(t), make()
			rng := rand.New(rand.NewPCG(1, uint64(len(name))))
			lost := map[topology.PortRef]bool{}
			for range events(40, 4000) {
				toggle(rng, full, lost)
				f := without(full, lost)
				m.show(f)
				tables, err := routed.Tables(f)
				if err == nil && rng.IntN(4) == 0 {
					m.hold(tables)
				}
				mended := m.mend()
				if err := arrivesEverywhere(f, mended); err != nil {
					t.Fatalf("without %v: %v", lost, err)
				}
				if err != nil && rng.IntN(4) == 0 { // no tree of two levels: tables of any origin will do
					m.hold(mended)
				}
			}
		})
	}
}

// arrivesEverywhere checks every part of a fabric.
func arrivesEverywhere(f *topology.Fabric, tables *lft.Tables) error {
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			if err := arrival.Check(f, int32(i), tables); err != nil {
				return err
			}
		}
	}
	return nil
}

// toggle loses or returns a cable between switches, or all of a switch.
func toggle(rng *rand.Rand, f *topology.Fabric, lost map[topology.PortRef]bool) {
	var switches []int32
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			switches = append(switches, int32(i))
		}
	}
	s := switches[rng.IntN(len(switches))]
	trunks := f.Trunks(s)
	cable := func(port uint8) topology.PortRef {
		r := topology.PortRef{Node: s, Port: port}
		if p := f.At(r); p.Peer < s {
			return topology.PortRef{Node: p.Peer, Port: p.PeerPort}
		}
		return r
	}
	if rng.IntN(4) > 0 {
		c := cable(trunks[rng.IntN(len(trunks))])
		if lost[c] {
			delete(lost, c)
		} else if len(lost) < 3*len(switches) {
			lost[c] = true
		}
		return
	}
	away := rng.IntN(2) == 0
	for _, p := range trunks {
		if delete(lost, cable(p)); away {
			lost[cable(p)] = true
		}
	}
}

func without(f *topology.Fabric, lost map[topology.PortRef]bool) *topology.Fabric {
	f = f.Clone()
	for c := range lost {
		f.Disconnect(c)
	}
	return f
}

// TestMendKeeps checks which entries mending leaves alone, and how it spreads the others.
func TestMendKeeps(t *testing.T) {
	m, full := newMender(t), fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 6, LMC: 3})
	tables, err := routed.Tables(full)
	if err != nil {
		t.Fatal(err)
	}
	m.show(full)
	m.hold(tables)
	if d := lft.Changes(tables, m.mend()); d.Entries > 0 {
		t.Errorf("on the fabric that the tables are for: %+v", d)
	}
	leaf, port := full.Find(fabgen.LeafGUID+2), uint8(6+4)
	dead := topology.PortRef{Node: leaf, Port: port}
	less := without(full, map[topology.PortRef]bool{dead: true})
	m.show(less)
	mended := m.mend()
	spine := full.At(dead).Peer
	count := map[uint8]int{}
	for _, lid := range lft.LIDs(full) {
		for i := range tables.Switches {
			node, was, is := full.Find(tables.Switches[i].GUID), tables.Port(i, lid), mended.Port(i, lid)
			dies := node == spine || full.Nodes[node].Ports[was].Peer == spine // a leaf's way to leaf 2 over the spine, or the spine's own
			if was != is && !dies {
				t.Errorf("LID %d at %s: from port %d to %d without need", lid, &full.Nodes[node], was, is)
			}
			if was != is && node == leaf {
				count[is]++
			}
		}
	}
	if n := slices.Collect(maps.Values(count)); len(n) != 5 || slices.Max(n)-slices.Min(n) > 3 {
		t.Errorf("the entries of the dead cable are spread as %v", count)
	}

	// forsd's tables for the loss are held; the cable comes back, and all is as before.
	tree, err := routed.Tables(less)
	if err != nil {
		t.Fatal(err)
	}
	m.show(less)
	m.hold(tree)
	m.show(full)
	if d := lft.Changes(tables, m.mend()); d.Entries > 0 {
		t.Errorf("when the cable is back: %+v", d)
	}
}

// events is how many random events a test takes.
func events(few, many int) int {
	if os.Getenv("FORS_LONG") != "" {
		return many
	}
	return few
}
