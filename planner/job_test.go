package planner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// every picks the port GUIDs of every step-th host of a tree.
func every(t *topology.FatTree, step int) (out []ib.GUID) {
	for i := 0; i < len(t.Hosts); i += step {
		out = append(out, t.Hosts[i].GUID)
	}
	return out
}

// verified fails where a job's plan does not hold on the tables, or has other
// servers than those wanted.
func verified(t *testing.T, s *Schedule, tables *lft.Tables, servers int) {
	t.Helper()
	if s.Plan.Servers != servers || len(s.Tree.Servers) != servers {
		t.Errorf("the plan has %d servers, want %d", s.Plan.Servers, servers)
	}
	if err := verify.Plan(s.Tree, tables, s.Rows, Unreachable(s.Tree, s.Rows)); err != nil {
		t.Error(err)
	}
}

func TestPlanJob(t *testing.T) {
	for _, dead := range [][]uint8{nil, {7}, {7, 8}} {
		ft := tree(t, fabgen.Spec{Spines: 6, Leaves: 6, LMC: 3}, dead...)
		r, err := Make(bg, ft, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []int{1, 2, 3, 5, 6, 36} {
			s, err := PlanJob(bg, ft, every(ft, step), Settings{}, r.Tables)
			if err != nil {
				t.Fatalf("dead %v, every %d: %v", dead, step, err)
			}
			verified(t, s, r.Tables, (36+step-1)/step)
			if s.Plan.Gap() != 0 || len(s.Warnings) > 0 {
				t.Errorf("dead %v, every %d: %d phases for a bound of %d, %v", dead, step, s.Plan.Phases, s.Plan.LowerBound, s.Warnings)
			}
		}
	}
}

// TestPlanJobWithFewLIDs plans jobs on tables that follow from the fabric's plan.
func TestPlanJobWithFewLIDs(t *testing.T) {
	for _, c := range []struct {
		lmc  uint8
		lids LIDs
	}{{0, AutoLIDs}, {1, AutoLIDs}, {3, 2}} {
		for _, dead := range [][]uint8{nil, {7}, {7, 8}} {
			ft := tree(t, fabgen.Spec{Spines: 6, Leaves: 6, LMC: c.lmc}, dead...)
			by := Settings{LIDs: c.lids}
			r, err := Make(bg, ft, by)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []int{1, 2, 5} {
				s, err := PlanJob(bg, ft, every(ft, step), by, r.Tables)
				if err != nil {
					t.Fatalf("lmc %d, lids %s, dead %v, every %d: %v", c.lmc, c.lids, dead, step, err)
				}
				verified(t, s, r.Tables, (36+step-1)/step)
				if s.Plan.Engine != fors.Conservative || s.LIDs < 1 || s.Plan.Phases > 2*s.Plan.LowerBound {
					t.Errorf("lmc %d, dead %v, every %d: engine %s, lids %s, %d phases for a bound of %d", c.lmc, dead, step, s.Plan.Engine, s.LIDs, s.Plan.Phases, s.Plan.LowerBound)
				}
			}
		}
	}
}

// TestPlanJobRandomly plans random jobs on random damage, as the tables allow.
func TestPlanJobRandomly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := fabgen.Spec{Spines: rapid.IntRange(2, 5).Draw(t, "spines"), Leaves: rapid.IntRange(2, 5).Draw(t, "leaves"), LMC: uint8(rapid.IntRange(0, 3).Draw(t, "lmc"))}
		var dead [][2]int
		for range rapid.IntRange(0, 3).Draw(t, "dead") {
			dead = append(dead, [2]int{rapid.IntRange(0, spec.Leaves-1).Draw(t, "leaf"), rapid.IntRange(0, spec.Spines-1).Draw(t, "lane")})
		}
		ft := fabgen.Damaged(t, spec, dead...)
		r, err := Make(bg, ft, Settings{})
		if err != nil {
			t.Skip(err)
		}
		var members []ib.GUID
		for i := range ft.Hosts {
			if rapid.Bool().Draw(t, "in") {
				members = append(members, ft.Hosts[i].GUID)
			}
		}
		s, err := PlanJob(bg, ft, members, Settings{}, r.Tables)
		if len(members) == 0 {
			if !errors.Is(err, ErrNoMember) {
				t.Fatal(err)
			}
			return
		}
		var v *verify.Violation
		if errors.As(err, &v) && v.Code == verify.NotUnreachable && r.LIDs > 0 {
			return // the tables carry no lane of this pair, though one is up
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := verify.Plan(s.Tree, r.Tables, s.Rows, Unreachable(s.Tree, s.Rows)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPlanJobLeavesOut(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	r, err := Make(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := PlanJob(bg, ft, append(every(ft, 2), 0xdead), Settings{}, r.Tables)
	if err != nil {
		t.Fatal(err)
	}
	verified(t, s, r.Tables, 8)
	if _, err := PlanJob(bg, ft, []ib.GUID{0xdead}, Settings{}, r.Tables); !errors.Is(err, ErrNoMember) {
		t.Errorf("a job without a host gave %v", err)
	}
	if _, err := PlanJob(bg, ft, every(ft, 2), Settings{}); err == nil {
		t.Error("a job was planned on no tables")
	}
	// A plan for the whole tree must not pass on tables that lack a lane.
	cut := tree(t, fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2}, 5)
	without, err := Make(bg, cut, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := PlanJob(bg, ft, every(ft, 1), Settings{}, r.Tables, without.Tables); err == nil {
		t.Error("a plan passed on tables that lack one of its lanes")
	}
	if _, err := PlanJob(bg, cut, every(cut, 1), Settings{}, r.Tables, without.Tables); err != nil {
		t.Errorf("the plan without the lane on both tables: %v", err)
	}
}

func TestFindMembers(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1})
	names := []string{"node001 mlx5_0", "node001 mlx5_1", "node002 mlx5_0", "storage"}
	at, gone := 0, int32(0)
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter {
			if f.Nodes[i].Name = names[at]; at == 2 {
				gone = int32(i)
			}
			at++
		}
	}
	ft := fabgen.Fitted(t, f, func(f *topology.Fabric) { f.Disconnect(topology.PortRef{Node: gone, Port: 1}) })
	first := &ft.Hosts[0]
	for _, name := range []string{"node001 mlx5_0", first.GUID.String(), fmt.Sprint(first.LID), fmt.Sprint(first.LID + 1)} {
		m, err := FindMembers(ft, []string{name})
		if err != nil || m[0] != (Member{first.GUID, first.Name}) {
			t.Errorf("%q is %+v, %v", name, m, err)
		}
	}
	if m, err := FindMembers(ft, []string{"storage", "node002"}); err != nil || m[1].Name != "node002 mlx5_0" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, name := range []string{"Storage", "storage.site", "STORAGE.other.site"} {
		if m, err := FindMembers(ft, []string{name}); err != nil || m[0].Name != "storage" {
			t.Errorf("%q is %+v, %v", name, m, err)
		}
	}
	last := slices.IndexFunc(ft.Hosts, func(h topology.Host) bool { return h.Name == "storage" })
	ft.Hosts[last].Name = "Storage.site HCA-1"
	for name, found := range map[string]bool{"storage": true, "storage.site": true, "storage.SITE": true, "storage.other": false, ".site": false} {
		if m, err := FindMembers(ft, []string{name}); (err == nil) != found || found && m[0].GUID != ft.Hosts[last].GUID {
			t.Errorf("%q is %+v, %v", name, m, err)
		}
	}
	for want, names := range map[string][]string{
		"2 ports are called \"node001\"":      {"node001"},
		"2 ports are called \"node001.site\"": {"node001.site"},
		"are the same port":                   {"node001 mlx5_0", first.GUID.String()},
		"no host has the name":                {"node003"},
		"no host has the name, port":          {""},
	} {
		if m, err := FindMembers(ft, names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want an error with %q", names, m, err, want)
		}
	}
	ft.Hosts[0].Server = false // excluded: the other one is meant
	if m, err := FindMembers(ft, []string{"node001"}); err != nil || m[0].Name != "node001 mlx5_1" {
		t.Errorf("%+v, %v", m, err)
	}
}
