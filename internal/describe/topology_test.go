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

// TestThreeLevels shows the mids of a tree of three levels as its leaves' neighbours.
func TestThreeLevels(t *testing.T) {
	f := fabgen.GenerateTree(fabgen.KAry(4))
	got := Topology(fabgen.FittedPods(t, f).Exchange(), time.Time{})
	if got.Servers != 16 || len(got.Leaves) != 8 || len(got.Hosts) != 16 || len(got.Findings) != 0 {
		t.Errorf("%d servers of %d hosts on %d leaves, findings %v", got.Servers, len(got.Hosts), len(got.Leaves), got.Findings)
	}
}

// TestCabling lists each cable that is up once, also those of hosts.
func TestCabling(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 4, LMC: 2})
	whole := Cabling(f, time.Time{})
	f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: 4})
	less := Cabling(f, time.Time{})
	if len(whole.Links) != 12+12 || len(less.Links) != len(whole.Links)-1 {
		t.Errorf("%d cables, and %d without one", len(whole.Links), len(less.Links))
	}
	hosts := 0
	for _, l := range whole.Links {
		if l.A.Host != 0 || l.B.Host != 0 {
			hosts++
		}
		if l.Rate == "" || l.A.GUID == l.B.GUID {
			t.Errorf("a cable is %+v", l)
		}
	}
	if hosts != 12 {
		t.Errorf("%d cables of hosts", hosts)
	}
}
