package planner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// prepared counts the plans that a memory makes for the next loss.
func prepared(m *Memory, t *topology.FatTree, s Settings) int {
	made, _ := m.PrepareLosses(bg, t, s, func() bool { return true })
	return made
}

// TestMemory plans trees with random damage with a memory and without one. The plans are the
// same and hold on the tables, and the plan prepared for one cable serves for all others.
func TestMemory(t *testing.T) {
	whole := tree(t, fabgen.Spec{Spines: 6, Leaves: 5, LMC: 3})
	rng := rand.New(rand.NewPCG(7, 1))
	m := &Memory{}
	if prepared(m, whole, Settings{}) != 1 || prepared(m, whole, Settings{}) != 0 {
		t.Error("a plan for one dead cable was not made, or made twice")
	}
	for n := range 60 {
		damaged := *whole
		cables := 1 + n/20
		for range cables {
			held(&damaged, rng.IntN(5), rng.IntN(6))
		}
		if n%3 == 2 {
			damaged.Servers = damaged.Servers[1:]
		}
		kept := len(m.plans)
		with, err := Make(bg, &damaged, Settings{Memory: m})
		if err != nil {
			t.Fatal(err)
		}
		if cables == 1 && n%3 != 2 && len(m.plans) != kept {
			t.Error("a plan for one dead cable was made again")
		}
		if again, err := Make(bg, &damaged, Settings{Memory: m}); err != nil || !slices.Equal(again.Rows.To, with.Rows.To) || !slices.Equal(again.Base.Rows.DLID, with.Base.Rows.DLID) {
			t.Errorf("%d cables: another plan when it is made again: %v", cables, err)
		}
		without, err := Make(bg, &damaged, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if with.Plan.Engine != without.Plan.Engine || !slices.Equal(with.Rows.To, without.Rows.To) || !slices.Equal(with.Rows.Lane, without.Rows.Lane) ||
			!slices.Equal(with.Plan.Unreachable, without.Plan.Unreachable) || !slices.Equal(with.Base.Rows.To, without.Base.Rows.To) || !slices.Equal(with.Base.Rows.Lane, without.Base.Rows.Lane) {
			t.Errorf("%d cables: another plan with a memory than without", cables)
		}
		if len(m.plans) > m.Holds(len(damaged.Servers)) {
			t.Errorf("%d plans are kept", len(m.plans))
		}
	}
}

// TestMemoryHolds bounds what is kept.
func TestMemoryHolds(t *testing.T) {
	m := &Memory{}
	for servers, want := range map[int]int{0: rememberedPlans, 360: rememberedPlans, 2048: 2, 1 << 20: 1} {
		if got := m.Holds(servers); got != want {
			t.Errorf("%d plans of %d servers, want %d", got, servers, want)
		}
	}
	for i := range 5 {
		m.keep(string(rune('a'+i)), &fors.Plan{Servers: 2000})
		m.find("a")
		m.keep("a", &fors.Plan{Servers: 2000}) // made by two at a time
	}
	if len(m.plans) != 2 || m.find("a") == nil || m.find("e") == nil {
		t.Errorf("%v are kept, want the one used and the newest", m.plans)
	}
}

// TestMemoryOfUnequalLeaves leaves trees alone whose leaves are not alike.
func TestMemoryOfUnequalLeaves(t *testing.T) {
	odd := *tree(t, fabgen.Spec{Spines: 6, Leaves: 5, LMC: 3})
	held(&odd, 2, 3)
	for _, s := range []Settings{{Engine: "exact"}, {LIDs: 2}} {
		if m := (&Memory{}); prepared(m, &odd, s) > 0 {
			t.Errorf("%+v: a plan was prepared", s)
		}
	}
	odd.Servers = odd.Servers[1:]
	if m := (&Memory{}); prepared(m, &odd, Settings{}) > 0 {
		t.Error("a tree with an absent server was given standard names")
	}
}

// held takes a lane of a tree out of schedules, without touching its other owners.
func held(t *topology.FatTree, leaf, lane int) {
	t.Leaves = slices.Clone(t.Leaves)
	t.Leaves[leaf].Cables = slices.Clone(t.Leaves[leaf].Cables)
	t.Hold(leaf, lane)
}

// BenchmarkPlan plans FT(2;20,18) with a dead cable, with and without a memory of the plan.
func BenchmarkPlan(b *testing.B) {
	whole := fabgen.Damaged(b, fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5})
	held(whole, 7, 11)
	for name, s := range map[string]Settings{"anew": {}, "remembered": {Memory: &Memory{}}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Plan(bg, whole, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
