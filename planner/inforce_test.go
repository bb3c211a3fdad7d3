package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestChains has cables, leaves, spines and hosts of a fabric fail and return, and plans from the
// plan and the tables in force each time. No plan for base LIDs is much longer than its bound
// unless it is so without them too; and a tree planned once more keeps its tables.
func TestChains(t *testing.T) {
	all, again, plans := 1.0, 0, 0
	for i := range share(300, 60) {
		rng := rand.New(rand.NewPCG(uint64(i), 78))
		var dead [][2]int
		var now Settings
		now.MaxUnreachable = &all
		for range 5 {
			if rng.IntN(3) == 0 {
				dead = nil
			}
			switch rng.IntN(4) {
			case 0:
				dead = append(dead, spine(6, rng.IntN(6))...)
			case 1:
				leaf := rng.IntN(6)
				for k := range 6 {
					dead = append(dead, [2]int{leaf, k})
				}
			default:
				dead = append(dead, fabgen.DrawCables(rng, fabgen.Spec{Leaves: 6, Spines: 6}, 1+rng.IntN(4))...)
			}
			var gone [][2]int
			for range rng.IntN(4) {
				gone = append(gone, [2]int{rng.IntN(6), 1 + rng.IntN(5)})
			}
			tree := fabgen.Fitted(t, fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 6, LMC: 3}), func(f *topology.Fabric) {
				for _, c := range dead {
					f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID + ib.GUID(c[0])), Port: uint8(7 + c[1])})
				}
				for _, h := range gone {
					f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID + ib.GUID(h[0])), Port: uint8(1 + h[1])})
				}
			})
			route := func(s Settings) *Result {
				r, err := Route(bg, tree, s)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			r := route(now)
			if r.Base == nil {
				continue
			}
			var err error
			if now.Before, err = phasetable.New(r.Base.Table(1)); err != nil {
				t.Fatal(err)
			}
			now.Tables = r.Tables
			if p := r.Base.Plan; float64(p.Phases) > tolerance*float64(p.LowerBound) {
				if free := route(Settings{MaxUnreachable: &all}).Base.Plan.Phases; free < p.Phases {
					t.Errorf("chain %d, cables %v dead: %d phases for base LIDs, %d without a plan in force", i, dead, p.Phases, free)
				}
			}
			plans++
			if err := lft.Compare(r.Tables, route(now).Tables, lft.LIDs(tree.Fabric)); err != nil {
				t.Logf("chain %d, cables %v dead, planned once more: %v", i, dead, err)
				again++
			}
		}
	}
	if t.Logf("%d of %d plans change tables if made once more", again, plans); 100*again > plans {
		t.Error("a restart would move entries")
	}
}

// TestParallelCablesStay plans small trees with parallel cables once more, from the plan and the
// tables in force: which cables spines forward by does not change either.
func TestParallelCablesStay(t *testing.T) {
	for i := range uint64(share(4000, 400)) {
		rng := rand.New(rand.NewPCG(i, 79))
		spec := fabgen.Spec{Spines: 2 + rng.IntN(4), Cables: 2, Leaves: 2 + rng.IntN(2), Hosts: []int{1 + rng.IntN(8)}, LMC: uint8(rng.IntN(4))}
		lanes := spec
		lanes.Spines *= spec.Cables
		tree := fabgen.Damaged(t, spec, fabgen.DrawCables(rng, lanes, 1+rng.IntN(lanes.Spines/2))...)
		first, err := Route(bg, tree, Settings{})
		if err != nil || first.Base == nil {
			continue
		}
		before, err := phasetable.New(first.Base.Table(1))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Route(bg, tree, Settings{Before: before, Tables: first.Tables})
		if err != nil {
			t.Fatal(err)
		}
		if err := lft.Compare(first.Tables, again.Tables, lft.LIDs(tree.Fabric)); err != nil {
			t.Errorf("tree %d: %v", i, err)
		}
	}
}
