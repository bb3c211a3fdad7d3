package describe

import (
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

func TestNewTopology(t *testing.T) {
	whole := fabgen.Damaged(t, fabgen.Spec{Spines: 3, Leaves: 4, LMC: 2})
	leaf := &whole.Leaves[1]
	lost := whole.Fabric.Clone()
	lost.Disconnect(topology.PortRef{Node: leaf.Node, Port: leaf.Cables[2].LeafPort})
	tree, err := topology.Fit(lost, whole.Baseline, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := Topology(tree, time.Time{})
	if got.Hash != lost.Hash() || got.Lanes != 3 || len(got.Leaves) != 4 || len(got.Spines) != 3 || len(got.Hosts) != 12 || got.Servers != 12 || got.Bystanders != 0 {
		t.Errorf("sizes: %+v", got)
	}
	for l, leaf := range got.Leaves {
		up := 0
		for k, c := range leaf.Cables {
			want := "full"
			if l == 1 && k == 2 {
				want = "missing"
			} else {
				up++
			}
			if c != want {
				t.Errorf("leaf %d lane %d is %s, want %s", l, k, c, want)
			}
		}
		if leaf.LanesUp != up || leaf.Servers != 3 || !leaf.Present || leaf.LID == 0 {
			t.Errorf("leaf %d: %+v", l, leaf)
		}
	}
	for i, h := range got.Hosts {
		if h.Leaf != got.Leaves[i/3].Name || h.Spine != "" || h.Alpha != i%3 || !h.Server || h.LID == 0 || h.LMC != 2 {
			t.Errorf("host %d: %+v", i, h)
		}
	}
	if len(got.Findings) != 1 || got.Findings[0].Code != topology.CableDown {
		t.Errorf("findings: %v", got.Findings)
	}
}
