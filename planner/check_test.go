package planner

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// TestMayLeaveOut checks the limit at its edge: a share as large as the limit passes, and one
// pair more does not.
func TestMayLeaveOut(t *testing.T) {
	for _, c := range []struct {
		limit   *float64
		pairs   int
		of      int
		refused string
	}{
		{nil, 0, 0, ""},
		{nil, 100, 10_000, ""},
		{nil, 101, 10_000, "101 of 10000 ordered pairs of servers (1 %) share no lane, and a plan may leave out 1 %"},
		{new(0.0), 0, 72, ""},
		{new(0.0), 1, 72, "1 of 72 ordered pairs of servers (1.4 %) share no lane, and a plan may leave out 0 %"},
		{new(0.25), 18, 72, ""},
		{new(0.25), 19, 72, "19 of 72 ordered pairs of servers (26 %) share no lane, and a plan may leave out 25 %"},
		{new(0.7), 60, 72, "60 of 72 ordered pairs of servers (83 %) share no lane, and a plan may leave out 70 %"},
		{new(1.0), 72, 72, ""},
	} {
		err := Settings{MaxUnreachable: c.limit}.MayLeaveOut(c.pairs, c.of)
		if (err == nil) != (c.refused == "") || err != nil && !strings.HasPrefix(err.Error(), c.refused) {
			t.Errorf("%d of %d: %v, want %q", c.pairs, c.of, err, c.refused)
		}
		var refused *TooManyUnreachable
		if err != nil && (!errors.As(err, &refused) || refused.Pairs != c.pairs || refused.Of != c.of) {
			t.Errorf("%d of %d: %+v", c.pairs, c.of, refused)
		}
	}
}

// laneLess counts server by server what LaneLess counts leaf by leaf.
func laneLess(t *topology.FatTree) (pairs, of int) {
	for _, i := range t.Servers {
		for _, j := range t.Servers {
			if i == j {
				continue
			}
			of++
			a, b, share := t.Hosts[i].Leaf, t.Hosts[j].Leaf, false
			for k := range t.Lanes {
				share = share || t.LaneUp(a, k) && t.LaneUp(b, k)
			}
			if a != b && !share {
				pairs++
			}
		}
	}
	return pairs, of
}

// TestLaneLess counts pairs on damaged trees, some with more lanes than a word has bits.
func TestLaneLess(t *testing.T) {
	some := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := fabgen.Spec{Spines: 1 + rng.IntN(4), Leaves: 2 + rng.IntN(4), Hosts: []int{1 + rng.IntN(3), 2, 0}, LMC: 2}
		keep := rng.IntN(100)
		if seed%4 == 0 {
			s.Spines, keep = 62+rng.IntN(6), 5
		}
		ft := fabgen.Fitted(t, fabgen.Generate(s), func(f *topology.Fabric) {
			for l := range s.Leaves {
				for k := range s.Spines {
					if rng.IntN(100) > keep && f.Find(fabgen.LeafGUID+ib.GUID(l)) != topology.None && k > 0 {
						s.Cut(f, [2]int{l, k})
					}
				}
				if rng.IntN(2) == 0 {
					s.Cut(f, [2]int{l, 0})
				}
			}
		})
		pairs, of := LaneLess(ft)
		if wantPairs, wantOf := laneLess(ft); pairs != wantPairs || of != wantOf {
			t.Errorf("seed %d: %d of %d pairs share no lane, want %d of %d", seed, pairs, of, wantPairs, wantOf)
		}
		if pairs > 0 {
			some++
		}
	}
	for lane := 62; lane < 66; lane++ { // about the end of a word
		var dead [][2]int
		for k := range 66 {
			if k != lane {
				dead = append(dead, [2]int{0, k}, [2]int{1, k})
			}
		}
		if pairs, _ := LaneLess(fabgen.Damaged(t, fabgen.Spec{Spines: 66, Leaves: 2, Hosts: []int{2}}, dead...)); pairs != 0 {
			t.Errorf("two leaves with lane %d alone: %d pairs without a lane", lane, pairs)
		}
	}
	if some < 10 {
		t.Errorf("%d trees have pairs without a lane, want 10", some)
	}
}

// TestUnreachablePairs lists the pairs that a plan may leave out: those whose leaves share no
// lane for which the destination has a LID, and which the plan does not serve in another way.
func TestUnreachablePairs(t *testing.T) {
	for lmc := range uint8(3) {
		ft := fabgen.Damaged(t, fabgen.Spec{Spines: 4, Leaves: 3, Hosts: []int{2, 3}, LMC: lmc}, [2]int{0, 0}, [2]int{0, 1}, [2]int{0, 2}, [2]int{1, 2}, [2]int{1, 3}, [2]int{2, 0})
		n := len(ft.Servers)
		rows := verify.NewRows(n, 2)
		all := Unreachable(ft, rows)
		first, last := all[0], all[len(all)-1]
		rows.To[last[0]], rows.To[n+int(first[0])], rows.To[n+2] = last[1], first[1], int32(n) // the last is not a server
		rows.To[n+3] = -2
		var want [][2]int32
		for s := range n {
			for d := range n {
				src, dst := &ft.Hosts[ft.Servers[s]], &ft.Hosts[ft.Servers[d]]
				way := src.Leaf == dst.Leaf || [2]int32{int32(s), int32(d)} == first || [2]int32{int32(s), int32(d)} == last
				for o := range 1 << lmc {
					k := ft.LIDLane(dst, o)
					way = way || ft.LaneUp(src.Leaf, k) && ft.LaneUp(dst.Leaf, k)
				}
				if !way {
					want = append(want, [2]int32{int32(s), int32(d)})
				}
			}
		}
		if d := cmp.Diff(want, Unreachable(ft, rows)); d != "" || len(want) == 0 {
			t.Errorf("LMC %d (-want +got):\n%s", lmc, d)
		}
	}
}

// spoilt are tables without an entry that the plan uses, and one that no plan uses: that of
// a leaf's own LID.
func spoilt(s *Schedule, tables *lft.Tables, leaf int, used bool) *lft.Tables {
	out := &lft.Tables{}
	for _, sw := range tables.Switches {
		sw.Out = slices.Clone(sw.Out)
		out.Switches = append(out.Switches, sw)
	}
	lid := s.Tree.Fabric.Nodes[s.Tree.Leaves[1-leaf].Node].LID()
	if used {
		lid = s.Tree.Hosts[s.Tree.Servers[len(s.Tree.Servers)-1]].LID
	}
	out.Switches[out.Find(s.Tree.Leaves[leaf].GUID)].Out[lid] = lft.NoPath
	return out
}

// TestCheckTables verifies a plan on several tables: each counts, the error is that of the
// first that it does not stand on, and entries that it does not use are of no account.
func TestCheckTables(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}, 6)
	r, err := Make(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	good, other := r.Tables, spoilt(r.Schedule, r.Tables, 0, false)
	bad := []*lft.Tables{spoilt(r.Schedule, r.Tables, 0, true), spoilt(r.Schedule, r.Tables, 1, true)}
	var want []string
	for _, b := range bad {
		err := verify.Plan(ft, b, r.Rows, nil)
		if err == nil {
			t.Fatal("the entry is not used")
		}
		want = append(want, "verify plan: "+err.Error())
	}
	if want[0] == want[1] {
		t.Fatalf("both tables give %s", want[0])
	}
	for _, c := range []struct {
		tables []*lft.Tables
		want   string
	}{
		{[]*lft.Tables{good}, ""}, {[]*lft.Tables{good, good}, ""}, {[]*lft.Tables{good, other}, ""}, {[]*lft.Tables{other, good, other}, ""},
		{bad[:1], want[0]}, {[]*lft.Tables{bad[0], good}, want[0]}, {[]*lft.Tables{good, bad[1]}, want[1]}, {[]*lft.Tables{good, bad[1], bad[0]}, want[1]},
		{bad, want[0]},
	} {
		said := ""
		if err := r.Check(c.tables...); err != nil {
			said = err.Error()
		}
		if said != c.want {
			t.Errorf("%d tables: %q, want %q", len(c.tables), said, c.want)
		}
	}
}

// TestVerifiedRefused has a spoilt plan replaced, and says why where it cannot be: a plan with
// tables of its own, the last engine's, or one whose caller has gone.
func TestVerifiedRefused(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})
	r, err := Route(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(bg)
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		spoil func(s *Schedule)
		want  string
	}{
		"replaced":     {bg, func(*Schedule) {}, ""},
		"own tables":   {bg, func(s *Schedule) { s.pins = &lft.Pins{} }, "verify plan"},
		"last engine":  {bg, func(s *Schedule) { s.Plan.Engine = fors.Conservative }, "verify plan"},
		"gone":         {gone, func(*Schedule) {}, context.Canceled.Error()},
		"empty tables": {bg, func(*Schedule) {}, "verify plan"},
	} {
		s, err := Plan(bg, ft, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		s.Rows.To[0], s.Rows.To[1] = s.Rows.To[1], s.Rows.To[0]
		c.spoil(s)
		tables := r.Tables
		if name == "empty tables" {
			tables = &lft.Tables{}
		}
		second, err := s.Verified(c.ctx, tables)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if c.want != "" {
			continue
		}
		w := second.Warnings[len(second.Warnings)-1]
		if w.Code != EngineFallback || !strings.HasPrefix(w.Text, "the plan of engine "+string(s.Plan.Engine)+" failed verification and was replaced: verify plan: ") {
			t.Errorf("%s: warning %+v", name, w)
		}
	}
}

// TestRestCheck finds a spoilt plan of the remaining pairs.
func TestRestCheck(t *testing.T) {
	spec := fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}
	r, err := Make(bg, tree(t, spec), Settings{})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := Remaining(bg, tree(t, spec, 6), viewOf(t, r), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := rest.Check(rest.Tables); err != nil {
		t.Error(err)
	}
	rest.Rows.To[0], rest.Rows.To[1] = rest.Rows.To[1], rest.Rows.To[0]
	if err := rest.Check(rest.Tables); err == nil || !strings.HasPrefix(err.Error(), "verify the plan of what remains: ") {
		t.Errorf("a spoilt plan: %v", err)
	}
}
