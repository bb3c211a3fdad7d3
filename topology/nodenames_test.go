package topology_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

const nodeNames = `# switches
0x0000000000300001	"core one"   # the first
0x300002 "core two"
nonsense
0x200000
0x0000000000200003 plain
`

func TestNodeNames(t *testing.T) {
	names := topology.ReadNodeNames([]byte(nodeNames))
	want := topology.NodeNames{0x300001: "core one", 0x300002: "core two", 0x200003: "plain"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNamed has all spines be called alike, as unmanaged switches are.
func TestNamed(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 2})
	if topology.Named(f, nil) != f {
		t.Error("a fabric whose names are unique becomes another one")
	}
	for i := range f.Nodes {
		if strings.HasPrefix(f.Nodes[i].Name, "Spine") {
			f.Nodes[i].Name = "Quantum Mellanox Technologies"
		}
	}
	g := topology.Named(f, topology.ReadNodeNames([]byte(nodeNames)))
	var got []string
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.Kind == topology.Switch {
			got = append(got, n.Name)
		}
	}
	want := []string{"Leaf000", "Leaf001", "Quantum Mellanox Technologies", "core one", "core two"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("one is left without a name of its own (-want +got):\n%s", diff)
	}
	base, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	all := topology.Named(f, nil)
	if _, err := all.Fail("0x300001"); err != nil {
		t.Fatal(err)
	}
	tree, err := topology.Fit(all, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range tree.Findings {
		if !strings.Contains(finding.Text, "Quantum Mellanox Technologies (0x0000000000300001)") {
			t.Errorf("%s: %s: which of them?", finding.Code, finding.Text)
		}
	}
	if len(tree.Findings) == 0 {
		t.Error("no finding")
	}
}
