package planner

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// TestLIDsPolicy checks the choices of auto, its warnings, and the settings that are refused.
func TestLIDsPolicy(t *testing.T) {
	six := fabgen.Spec{Spines: 6, Leaves: 4}
	with := func(s fabgen.Spec, lmc uint8) fabgen.Spec { s.LMC = lmc; return s }
	parallel := fabgen.Spec{Spines: 3, Leaves: 4, Cables: 2, Hosts: []int{6}}
	for _, c := range []struct {
		name   string
		spec   fabgen.Spec
		dead   []uint8
		set    Settings
		lids   LIDs
		engine fors.Engine
		warned bool
		err    string
	}{
		{"enough", with(six, 3), []uint8{7}, Settings{}, LaneLIDs, fors.Rotation, false, ""},
		{"one, undamaged", six, nil, Settings{}, LaneLIDs, fors.Shift, true, ""},
		{"one, undamaged, by number", six, nil, Settings{LIDs: 1}, 1, fors.Exact, true, ""},
		{"one", six, []uint8{7}, Settings{}, 1, fors.Exact, true, ""},
		{"two are one for the base plan, and no groups", with(six, 1), []uint8{7}, Settings{}, 1, fors.Exact, true, ""},
		{"four make groups of two", with(six, 2), []uint8{7}, Settings{}, 3, fors.Exact, true, ""},
		{"two of eight", with(six, 3), []uint8{7}, Settings{LIDs: 2}, 2, fors.Exact, false, ""},
		{"lanes", with(six, 1), []uint8{7}, Settings{LIDs: LaneLIDs, MaxUnreachable: new(1.0)}, LaneLIDs, fors.Conservative, true, ""},
		{"parallel cables", parallel, []uint8{7}, Settings{}, 1, fors.Exact, true, ""},
		{"parallel cables, undamaged", parallel, nil, Settings{}, LaneLIDs, fors.Shift, true, ""},
		{"too many", with(six, 1), nil, Settings{LIDs: 3}, 0, "", false, "lids 3 is more than the 2 of some server"},
		{"none", six, nil, Settings{LIDs: -7}, 0, "", false, "lids -7"},
		{"engine", six, nil, Settings{LIDs: 1, Engine: "algorithm"}, 0, "", false, "does not go with engine algorithm"},
		{"parallel cables, by number", parallel, nil, Settings{LIDs: 1}, 0, "", false, "does not go with parallel cables"},
	} {
		ft := tree(t, c.spec, c.dead...)
		r, err := Make(bg, ft, c.set)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r.LIDs != c.lids || r.Plan.Engine != c.engine || slices.Contains(codes(r.Warnings), LMCTooSmall) != c.warned {
			t.Errorf("%s: %s LIDs, engine %s, warnings %v", c.name, r.LIDs, r.Plan.Engine, r.Warnings)
		}
		if r.LIDs > 0 && slices.Contains(codes(r.Warnings), PlanOverBound) {
			t.Errorf("%s: what groups cost is called %s", c.name, PlanOverBound)
		}
		if follow, err := c.set.TablesFollow(ft); err != nil || r.LIDs > 0 && !follow {
			t.Errorf("%s: tables follow from the plan: %v, %v", c.name, follow, err)
		}
	}
}

// TestLIDsProperty plans random damaged fabrics with random populations and any
// LMC, and holds plan and tables to the verifier, the plan also to its own
// tables' LIDs: no more of a server's than it says.
func TestLIDsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		spec := fabgen.Spec{Spines: 1 + rng.IntN(7), Leaves: 2 + rng.IntN(6), LMC: uint8(rng.IntN(3)), Shuffle: rng.Uint64()}
		for range spec.Leaves {
			spec.Hosts = append(spec.Hosts, 1+rng.IntN(9))
		}
		f := fabgen.Generate(spec)
		base, err := topology.NewBaseline(f)
		if err != nil {
			rt.Skip(err)
		}
		dead := rng.Float64() / 2
		for leaf := range spec.Leaves {
			for k := range spec.Spines {
				if rng.Float64() < dead {
					spec.Cut(f, [2]int{leaf, k})
				}
			}
		}
		ft, err := topology.Fit(f, base, nil)
		if err != nil {
			rt.Skip(err)
		}
		set := Settings{LIDs: LIDs(1 + rng.IntN(1<<spec.LMC)), MaxUnreachable: new(1.0)}
		r, err := Make(bg, ft, set)
		if err != nil {
			rt.Fatal(err)
		}
		if err := verify.Tables(ft, r.Tables); err != nil {
			rt.Fatal(err)
		}
		if err := verify.Plan(ft, r.Tables, r.Rows, Unreachable(ft, r.Rows)); err != nil {
			rt.Fatal(err)
		}
		for i, d := range r.Rows.To {
			if d >= 0 && int(r.Rows.DLID[i]-ft.Hosts[ft.Servers[d]].LID) > int(set.LIDs) {
				rt.Fatalf("LID %d of a server whose base LID is %d, of %d and that", r.Rows.DLID[i], ft.Hosts[ft.Servers[d]].LID, set.LIDs)
			}
		}
		again, err := Make(bg, ft, set)
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(r.Tables, again.Tables); d != "" || !cmp.Equal(r.Rows, again.Rows) {
			rt.Fatalf("made again, the tables differ:\n%s", d)
		}
		// By itself, a plan with more LIDs is not longer than one with the base LID alone.
		auto, err := Make(bg, ft, Settings{MaxUnreachable: new(1.0)})
		if err != nil {
			rt.Fatal(err)
		}
		if b := auto.Base; b != nil && auto.Plan.Phases > b.Plan.Phases && len(auto.Plan.Unreachable) == len(b.Plan.Unreachable) {
			rt.Fatalf("%s LIDs: %d phases, and %d by base LIDs", auto.LIDs, auto.Plan.Phases, b.Plan.Phases)
		}
	})
}

// TestLIDsFallback checks that a plan that fails on its own tables is replaced by one on tables
// that carry any plan, and that it is not verified on others.
func TestLIDsFallback(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 6, Leaves: 4, LMC: 2}, 7)
	s, err := Plan(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := Route(bg, ft, Settings{LIDs: LaneLIDs})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verified(bg, other.Tables); err == nil {
		t.Error("a plan with tables of its own was verified on others")
	}
	row := s.Rows.To[:s.Plan.Servers]
	row[0], row[1] = row[1], row[0]
	r, err := Settings{}.carried(bg, ft, s, routed{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Plan.Engine != fors.Conservative || r.LIDs != LaneLIDs || !slices.Contains(codes(r.Warnings), EngineFallback) {
		t.Errorf("a spoiled plan was replaced by one of engine %s with warnings %v", r.Plan.Engine, r.Warnings)
	}
	if err := verify.Plan(ft, r.Tables, r.Rows, Unreachable(ft, r.Rows)); err != nil {
		t.Error(err)
	}
}

// unevenServers draws a tree with 15 servers, unevenly spread from the start or because
// hosts have gone since the baseline, one LID a server, and so many dead cables.
func unevenServers(t *testing.T, rng *rand.Rand, dead int) (*topology.FatTree, fabgen.Spec) {
	t.Helper()
	const servers = 15
	leaves := 2 + rng.IntN(5)
	spec := fabgen.Spec{Spines: 1 + rng.IntN(8), Leaves: leaves, Cables: 1 + rng.IntN(3), Hosts: make([]int, leaves)}
	gone := 0
	if rng.IntN(2) == 0 {
		spec.Hosts = []int{servers/leaves + 1 + rng.IntN(4)}
		gone = spec.Hosts[0]*leaves - servers
	} else {
		for range servers {
			spec.Hosts[rng.IntN(leaves)]++
		}
	}
	return fabgen.Fitted(t, fabgen.Generate(spec), func(f *topology.Fabric) {
		if gone > 0 {
			for _, at := range rng.Perm(spec.Hosts[0] * leaves)[:gone] {
				f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID + ib.GUID(at%leaves)), Port: uint8(1 + at/leaves)})
			}
		}
		for range max(1, dead) {
			leaf := f.Find(fabgen.LeafGUID + ib.GUID(rng.IntN(leaves)))
			if ports := f.Trunks(leaf); dead > 0 && len(ports) > 1 {
				f.Disconnect(topology.PortRef{Node: leaf, Port: ports[rng.IntN(len(ports))]})
			}
		}
	}), spec
}

// TestUnevenServers plans 15 servers with one LID each, also over parallel cables. Where
// nothing is dead and no leaf has more servers than lanes the plan reaches its bound, and
// elsewhere it comes near. No pair is left out.
func TestUnevenServers(t *testing.T) {
	n := 150
	if os.Getenv("FORS_LONG") != "" {
		n = 5000
	}
	over, worst := 0, 1.0
	for seed := range n {
		rng, dead := rand.New(rand.NewPCG(uint64(seed), 15)), seed%2
		ft, spec := unevenServers(t, rng, dead)
		r, err := Make(bg, ft, Settings{MaxUnreachable: new(1.0)})
		if err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, spec, err)
		}
		most := 0
		for _, slots := range forsTree(ft).Slots {
			most = max(most, len(slots))
		}
		switch phases := r.Plan.Phases; {
		case len(r.Plan.Unreachable) > 0 || phases > r.least && dead == 0 && most <= ft.Lanes:
			t.Errorf("seed %d, %+v: %d phases by %s, the bound is %d; %d pairs are left out", seed, spec, phases, r.Plan.Engine, r.least, len(r.Plan.Unreachable))
		case phases > r.least:
			over++
			worst = max(worst, float64(phases)/float64(r.least))
		}
	}
	t.Logf("%d of %d plans over their bound, the worst %.3f times as long", over, n, worst)
	if 20*over > n || worst > 1.5 {
		t.Errorf("%d of %d plans over their bound, the worst %.3f times as long", over, n, worst)
	}
}

// TestFewCables takes several cables away where a spine has more than one to a leaf and
// servers have one LID. A pair is left out only where no spine has a cable to both leaves.
func TestFewCables(t *testing.T) {
	n := 200
	if os.Getenv("FORS_LONG") != "" {
		n = 5000
	}
	cut := 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 16))
		ft, spec := unevenServers(t, rng, 2+rng.IntN(5))
		r, err := Make(bg, ft, Settings{MaxUnreachable: new(1.0)})
		if err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, spec, err)
		}
		for _, p := range r.Plan.Unreachable {
			a, b := ft.Hosts[ft.Servers[p.Src]].At.Node, ft.Hosts[ft.Servers[p.Dst]].At.Node
			if cut++; meet(ft, a, b) {
				t.Fatalf("seed %d, %+v: a pair is left out that has a way", seed, spec)
			}
		}
	}
	t.Logf("%d plans leave %d pairs out", n, cut)
}

// TestLIDsText reads back what is written, and refuses the rest.
func TestLIDsText(t *testing.T) {
	for _, l := range []LIDs{AutoLIDs, LaneLIDs, 1, 128} {
		back, err := ParseLIDs(l.String())
		if err != nil || back != l {
			t.Errorf("%s is read as %s, %v", l, back, err)
		}
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &back); err != nil || back != l {
			t.Errorf("%s is read as %s, %v", data, back, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "129", "all", "1.5", "Auto"} {
		if l, err := ParseLIDs(text); err == nil {
			t.Errorf("%q is read as %s", text, l)
		}
	}
	var l LIDs
	for _, text := range []string{"0", `"x"`, "[]", "{}"} {
		if err := json.Unmarshal([]byte(text), &l); err == nil {
			t.Errorf("%s is read as %s", text, l)
		}
	}
}

// BenchmarkLIDs plans FT(2;20,18) with one dead cable, by LIDs of a server.
func BenchmarkLIDs(b *testing.B) {
	ft := fabgen.Damaged(b, fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}, [2]int{0, 0})
	for _, lids := range []LIDs{1, 2, 4, LaneLIDs} {
		b.Run(lids.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Plan(bg, ft, Settings{LIDs: lids}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
