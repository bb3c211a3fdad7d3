package ibsim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// start brings up a simulation that ends with the test.
func start(t *testing.T, f *topology.Fabric) *Sim {
	t.Helper()
	s, err := Start(t.Context(), Options{Fabric: f, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// up starts a subnet manager and waits for the subnet.
func up(t *testing.T, s *Sim, o OpenSMOptions) *OpenSM {
	t.Helper()
	m, err := s.StartOpenSM(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	waitLog(t, m, SubnetUp, 0)
	return m
}

func waitLog(t *testing.T, m *OpenSM, text string, from int64) string {
	t.Helper()
	line, _, err := m.WaitLog(t.Context(), text, from)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// subnet returns the topology dump.
func subnet(t *testing.T, m *OpenSM) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.Dir(), "opensm-subnet.lst"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// end is how the dump writes one end of a cable, without kinds, numbers of the
// maker, and LIDs.
func end(f *topology.Fabric, node int32, port uint8) string {
	n := &f.Nodes[node]
	return fmt.Sprintf("Ports:%02X SystemGUID:%016x NodeGUID:%016x PortGUID:%016x {%s} PN:%02X",
		len(n.Ports)-1, uint64(n.System), uint64(n.GUID), uint64(portGUID(n, port)), n.Name, port)
}

func portGUID(n *topology.Node, port uint8) ib.GUID {
	if n.Kind == topology.Switch {
		return n.GUID
	}
	return n.Ports[port].GUID
}

var (
	dumpEnd  = regexp.MustCompile(`\{ (?:CA|SW|RT)\S* (.*?) \}`)
	dumpSkip = regexp.MustCompile(`(VenID|DevID|Rev|LID):[0-9A-F]+ `)
	dumpRate = regexp.MustCompile(`PHY=.*`)
)

// checkCables compares every cable of the dump, its ends' GUIDs, descriptions
// and ports, with f. rate is the dump's rate of every cable.
func checkCables(t *testing.T, f *topology.Fabric, dump, rate string) {
	t.Helper()
	got := make(map[string]bool)
	for line := range strings.Lines(dumpSkip.ReplaceAllString(dump, "")) {
		ends := dumpEnd.FindAllStringSubmatch(line, -1)
		if len(ends) != 2 {
			t.Fatalf("unexpected line in the dump: %q", line)
		}
		got[ends[0][1]+" | "+ends[1][1]+" "+dumpRate.FindString(line)] = true
	}
	want := make(map[string]bool)
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if port := &f.Nodes[i].Ports[p]; port.Connected() {
				want[end(f, int32(i), uint8(p))+" | "+end(f, port.Peer, port.PeerPort)+" "+rate] = true
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cables in OpenSM's dump (-want +got):\n%.3000s", diff)
	}
}

// withSpineAdapter adds an adapter of two ports to the first two spines, on new
// ports of theirs.
func withSpineAdapter(t *testing.T, f *topology.Fabric) *topology.Fabric {
	t.Helper()
	const guid = 0x400000
	g := f.Clone()
	g.Nodes = append(g.Nodes, topology.Node{Kind: topology.Adapter, GUID: guid, System: guid, Name: "Storage/1;a",
		Ports: []topology.Port{{Peer: topology.None}, {Peer: topology.None, GUID: guid + 1}, {Peer: topology.None, GUID: guid + 2}}})
	for p := uint8(1); p <= 2; p++ {
		spine := g.Find(fabgen.SpineGUID + ib.GUID(p) - 1)
		ports := &g.Nodes[spine].Ports
		*ports = append(*ports, topology.Port{Peer: topology.None})
		g.Connect(topology.PortRef{Node: int32(len(g.Nodes) - 1), Port: p},
			topology.PortRef{Node: spine, Port: uint8(len(*ports) - 1)}, ib.Rate{Width: 4, Speed: ib.HDR})
	}
	g, err := topology.NewFabric(g.Nodes, 0)
	ok(t, err)
	return g
}

// TestFabrics makes OpenSM discover fabrics and compares the result with the
// simulated fabric, cable by cable.
func TestFabrics(t *testing.T) {
	named := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, Rate: ib.Rate{Width: 1, Speed: ib.EDR}})
	for i, name := range []string{"MT4123 ConnectX6 Mellanox, # a long description of a card", "twin", "twin", "Leaf000@x"} {
		named.Nodes[i].Name = name
	}
	named.Nodes[4].System = 0xabcdef0123456789
	for _, c := range []struct {
		name   string
		fabric *topology.Fabric
		lmc    uint8
		rate   string
	}{
		{"small", fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3}), 2, "PHY=4x LOG=ACT SPD=50"},
		{"LHCb", fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18}), 5, "PHY=4x LOG=ACT SPD=50"},
		{"shuffled parallel cables", fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 4, Cables: 2, Hosts: []int{6, 2}, Shuffle: 7,
			Missing: [][2]int{{0, 3}}, Rate: ib.Rate{Width: 2, Speed: ib.FDR}}), 3, "PHY=2x LOG=ACT SPD=14"},
		{"adapter on a spine", withSpineAdapter(t, fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3})), 2, "PHY=4x LOG=ACT SPD=50"},
		{"difficult names", named, 0, "PHY=1x LOG=ACT SPD=25"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, c.fabric)
			m := up(t, s, OpenSMOptions{Host: c.fabric.Nodes[0].GUID.String(), LMC: c.lmc})
			checkCables(t, c.fabric, subnet(t, m), c.rate)
			lids, err := os.ReadFile(filepath.Join(m.Dir(), "guid2lid"))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range c.fabric.EndPorts() {
				if !bytes.Contains(lids, []byte(e.GUID.String())) {
					t.Errorf("guid2lid lacks %s", c.fabric.PortLabel(e.PortRef))
				}
			}
		})
	}
}
