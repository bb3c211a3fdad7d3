package topology_test

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"

	"github.com/google/go-cmp/cmp"
)

// failable is a small tree with names that ask for trouble.
func failable() *topology.Fabric {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	for name, odd := range map[string]string{
		"Hca0000": "Leaf000/1", // also reads as port 1 of Leaf000
		"Hca0001": "node/a;1",
		"Hca0002": "twin", "Hca0003": "twin",
		"Spine001": "0x200000", // also reads as the GUID of Leaf000
	} {
		for i := range f.Nodes {
			if f.Nodes[i].Name == name {
				f.Nodes[i].Name = odd
			}
		}
	}
	return f
}

// cables lists a fabric's cables by GUIDs and ports, from both ends.
func cables(f *topology.Fabric) map[string]bool {
	set := map[string]bool{}
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			ref := topology.PortRef{Node: int32(i), Port: uint8(p)}
			if f.At(ref).Connected() {
				set[f.CableLabel(ref)] = true
			}
		}
	}
	return set
}

func TestFail(t *testing.T) {
	for spec, c := range map[string]struct {
		what string
		gone []string // one end's label of each cable that goes
	}{
		"Leaf001/3":            {"Leaf001 port 3 – Spine000 port 2", []string{"Leaf001 port 3 – Spine000 port 2"}},
		"Spine000/2":           {"Spine000 port 2 – Leaf001 port 3", []string{"Leaf001 port 3 – Spine000 port 2"}},
		"0x200001/3":           {"Leaf001 port 3 – Spine000 port 2", []string{"Leaf001 port 3 – Spine000 port 2"}},
		"0x0000000000200001/3": {"Leaf001 port 3 – Spine000 port 2", []string{"Leaf001 port 3 – Spine000 port 2"}},
		"Spine000":             {"Spine000 with 2 cables", []string{"Leaf000 port 3 – Spine000 port 1", "Leaf001 port 3 – Spine000 port 2"}},
		"0x300000":             {"Spine000 with 2 cables", []string{"Leaf000 port 3 – Spine000 port 1", "Leaf001 port 3 – Spine000 port 2"}},
		"0x200000":             {"0x200000 with 2 cables", []string{"Leaf000 port 4 – 0x200000 port 1", "Leaf001 port 4 – 0x200000 port 2"}},
		"Leaf000/1":            {"Leaf000/1 with 1 cable", []string{"Leaf000 port 1 – Leaf000/1 port 1"}},
		"Leaf000/1/1":          {"Leaf000/1 port 1 – Leaf000 port 1", []string{"Leaf000 port 1 – Leaf000/1 port 1"}},
		"node/a;1":             {"node/a;1 with 1 cable", []string{"Leaf000 port 2 – node/a;1 port 1"}},
		"node/a;1/1":           {"node/a;1 port 1 – Leaf000 port 2", []string{"Leaf000 port 2 – node/a;1 port 1"}},
		"0x100006":             {"twin with 1 cable", []string{"Leaf001 port 2 – twin port 1"}},
		"Leaf001/4, Leaf000/1": {"Leaf001 port 4 – 0x200000 port 2, Leaf000/1 with 1 cable", []string{"Leaf001 port 4 – 0x200000 port 2", "Leaf000 port 1 – Leaf000/1 port 1"}},
	} {
		t.Run(strings.ReplaceAll(spec, "/", "|"), func(t *testing.T) {
			f := failable()
			want := cables(f)
			for _, label := range c.gone {
				near, far, _ := strings.Cut(label, " – ")
				if !want[label] || !want[far+" – "+near] {
					t.Fatalf("%q is no cable of the fabric", label)
				}
				delete(want, label)
				delete(want, far+" – "+near)
			}
			nodes := len(f.Nodes)
			what, err := f.Fail(spec)
			if err != nil {
				t.Fatal(err)
			}
			if what != c.what {
				t.Errorf("got %q, want %q", what, c.what)
			}
			if diff := cmp.Diff(want, cables(f)); diff != "" {
				t.Errorf("cables left (-want +got):\n%s", diff)
			}
			if err := f.Validate(); err != nil || len(f.Nodes) != nodes {
				t.Errorf("%d of %d nodes, error %v", len(f.Nodes), nodes, err)
			}
		})
	}
}

func TestFailRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"twin":              `fail "twin": 2 nodes are called "twin": say which by its GUID: 0x0000000000100004, 0x0000000000100006`,
		"twin/1":            `fail "twin/1": 2 nodes are called "twin": say which by its GUID: 0x0000000000100004, 0x0000000000100006`,
		"leaf01":            `fail "leaf01": no node has the description or GUID "leaf01": did you mean "Leaf001"?`,
		"Leaf01/3":          `fail "Leaf01/3": no node has the description or GUID "Leaf01": did you mean "Leaf001"?`,
		"Weihnachten":       `fail "Weihnachten": no node has the description or GUID "Weihnachten"`,
		"0xdead":            `fail "0xdead": no node has the description or GUID "0xdead"`,
		"":                  `fail "": no node has the description or GUID ""`,
		"Leaf001/":          `fail "Leaf001/": "" is not a port of Leaf001 (0x0000000000200001): a decimal number from 1 to 4 was expected`,
		"Leaf001/0x3":       `fail "Leaf001/0x3": "0x3" is not a port of Leaf001 (0x0000000000200001): a decimal number from 1 to 4 was expected`,
		"Leaf001/+3":        `fail "Leaf001/+3": "+3" is not a port of Leaf001 (0x0000000000200001): a decimal number from 1 to 4 was expected`,
		"Leaf001/0":         `fail "Leaf001/0": port 0 is not on Leaf001 (0x0000000000200001): its ports are 1 to 4`,
		"Leaf001/5":         `fail "Leaf001/5": port 5 is not on Leaf001 (0x0000000000200001): its ports are 1 to 4`,
		"Leaf001/259":       `fail "Leaf001/259": port 259 is not on Leaf001 (0x0000000000200001): its ports are 1 to 4`,
		"Leaf001/4":         `fail "Leaf001/4": port 4 of Leaf001 (0x0000000000200001) has no cable`,
		"node/a;1":          `fail "node/a;1": node/a;1 (0x0000000000100002) has no cable`,
		"Leaf001/3,leaf01":  `fail "leaf01": no node has the description or GUID "leaf01": did you mean "Leaf001"?`,
		"Leaf001/3,":        `fail "": no node has the description or GUID ""`,
		"Leaf001/3/3" + " ": `fail "Leaf001/3/3 ": no node has the description or GUID "Leaf001/3": did you mean "Leaf000/1"?`,
	} {
		f := failable()
		for _, first := range []string{"Leaf001/4", "node/a;1"} {
			if _, err := f.Fail(first); err != nil {
				t.Fatal(err)
			}
		}
		before := f.Clone()
		if what, err := f.Fail(spec); err == nil || err.Error() != want {
			t.Errorf("%q: got %q and error\n%v\nwant\n%s", spec, what, err, want)
		}
		if diff := cmp.Diff(before, f); diff != "" {
			t.Errorf("%q changed the fabric:\n%s", spec, diff)
		}
	}
}

// TestCutPort has ends of cables in the forms that messages print and people write.
func TestCutPort(t *testing.T) {
	for _, text := range []string{"Leaf007/31", "Leaf007/P31", "Leaf007/p31", "Leaf007:31", "Leaf007 port 31", "Leaf007 port 31 – Spine010 port 8"} {
		if node, port, ok := topology.CutPort(text); node != "Leaf007" || port != "31" || !ok || topology.NodePort(text) != "Leaf007/31" {
			t.Errorf("%s: %q %q %v, %q", text, node, port, ok, topology.NodePort(text))
		}
	}
	for text, want := range map[string][2]string{"MF0;rack-01:MQM8700/U1/3": {"MF0;rack-01:MQM8700/U1", "3"}, "Leaf007/x": {"Leaf007", "x"}} {
		if node, port, ok := topology.CutPort(text); node != want[0] || port != want[1] || !ok {
			t.Errorf("%s: %q %q %v", text, node, port, ok)
		}
	}
	for _, text := range []string{"Leaf007", "cable-down", "0x0008f10403961354", ""} {
		if _, _, ok := topology.CutPort(text); ok || topology.NodePort(text) != text {
			t.Errorf("%q names a port: %v, %q", text, ok, topology.NodePort(text))
		}
	}
}
