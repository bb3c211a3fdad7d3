package lft_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// TestBuildPods checks that every LID that can be reached is routed without deadlock,
// whatever has failed.
func TestBuildPods(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, s := range []fabgen.TreeSpec{
		fabgen.KAry(4), fabgen.KAry(8),
		{Pods: 3, Leaves: 3, Mids: 2, Tops: 3, Hosts: 4, LeafCables: 2, TopCables: 2, LMC: 2},
		{Pods: 4, Leaves: 2, Mids: 4, Tops: 2, Hosts: 4, Shared: 2, LMC: 1},
		{Pods: 3, Leaves: 4, Mids: 3, Tops: 2, Hosts: 6, Missing: [][2]int{{0, 1}, {5, 0}}},
	} {
		f := fabgen.GenerateTree(s)
		base, err := topology.NewPodBaseline(f)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 6 {
			g := f.Clone()
			for _, spec := range s.Draw(rng, fabgen.Damage{LeafCables: 2 * round, TopCables: 2 * round, Mids: round / 3, Tops: round / 3}) {
				_, _ = g.Fail(spec) // what hangs on a mid may be gone already
			}
			tree, err := topology.FitPods(g, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			tables, err := lft.BuildPods(t.Context(), tree, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := verify.TablesByRank(g, tree.Rank, tables); err != nil {
				t.Errorf("%+v, round %d: %v", s, round, err)
			}
		}
	}
}

// TestPodRelay checks that after a leaf has lost one cable, all mids and tops still deliver to
// it, and only the mid that has lost the leaf changes entries for it; and that relays of many
// leaves and planes do not wait for each other in a ring.
func TestPodRelay(t *testing.T) {
	for _, s := range []fabgen.TreeSpec{fabgen.KAry(4), fabgen.KAry(8), {Pods: 3, Leaves: 3, Mids: 2, Tops: 3, Hosts: 4, LeafCables: 2, LMC: 2}} {
		f := fabgen.GenerateTree(s)
		base, err := topology.NewPodBaseline(f)
		if err != nil {
			t.Fatal(err)
		}
		tables := func(fail ...string) (*topology.Fabric, *lft.Tables) {
			g := f.Clone()
			for _, spec := range fail {
				if _, err := g.Fail(spec); err != nil {
					t.Fatal(err)
				}
			}
			tree, err := topology.FitPods(g, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			tables, err := lft.BuildPods(t.Context(), tree, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := verify.TablesByRank(g, tree.Rank, tables); err != nil {
				t.Errorf("%+v, %v: %v", s, fail, err)
			}
			return g, tables
		}
		_, whole := tables()
		leaf, mid := s.Leaves+1, s.Mids+1 // in the second pod
		var dead, more []string
		for c := range max(1, s.LeafCables) {
			dead = append(dead, fmt.Sprintf("Leaf%03d/%d", leaf, s.Hosts+1+max(1, s.LeafCables)+c))
		}
		g, hurt := tables(dead...)
		var on []int // the leaf's LIDs
		for i := range g.Nodes {
			if n := &g.Nodes[i]; n.Name == fmt.Sprintf("Leaf%03d", leaf) {
				on = append(on, int(n.LID()))
				for p := 1; p <= s.Hosts; p++ {
					h := &g.Nodes[n.Ports[p].Peer].Ports[n.Ports[p].PeerPort]
					for o := range 1 << h.LMC {
						on = append(on, int(h.LID)+o)
					}
				}
			}
		}
		for i := range hurt.Switches {
			name := g.Nodes[g.Find(hurt.Switches[i].GUID)].Name
			for _, lid := range on {
				now, was := hurt.Port(i, ib.LID(lid)), whole.Port(i, ib.LID(lid))
				if now == lft.NoPath || !strings.HasPrefix(name, "Leaf") && name != fmt.Sprintf("Mid%03d", mid) && now != was {
					t.Errorf("%+v, %v: %s has port %d for LID %d, and had %d", s, dead, name, now, lid, was)
				}
			}
		}
		for l := range s.Pods * s.Leaves {
			more = append(more, fmt.Sprintf("Leaf%03d/%d", l, s.Hosts+1+l%(s.Mids*max(1, s.LeafCables))))
		}
		tables(more...)
	}
}
