package planner

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// demoCables are the nine of the demo.
func demoCables() [][2]int {
	return fabgen.DrawCables(rand.New(rand.NewPCG(9, 2021)), fabgen.Spec{Leaves: 18, Spines: 20}, 9)
}

// spine is all cables of a lane.
func spine(leaves, lane int) (cables [][2]int) {
	for leaf := range leaves {
		cables = append(cables, [2]int{leaf, lane})
	}
	return cables
}

// phaseTimes returns how long the exchange takes on the result's tables: the sum of the phases'
// largest loads, in phases of one undisturbed transfer.
func phaseTimes(t testing.TB, r *Result, rows []sim.Row) int {
	t.Helper()
	run, err := sim.Run(r.Tree.Fabric, r.Tables, rows)
	if err != nil || run.Lost > 0 {
		t.Fatalf("simulate: %v, %d transfers lost", err, run.Lost)
	}
	sum := 0
	for _, most := range run.PerPhaseMax {
		sum += most
	}
	return sum
}

// baseRows are the transfers of a schedule, each sent to the base LID of its
// destination, whatever LID the schedule has.
func baseRows(s *Schedule) (rows []sim.Row) {
	host := func(server int32) *topology.Host { return &s.Tree.Hosts[s.Tree.Servers[server]] }
	for i, d := range s.Rows.To {
		if d >= 0 {
			rows = append(rows, sim.Row{Phase: int32(i / s.Plan.Servers), Src: host(int32(i % s.Plan.Servers)).GUID, Dst: host(d).GUID, DLID: host(d).LID})
		}
	}
	return rows
}

// TestBaseTable plans both plans of a fabric on the same tables, and walks the base
// plan by base LIDs.
func TestBaseTable(t *testing.T) {
	ft20 := fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}
	ft16 := fabgen.Spec{Spines: 16, Leaves: 16, LMC: 4}
	for _, c := range []struct {
		name                string
		spec                fabgen.Spec
		dead                [][2]int
		pinned, base, moved int
	}{
		{"healthy", ft20, nil, 359, 359, 0},
		{"a cable", ft20, [][2]int{{7, 10}}, 359, 360, 34},
		{"two of a leaf", ft20, [][2]int{{7, 10}, {7, 13}}, 378, 380, 68},
		{"the demo's nine", ft20, demoCables(), 378, 380, 294},
		{"a spine", ft20, spine(18, 10), 359, 360, 306},
		{"healthy", ft16, nil, 255, 255, 0},
		{"a cable", ft16, [][2]int{{7, 10}}, 256, 256, 30},
		{"two of a leaf", ft16, [][2]int{{7, 10}, {7, 13}}, 275, 288, 60},
		{"a spine", ft16, spine(16, 10), 256, 256, 240},
	} {
		r, err := Make(bg, fabgen.Damaged(t, c.spec, c.dead...), Settings{})
		if err != nil {
			t.Fatal(err)
		}
		b := r.Report().Base
		if r.Plan.Phases != c.pinned || b == nil || b.Phases != c.base || b.Moved != c.moved || b.Gap != 0 {
			t.Errorf("%s: %d phases, base %+v; want %d, and base %d with %d entries moved", c.name, r.Plan.Phases, b, c.pinned, c.base, c.moved)
			continue
		}
		if shift := b.Engine == string(fors.Shift); shift != (c.dead == nil) {
			t.Errorf("%s: the base plan is by engine %s; want the linear shift while nothing is dead", c.name, b.Engine)
		}
		if got := phaseTimes(t, r, baseRows(r.Base)); got != c.base {
			t.Errorf("%s: the base plan takes %d phase times, want %d", c.name, got, c.base)
		}
	}
}

// TestBaseParallel plans for base LIDs where spines have two cables to each leaf: a spine
// knows where a message goes and not by which cable it came.
func TestBaseParallel(t *testing.T) {
	spec := fabgen.Spec{Spines: 10, Leaves: 18, Hosts: []int{20}, Cables: 2, LMC: 5}
	wide := spec
	wide.Spines = 20
	for _, c := range []struct {
		name        string
		dead        [][2]int
		base, moved int
	}{
		{"healthy", nil, 359, 0},
		{"a cable", [][2]int{{7, 10}}, 360, 40}, // 34 over dead lanes
		{"both cables of a leaf to a spine", [][2]int{{7, 10}, {7, 11}}, 380, 68},
		{"nine", fabgen.DrawCables(rand.New(rand.NewPCG(9, 2021)), wide, 9), 380, 280}, // some go up by the other cable of their spine, and down by their own
	} {
		r, err := Make(bg, fabgen.Damaged(t, spec, c.dead...), Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Base == nil || r.Base.Plan.Phases != c.base || r.Report().Base.Moved != c.moved {
			t.Errorf("%s: base plan %+v, notes %v; want %d phases, %d entries moved", c.name, r.Report().Base, r.Notes, c.base, c.moved)
			continue
		}
		if got, shift := phaseTimes(t, r, baseRows(r.Base)), phaseTimes(t, r, sim.LinearShift(r.Tree)); got != c.base || shift < got {
			t.Errorf("%s: the base plan takes %d phase times, want %d; the linear shift %d", c.name, got, c.base, shift)
		}
	}
}

// TestBaseTables checks that the base plan's tables differ from those without it only in entries
// for base LIDs whose own lane is dead, so that no plan by lanes is affected, and that a second
// failure changes no entry of a living lane.
func TestBaseTables(t *testing.T) {
	spec := fabgen.Spec{Spines: 16, Leaves: 16, LMC: 4}
	ft := fabgen.Damaged(t, spec, [2]int{7, 10}, [2]int{3, 2})
	r, err := Make(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := lft.Build(ft)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify.Plan(ft, bare, r.Rows, nil); err != nil {
		t.Errorf("the plan by lanes on tables without the base plan: %v", err)
	}
	own := map[ib.LID]*topology.Host{}
	for i := range ft.Hosts {
		own[ft.Hosts[i].LID] = &ft.Hosts[i]
	}
	for l := range ft.Leaves {
		at := r.Tables.Find(ft.Leaves[l].GUID)
		for lid, out := range r.Tables.Switches[at].Out {
			if out == bare.Switches[at].Out[lid] {
				continue
			}
			h := own[ib.LID(lid)]
			if h == nil {
				t.Fatalf("leaf %d: the entry of LID %d has changed, which is not a base LID", l, lid)
			}
			if k := ft.LIDLane(h, 0); ft.LaneUp(l, k) && ft.LaneUp(h.Leaf, k) {
				t.Fatalf("leaf %d: the entry of the base LID of %s has changed, whose lane %d is up", l, h.Name, k)
			}
		}
	}
}

// TestBaseNeverWorse checks that the base plan takes no more phase times than the linear shift on
// the same tables, whatever fails, nor many more than its bound.
func TestBaseNeverWorse(t *testing.T) {
	spec := fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}
	for i := range share(1000, 6) {
		rng := rand.New(rand.NewPCG(uint64(i), 40))
		r, err := Make(bg, fabgen.Damaged(t, spec, fabgen.DrawCables(rng, spec, 1+(7*i)%40)...), Settings{})
		if err != nil {
			t.Fatal(err)
		}
		base, shift := phaseTimes(t, r, baseRows(r.Base)), phaseTimes(t, r, sim.LinearShift(r.Tree))
		if base != r.Base.Plan.Phases || base > shift {
			t.Errorf("failure %d: the base plan takes %d phase times in %d phases, the linear shift %d", i, base, r.Base.Plan.Phases, shift)
		}
	}
}

// TestBaseBalance checks that base LIDs stay spread over the cables, whatever the LMC
// and the number of LIDs in use, and that a linear shift on them by a program without a
// plan takes no longer than on min-hop tables: 359, 698 and 823 phase
// times there, healthy, without the cable and without the demo's nine, on tables read
// back from OpenSM (TestBaseLIDs of testbed/e2e).
func TestBaseBalance(t *testing.T) {
	for _, dead := range []struct {
		name   string
		cables [][2]int
		minHop int
	}{{"healthy", nil, 359}, {"a cable", [][2]int{{7, 10}}, 698}, {"the demo's nine", demoCables(), 823}} {
		for lmc := range uint8(6) {
			ft := fabgen.Damaged(t, fabgen.Spec{Spines: 20, Leaves: 18, LMC: lmc}, dead.cables...)
			for _, lids := range []LIDs{AutoLIDs, 1, 2, 4, 8, 16, 20, 32} {
				if lids > 1<<lmc || lmc > 0 && lmc < 5 && lids > 0 && lids != 1<<lmc && !long() {
					continue
				}
				r, err := Make(bg, ft, Settings{LIDs: lids})
				if err != nil {
					t.Fatal(err)
				}
				b, shift := float64(r.Load.BusiestCable)/float64(r.Load.FairShare), phaseTimes(t, r, sim.LinearShift(ft))
				t.Logf("%s, LMC %d, lids %s: %d phases, base %d; busiest cable %.2f times its share, linear shift %d", dead.name, lmc, lids, r.Plan.Phases, r.Base.Plan.Phases, b, shift)
				if b > 1.1 || shift > dead.minHop {
					t.Errorf("%s, LMC %d, lids %s: the busiest cable has %.2f times its share of an exchange by base LIDs, and a linear shift on them takes %d; want 1.1 and %d at most",
						dead.name, lmc, lids, b, shift, dead.minHop)
				}
			}
		}
	}
}

// TestCrowded checks the warning about base LIDs that crowd on few cables: if one leaf has many
// hosts and the others few, which own the same lanes, as in an old baseline, and the settings
// make base LIDs stand for lanes.
func TestCrowded(t *testing.T) {
	spec := fabgen.Spec{Spines: 8, Leaves: 6, LMC: 3, Hosts: []int{8, 2, 2, 2, 2, 2}}
	ft := fabgen.Damaged(t, spec)
	r, err := Make(bg, ft, Settings{})
	if err != nil || len(r.Notes) > 0 || r.Base.Plan.Phases != 17 {
		t.Errorf("%v, %d phases for base LIDs, warnings %v", err, r.Base.Plan.Phases, r.Notes)
	}
	for l := range ft.Baseline.Leaves {
		ft.Baseline.Leaves[l].First = 0
	}
	if ft, err = topology.Fit(ft.Fabric, ft.Baseline, nil); err != nil {
		t.Fatal(err)
	}
	if r, err = Make(bg, ft, Settings{}); err != nil || len(r.Notes) > 0 || r.Base.Plan.Phases != 17 {
		t.Errorf("by a baseline of old: %v, %d phases for base LIDs, warnings %v", err, r.Base.Plan.Phases, r.Notes)
	}
	if r, err = Make(bg, ft, Settings{LIDs: LaneLIDs}); err != nil {
		t.Fatal(err)
	}
	if got := codes(r.Notes); !slices.Equal(got, []string{BaseLIDsCrowded}) || r.Base.Plan.Phases != 40 || !slices.Contains(codes(r.Base.Warnings), BasePlanOverBound) {
		t.Errorf("by a baseline of old, where base LIDs stand for lanes: %d phases for base LIDs, warnings %v, %v", r.Base.Plan.Phases, r.Notes, r.Base.Warnings)
	}
	spec.Hosts = []int{8, 8, 8, 7, 7, 8}
	if r, err = Make(bg, fabgen.Damaged(t, spec, [2]int{1, 1}), Settings{}); err != nil || len(r.Notes) > 0 {
		t.Errorf("on even leaves: %v, %v", r.Notes, err)
	}
}

// TestTwentyLIDs checks that with a LID for each server of a leaf there are 359 phases
// on FT(2;20,18), and that no pair's LID ever changes.
func TestTwentyLIDs(t *testing.T) {
	lids := map[[2]int32]ib.LID{}
	for _, c := range []struct {
		dead   [][2]int
		phases int
	}{{nil, 359}, {[][2]int{{7, 10}}, 359}, {[][2]int{{7, 10}, {7, 13}}, 378}} {
		r, err := Make(bg, fabgen.Damaged(t, fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}, c.dead...), Settings{LIDs: 20})
		if err != nil {
			t.Fatal(err)
		}
		if r.Plan.Phases != c.phases {
			t.Errorf("without %v: %d phases, want %d", c.dead, r.Plan.Phases, c.phases)
		}
		for i, d := range r.Rows.To {
			if d < 0 {
				continue
			}
			pair := [2]int32{int32(i % r.Plan.Servers), d}
			if was, known := lids[pair]; known && was != r.Rows.DLID[i] {
				t.Fatalf("without %v: pair %v sends to LID %d, and to %d before", c.dead, pair, r.Rows.DLID[i], was)
			}
			lids[pair] = r.Rows.DLID[i]
		}
	}
}

// TestBaseProperty plans random damaged fabrics of any LMC, settings and
// population: both plans stand on the tables, and the base plan sends to base LIDs.
func TestBaseProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		spec := fabgen.Spec{Spines: 1 + rng.IntN(7), Leaves: 2 + rng.IntN(6), LMC: uint8(rng.IntN(4)), Shuffle: rng.Uint64(), Cables: 1 + rng.IntN(2)}
		for range spec.Leaves {
			spec.Hosts = append(spec.Hosts, 1+rng.IntN(9))
		}
		f := fabgen.Generate(spec)
		whole, err := topology.NewBaseline(f)
		if err != nil {
			rt.Skip(err)
		}
		dead := rng.Float64() / 3
		for leaf := range spec.Leaves {
			for k := range spec.Spines * spec.Cables {
				if rng.Float64() < dead {
					spec.Cut(f, [2]int{leaf, k})
				}
			}
		}
		ft, err := topology.Fit(f, whole, nil)
		if err != nil {
			rt.Skip(err)
		}
		r, err := Make(bg, ft, Settings{MaxUnreachable: new(1.0)})
		if err != nil {
			rt.Fatal(err)
		}
		if err := verify.Tables(ft, r.Tables); err != nil {
			rt.Fatal(err)
		}
		if err := verify.Plan(ft, r.Tables, r.Rows, Unreachable(ft, r.Rows)); err != nil {
			rt.Fatal(err)
		}
		if r.Base == nil {
			if spec.Cables == 1 || !slices.Contains(codes(r.Notes), NoBasePlan) {
				rt.Fatalf("no base plan: %v", r.Notes)
			}
			return
		}
		if err := verify.Plan(ft, r.Tables, r.Base.Rows, Unreachable(ft, r.Base.Rows)); err != nil {
			rt.Fatal(err)
		}
		if !r.Base.onBaseLIDs() {
			rt.Fatal("the base plan sends to other LIDs than base LIDs")
		}
	})
}

// share is the number of fabrics to try, all of them with FORS_LONG=1.
func share(all, quick int) int {
	if long() {
		return all
	}
	return quick
}

func long() bool { return os.Getenv("FORS_LONG") != "" }
