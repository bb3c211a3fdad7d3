package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestFormatsAgree draws fabrics, prints them in each format, and reads back what the plain
// output of ibnetdiscover gives.
func TestFormatsAgree(t *testing.T) {
	same := func(f *topology.Fabric) *topology.Fabric { return f }
	for name, c := range map[string]struct {
		print func(*topology.Fabric) []byte
		want  topology.Source
		told  func(*topology.Fabric) *topology.Fabric // what the format can tell
	}{
		"ibdiagnet2.ibnetdiscover": {fabgen.IbdiagnetNet, topology.SourceIbnetdiscover, same},
		"ibdiagnet2.lst":           {fabgen.IbdiagnetLst, topology.SourceSubnetLst, inIbdiagnetLst},
		"ibdiagnet2.db_csv":        {fabgen.DBCSV, topology.SourceDBCSV, same},
		"pasted":                   {fabgen.Pasted, topology.SourceIbnetdiscover, same},
		"opensm-subnet.lst":        {fabgen.SubnetLst, topology.SourceSubnetLst, inSubnetLst},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				f := anyFabric(t)
				for i := range f.Nodes {
					f.Nodes[i].Name = strings.ReplaceAll(f.Nodes[i].Name, "\t", " ")
				}
				want, _, err := topology.Read(fabgen.Ibnetdiscover(f))
				if err != nil {
					t.Fatal(err)
				}
				got, source, err := topology.Read(c.print(f))
				if err != nil {
					t.Fatal(err)
				}
				if source != c.want {
					t.Errorf("it is taken for %s, and is %s", source, c.want)
				}
				if diff := cmp.Diff(c.told(want), got); diff != "" {
					t.Fatalf("(-ibnetdiscover +%s):\n%s", name, diff)
				}
			})
		})
	}
}

// inIbdiagnetLst is what the file can tell of f: no LMC, and of each cable one rate.
func inIbdiagnetLst(f *topology.Fabric) *topology.Fabric {
	g := f.Clone()
	for i := range g.Nodes {
		for p := range g.Nodes[i].Ports {
			port := &g.Nodes[i].Ports[p]
			if port.LMC = 0; port.Connected() {
				g.Nodes[port.Peer].Ports[port.PeerPort].Rate = port.Rate
			}
		}
	}
	return g
}

// TestTopoAgrees: a topology file of ibdm has the same cables between nodes of the same names.
func TestTopoAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := fabgen.Generate(fabgen.Spec{Spines: rapid.IntRange(3, 5).Draw(t, "spines"), Leaves: rapid.IntRange(3, 5).Draw(t, "leaves"),
			Cables: rapid.IntRange(1, 2).Draw(t, "cables"), Shuffle: rapid.Uint64().Draw(t, "shuffle"), Hosts: []int{4, 2},
			Rate: ib.Rate{Width: 4, Speed: rapid.SampledFrom([]ib.Speed{0, ib.SDR, ib.FDR10, ib.HDR}).Draw(t, "speed")}})
		got, source, err := topology.Read(fabgen.Topo(f))
		if err != nil {
			t.Fatal(err)
		}
		if source != topology.SourceTopo {
			t.Errorf("it is taken for %s", source)
		}
		if diff := cmp.Diff(byName(f), byName(got)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if _, err := topology.Recognise(got); err != nil {
			t.Error(err)
		}
	})
}

// byName describes the cables of a fabric by the names of nodes.
func byName(f *topology.Fabric) []string {
	var lines []string
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p, port := range n.Ports {
			if port.Connected() {
				rate := port.Rate
				if !rate.Known() {
					rate = ib.Rate{}
				}
				lines = append(lines, fmt.Sprintf("%s %s port %d – %s port %d, %s", n.Kind, n.Name, p, f.Nodes[port.Peer].Name, port.PeerPort, rate))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// TestNoLID: a host at LID 0 or 65535, where a tool prints that, has none; it is left out by
// its name.
func TestNoLID(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3})
	text := string(fabgen.Ibnetdiscover(f))
	for host, lid := range map[string]string{"Hca0001": "0", "Hca0002": "65535", "Hca0005": "65535"} {
		e := f.EndPorts()[slices.IndexFunc(f.Nodes, func(n topology.Node) bool { return n.Name == host })]
		text = strings.ReplaceAll(text, fmt.Sprintf(`"%s" lid %d `, host, e.LID), fmt.Sprintf(`"%s" lid %s `, host, lid))
		text = strings.ReplaceAll(text, fmt.Sprintf("# lid %d lmc 0", e.LID), fmt.Sprintf("# lid %s lmc 0", lid))
	}
	got, _, err := topology.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b, err := topology.NewBaseline(got)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := topology.Fit(got, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Servers) != 6 || len(tree.Findings) != 1 {
		t.Fatalf("%d servers, findings %v; want 6 and one", len(tree.Servers), tree.Findings)
	}
	for _, host := range []string{"Hca0001 port 1 has no LID", "Hca0002 port 1 has no LID", "Hca0005 port 1 has no LID"} {
		if !strings.Contains(tree.Findings[0].Text, host) {
			t.Errorf("%q does not say %q", tree.Findings[0].Text, host)
		}
	}
}

// TestLoopback: a plug that leads back into its switch belongs to no tree, and does no harm.
func TestLoopback(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3})
	for _, at := range []ib.GUID{fabgen.SpineGUID, fabgen.LeafGUID} {
		i := f.Find(at)
		free := len(f.Nodes[i].Ports)
		f.Nodes[i].Ports = append(f.Nodes[i].Ports, topology.Port{}, topology.Port{})
		f.Connect(topology.PortRef{Node: i, Port: uint8(free)}, topology.PortRef{Node: i, Port: uint8(free + 1)}, ib.Rate{Width: 4, Speed: ib.HDR})
	}
	b, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := topology.Fit(f, b, nil)
	if err != nil || len(tree.Servers) != 12 || tree.Lanes != 4 {
		t.Fatalf("error %v, tree %+v", err, tree)
	}
	two := &topology.Fabric{Nodes: slices.Clone(f.Nodes[f.Find(fabgen.SpineGUID):][:1])}
	for p := range two.Nodes[0].Ports {
		if port := &two.Nodes[0].Ports[p]; p < 4 {
			*port = topology.Port{Peer: topology.None}
		} else {
			port.Peer = 0
		}
	}
	var not *topology.NotFatTree
	if _, err := topology.NewBaseline(two); !errors.As(err, &not) {
		t.Errorf("a switch with nothing but a loopback: %v", err)
	}
}

// TestCutDBCSV: a file that is cut off is distinguished from a whole one, and from a bad one.
func TestCutDBCSV(t *testing.T) {
	data := fabgen.DBCSV(fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2}))
	links := strings.Index(string(data), "END_LINKS")
	for n := range links {
		if _, err := topology.ReadDBCSV(data[:n]); !errors.Is(err, topology.ErrIncomplete) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
}

func TestReadDBCSVRefuses(t *testing.T) {
	checkBad(t, "*.db_csv", func(data []byte) error { _, err := topology.ReadDBCSV(data); return err }, []badInput{
		{"bad-number.db_csv", false, "read ibdiagnet2.db_csv line 10: column PortNum: \"x1\" is not a number from 0 to 255"},
		{"bad-type.db_csv", false, "read ibdiagnet2.db_csv line 3: column NodeType: 0 is not 1, 2 or 3"},
		{"no-column.db_csv", false, "read ibdiagnet2.db_csv line 11: column LMC is missing"},
		{"no-links.db_csv", true, "read ibdiagnet2.db_csv: section LINKS is missing"},
		{"short-row.db_csv", false, "read ibdiagnet2.db_csv line 11: the row ends before column LMC"},
		{"two-cables.db_csv", false, "read ibdiagnet2.db_csv line 18: leaf (0x0000000000200000) port 1 has a cable on an earlier line already"},
		{"unknown-node.db_csv", false, "read ibdiagnet2.db_csv line 17: column NodeGuid2: node 0x0000000000999999 is not in section NODES"},
	})
}

func TestReadTopoRefuses(t *testing.T) {
	checkBad(t, "*.topo", func(data []byte) error { _, err := topology.ReadTopo(data); return err }, []badInput{
		{"director.topo", false, "read .topo file line 2: port L1/P3 of big is not of the form P1: describe the switches of a director one by one"},
		{"itself.topo", false, "read .topo file line 2: the cable joins leaf1 P1 to itself"},
		{"no-cable.topo", true, "read .topo file: no cable is described"},
		{"no-system.topo", false, "read .topo file line 1: `P1 -> MT4123 h1 P1` belongs to no system"},
		{"port-255.topo", false, "read .topo file line 2: port P255 of leaf1 is not one of 1 to 254"},
		{"two-cables.topo", false, "read .topo file: h1 port 1 has two cables: h1 port 1 – leaf1 port 1, and one between leaf1 port 2 and h1 port 1"},
		{"two-types.topo", false, "read .topo file line 3: system h1 is a MT4124 here and a MT4123 on an earlier line"},
		{"words.topo", false, "read .topo file line 1: expected a system, such as `MQM8700 leaf1`, or a cable"},
	})
}

func FuzzReadDBCSV(f *testing.F) {
	f.Add(fabgen.DBCSV(fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})))
	f.Fuzz(func(t *testing.T, data []byte) {
		if fabric, err := topology.ReadDBCSV(data); err == nil {
			checkFabric(t, fabric)
		}
	})
}

func FuzzReadTopo(f *testing.F) {
	f.Add(fabgen.Topo(fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})))
	f.Fuzz(func(t *testing.T, data []byte) {
		if fabric, err := topology.ReadTopo(data); err == nil {
			checkFabric(t, fabric)
		}
	})
}

func FuzzRead(f *testing.F) {
	small := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	for _, print := range []func(*topology.Fabric) []byte{fabgen.Pasted, fabgen.IbdiagnetNet, fabgen.IbdiagnetLst} {
		f.Add(print(small))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if fabric, _, err := topology.Read(data); err == nil {
			checkFabric(t, fabric)
			if _, err := topology.Recognise(fabric); err != nil && err.Error() == "" {
				t.Error("an error without a text")
			}
		}
	})
}
