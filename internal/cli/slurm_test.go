package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/hostlist"
	"github.com/forsd/forsd/topology"
)

// slurmTree is topology.yaml as Slurm's manual describes it.
type slurmTree []struct {
	Topology string `yaml:"topology"`
	Default  bool   `yaml:"cluster_default"`
	Tree     struct {
		Switches []struct {
			Switch   string `yaml:"switch"`
			Children string `yaml:"children"`
			Nodes    string `yaml:"nodes"`
		} `yaml:"switches"`
	} `yaml:"tree"`
}

// awkward is a baseline with peculiarities of real fabrics: adapters with several ports, hosts
// without a name, leaves of the same name, and names that YAML could misread.
func awkward() *topology.Baseline {
	leaf := func(guid ib.GUID, name string, hosts ...string) topology.BaselineLeaf {
		l := topology.BaselineLeaf{GUID: guid, Name: name}
		for i, h := range hosts {
			l.Slots = append(l.Slots, topology.Slot{GUID: guid<<8 + ib.GUID(i), Name: h})
		}
		return l
	}
	b := &topology.Baseline{Leaves: []topology.BaselineLeaf{
		leaf(1, "MF0;sw:IS5300/L1/U1", "node001 mlx5_0", "node001 mlx5_1", "node002 mlx5_0", "node010 HCA-1"),
		leaf(2, "leaf", "node003 mlx5_0", "node001 mlx5_2", "", "Mellanox,Technologies x"),
		leaf(3, "leaf", "1", "2", "12"),
		leaf(4, "", "storage mlx5_0"),
		leaf(5, "fabric", "on"),
		leaf(6, "spare"),
		leaf(7, "leaf7", "node7:"),
	}}
	b.Leaves[0].Slots = append(b.Leaves[0].Slots, topology.Slot{}) // a free index
	return b
}

func TestSlurm(t *testing.T) {
	leaves, notes, err := slurmSwitches(awkward(), map[ib.GUID]bool{4 << 8: true}, regexp.MustCompile("HCA-1$"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"MF0_sw_IS5300_L1_U1": {"node001", "node002"}, "leaf": {"node003"},
		"switch-0x0000000000000003": {"1", "12", "2"}, "switch-0x0000000000000005": {"on"}, "leaf7": {"node7:"}}
	got := map[string][]string{}
	var tree slurmTree
	if err := yaml.Unmarshal(slurmFile("slurm", leaves), &tree); err != nil {
		t.Fatal(err)
	}
	for i, s := range tree[0].Tree.Switches {
		if i == 0 {
			children, err := hostlist.Expand(s.Children)
			if err != nil || s.Switch != slurmRoot || len(children) != len(want) || s.Nodes != "" || want[children[0]] == nil {
				t.Errorf("the root is %+v", s)
			}
			continue
		}
		if got[s.Switch], err = hostlist.Expand(s.Nodes); err != nil {
			t.Error(err)
		}
		slices.Sort(got[s.Switch])
	}
	if diff := cmp.Diff(want, got); diff != "" || len(tree) != 1 || !tree[0].Default {
		t.Errorf("topology.yaml (-want +got):\n%s", diff)
	}
	got = map[string][]string{}
	for line := range strings.Lines(string(slurmFile("slurm-conf", leaves))) {
		if m := regexp.MustCompile(`^SwitchName=(\S+) Nodes=(\S+)\n$`).FindStringSubmatch(line); m != nil {
			if got[m[1]], err = hostlist.Expand(m[2]); err != nil {
				t.Error(err)
			}
			slices.Sort(got[m[1]])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("topology.conf (-want +got):\n%s", diff)
	}
	if len(notes) != 3 || !strings.Contains(strings.Join(notes, "\n"), "node001 has ports on MF0;sw:IS5300/L1/U1 and on leaf") {
		t.Errorf("the notes are %q", notes)
	}
	if _, _, err := slurmSwitches(&topology.Baseline{}, nil, nil); err == nil {
		t.Error("a fabric without nodes is written")
	}
}
