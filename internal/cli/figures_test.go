package cli

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestPhasesOfFig7 checks that the complete exchange has max(P_f, P−1) phases for every
// bandwidth reduction f of the fabrics in Fig. 7 of the FORS paper, where P_f =
// ⌈M0(P−M0)/(M0−f)⌉ and f cables of one leaf have failed. The planner verifies each plan on its
// tables.
func TestPhasesOfFig7(t *testing.T) {
	for _, m := range []struct {
		spines, leaves int
		lmc            uint8
	}{{8, 16, 3}, {16, 16, 4}, {20, 18, 5}, {16, 32, 4}, {32, 32, 5}} {
		t.Run(fmt.Sprintf("FT(2;%d,%d)", m.spines, m.leaves), func(t *testing.T) {
			whole := fabgen.Generate(fabgen.Spec{Spines: m.spines, Leaves: m.leaves, LMC: m.lmc})
			base, err := topology.NewBaseline(whole)
			if err != nil {
				t.Fatal(err)
			}
			servers := m.spines * m.leaves
			for f := range m.spines {
				if os.Getenv("FORS_LONG") == "" && f%4 != 0 {
					continue
				}
				left := m.spines - f
				want := max(servers-1, (m.spines*(servers-m.spines)+left-1)/left)
				got := phasesWithout(t, whole, base, m.spines, f)
				if got != want {
					t.Errorf("f = %d: %d phases, want %d", f, got, want)
				}
			}
		})
	}
}

// phasesWithout plans the fabric without the first f uplinks of its first leaf.
func phasesWithout(t *testing.T, whole *topology.Fabric, base *topology.Baseline, hosts, f int) int {
	fabric := whole.Clone()
	for port := hosts + 1; port <= hosts+f; port++ {
		if _, err := fabric.Fail(fmt.Sprintf("Leaf000/%d", port)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := topology.Fit(fabric, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := planner.Make(context.Background(), tree, planner.Settings{})
	if err != nil {
		t.Fatalf("f = %d: %v", f, err)
	}
	if r := result.Report(); r.BandwidthReduction != f || r.Gap != r.Phases-r.LowerBound || r.UnreachablePairs != 0 {
		t.Errorf("f = %d: the report says f = %d, gap %d, %d pairs unreachable", f, r.BandwidthReduction, r.Gap, r.UnreachablePairs)
	}
	return result.Plan.Phases
}
