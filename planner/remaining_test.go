package planner

import (
	"errors"
	"fmt"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// TestRemaining loses cables, a spine, a leaf's cables, a server, at any phase of
// a plan by each engine, and gets cables and servers back: what remains is
// planned and verified on the new tables and, as no lane's entries move, on the
// old ones too.
func TestRemaining(t *testing.T) {
	spec := fabgen.Spec{Spines: 6, Leaves: 4, LMC: 3}
	leaf := func(i uint64) ib.GUID { return fabgen.LeafGUID + ib.GUID(i) }
	cut := func(f *topology.Fabric, at ib.GUID, ports ...uint8) {
		for _, p := range ports {
			f.Disconnect(topology.PortRef{Node: f.Find(at), Port: p})
		}
	}
	for name, c := range map[string]struct {
		before, after func(*topology.Fabric)
		known         bool // the servers stay, and no lane comes back
		over          int  // phases over the bound at most
	}{
		"cable":                {nil, func(f *topology.Fabric) { cut(f, leaf(0), 7) }, true, 1},
		"spine":                {nil, func(f *topology.Fabric) { cut(f, fabgen.SpineGUID+2, 1, 2, 3, 4) }, true, 1},
		"leaf cut off":         {nil, func(f *topology.Fabric) { cut(f, leaf(1), 7, 8, 9, 10, 11, 12) }, true, 1},
		"server":               {nil, func(f *topology.Fabric) { cut(f, leaf(1), 2) }, false, 1},
		"two of a leaf before": {func(f *topology.Fabric) { cut(f, leaf(0), 7, 8) }, func(f *topology.Fabric) { cut(f, leaf(0), 7, 8); cut(f, leaf(2), 9) }, true, 2},
		"lane back":            {func(f *topology.Fabric) { cut(f, leaf(0), 7); cut(f, leaf(1), 8) }, nil, false, 1},
		"leaf joined":          {func(f *topology.Fabric) { cut(f, leaf(1), 7, 8, 9, 10, 11, 12) }, nil, false, 1},
		"server back":          {func(f *topology.Fabric) { cut(f, leaf(3), 4, 5) }, nil, false, 1},
	} {
		for _, engine := range []string{Auto, "exact"} {
			t.Run(name+"/"+engine, func(t *testing.T) {
				before, after := fabgen.Fitted(t, fabgen.Generate(spec), c.before), fabgen.Fitted(t, fabgen.Generate(spec), c.after)
				r, err := Make(bg, before, Settings{Engine: engine, MaxUnreachable: new(1.0)})
				if err != nil {
					t.Fatal(err)
				}
				old := viewOf(t, r)
				for done := 0; done <= old.Phases(); done += 1 + done/3 {
					rest, err := Remaining(bg, after, old, done)
					if err != nil {
						t.Fatal(err)
					}
					if rest.Plan.Gap() > c.over {
						t.Errorf("%d phases done: %d phases, bound %d", done, rest.Plan.Phases, rest.Plan.LowerBound)
					}
					if c.known {
						// The switches hold the old tables still, with the cables dead.
						if err := rest.Check(r.Tables); err != nil {
							t.Errorf("%d phases done, on the old tables: %v", done, err)
						}
					}
				}
			})
		}
	}
}

// TestRemainingLHCb loses one of several cables or spines of FT(2;20,18) at 0, 25, 50,
// 75 and 95 % of the exchange: no phase over the bound, the plan holds on the tables
// before and after, and over both plans every ordered pair occurs exactly once.
func TestRemainingLHCb(t *testing.T) {
	spec := fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}
	cable := func(leaf ib.GUID, port uint8) func(*topology.Fabric) {
		return func(f *topology.Fabric) {
			f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID + leaf), Port: port})
		}
	}
	spine := func(i ib.GUID) func(*topology.Fabric) {
		return func(f *topology.Fabric) {
			for port := uint8(1); port <= 18; port++ {
				f.Disconnect(topology.PortRef{Node: f.Find(fabgen.SpineGUID + i), Port: port})
			}
		}
	}
	for _, engine := range []string{Auto, "exact"} {
		r, err := Make(bg, fabgen.Damaged(t, spec), Settings{Engine: engine})
		if err != nil {
			t.Fatal(err)
		}
		old := viewOf(t, r)
		for name, lose := range map[string]func(*topology.Fabric){
			"Leaf000/21": cable(0, 21), "Leaf007/31": cable(7, 31), "Leaf017/40": cable(17, 40),
			"Spine000": spine(0), "Spine012": spine(12), "Spine019": spine(19),
		} {
			after := fabgen.Fitted(t, fabgen.Generate(spec), lose)
			for _, percent := range []int{0, 25, 50, 75, 95} {
				rest, err := Remaining(bg, after, old, percent*old.Phases()/100)
				if err != nil {
					t.Fatal(err)
				}
				if rest.Plan.Gap() != 0 || len(rest.Plan.Unreachable) > 0 {
					t.Errorf("%s plan, %s lost at %d%%: %d phases, bound %d, %d pairs unreachable", r.Plan.Engine, name, percent, rest.Plan.Phases, rest.Plan.LowerBound, len(rest.Plan.Unreachable))
				}
				if err := errors.Join(rest.Check(r.Tables), everyPairOnce(r.Rows, rest.Done, rest.Rows)); err != nil {
					t.Errorf("%s plan, %s lost at %d%%: %v", r.Plan.Engine, name, percent, err)
				}
			}
		}
	}
}

// everyPairOnce counts the pairs in the first phases of one plan and in all of
// another one of the same servers.
func everyPairOnce(first verify.Rows, done int, rest verify.Rows) error {
	servers := len(first.To) / first.Phases
	met := make([]int, servers*servers)
	for _, to := range [][]int32{first.To[:done*servers], rest.To} {
		for i, d := range to {
			if d != verify.Idle {
				met[i%servers*servers+int(d)]++
			}
		}
	}
	for i, times := range met {
		if s, d := i/servers, i%servers; s == d && times != 0 || s != d && times != 1 {
			return fmt.Errorf("server %d sends to %d %d times", s, d, times)
		}
	}
	return nil
}

// TestRemainingFewLIDs plans what remains of a plan with tables of its own: on
// tables with one LID a lane, without the pairs that have none on a living lane.
func TestRemainingFewLIDs(t *testing.T) {
	spec := fabgen.Spec{Spines: 6, Leaves: 4, LMC: 1}
	cable := func(port uint8) func(*topology.Fabric) {
		return func(f *topology.Fabric) { f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: port}) }
	}
	r, err := Make(bg, fabgen.Fitted(t, fabgen.Generate(spec), cable(7)), Settings{})
	if err != nil {
		t.Fatal(err)
	}
	after := fabgen.Fitted(t, fabgen.Generate(spec), cable(8))
	rest, err := Remaining(bg, after, viewOf(t, r), r.Plan.Phases/2)
	if err != nil {
		t.Fatal(err)
	}
	if c := codes(rest.Warnings); rest.LIDs != LaneLIDs || len(c) == 0 || c[0] != LMCTooSmall {
		t.Errorf("a plan by %s LIDs with warnings %v", rest.LIDs, c)
	}
	if err := rest.Check(rest.Tables); err != nil {
		t.Error(err)
	}
}

func TestRemainingRefuses(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	r, err := Make(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for _, done := range []int{-1, r.Plan.Phases + 1} {
		if _, err := Remaining(bg, ft, viewOf(t, r), done); err == nil {
			t.Errorf("%d of %d phases are done: no error", done, r.Plan.Phases)
		}
	}
	rest, err := Remaining(bg, ft, viewOf(t, r), 4)
	if err != nil {
		t.Fatal(err)
	}
	if rest.Plan.Phases != r.Plan.Phases-4 || rest.Moved+rest.Shed > 0 || rest.Anew {
		t.Errorf("nothing failed: %d phases, %d moved, %d shed", rest.Plan.Phases, rest.Moved, rest.Shed)
	}
	rest.Rows.To[0] = verify.Idle
	if err := rest.Check(rest.Tables); !errors.As(err, new(*verify.Violation)) {
		t.Errorf("a pair is missing: %v", err)
	}
	if err := rest.Check(&lft.Tables{}); err == nil {
		t.Error("verified on no tables")
	}
}

// BenchmarkRemaining takes an exchange of 360 servers over at half time, with
// tables and verification.
func BenchmarkRemaining(b *testing.B) {
	f := fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5})
	ft := fabgen.Fitted(b, f)
	for _, engine := range []string{Auto, "exact"} {
		r, err := Make(bg, ft, Settings{Engine: engine})
		if err != nil {
			b.Fatal(err)
		}
		old := viewOf(b, r)
		g := f.Clone()
		g.Disconnect(topology.PortRef{Node: g.Find(fabgen.LeafGUID), Port: 21})
		hurt, err := topology.Fit(g, ft.Baseline, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(r.Plan.Engine), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Remaining(bg, hurt, old, old.Phases()/2); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
