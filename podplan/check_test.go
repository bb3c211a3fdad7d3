package podplan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// checked is a tree of three levels with some of it failed, and its plan.
func checked(t *testing.T, fail ...string) *Result {
	t.Helper()
	f := fabgen.GenerateTree(fabgen.TreeSpec{Pods: 3, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2, LMC: 2})
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range fail {
		if _, err := f.Fail(spec); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := topology.FitPods(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Make(context.Background(), tree, Settings{MaxUnreachable: new(1.0)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cutOff leaves the first pod's mids without a way up.
var cutOff = []string{"Mid000/3", "Mid000/4", "Mid001/3", "Mid001/4"}

// without are tables that lack what a leaf sends to a server on another one.
func without(r *Result, tables *lft.Tables) *lft.Tables {
	out := &lft.Tables{}
	for _, sw := range tables.Switches {
		sw.Out = slices.Clone(sw.Out)
		out.Switches = append(out.Switches, sw)
	}
	h := &r.Tree.Hosts[r.Tree.Servers[len(r.Tree.Servers)-1]]
	for o := range 1 << h.LMC {
		out.Switches[out.Find(r.Tree.Leaves[0].GUID)].Out[int(h.LID)+o] = lft.NoPath
	}
	return out
}

// TestMayPlan holds the limit at its edge.
func TestMayPlan(t *testing.T) {
	r := checked(t, cutOff...)
	n, pairs := len(r.Tree.Servers), len(pods.Unreachable(Shape(r.Tree)))
	if pairs == 0 || pairs != len(r.Plan.Unreachable) {
		t.Fatalf("%d pairs have no way, and the plan leaves out %d", pairs, len(r.Plan.Unreachable))
	}
	share := float64(pairs) / float64(n*(n-1))
	if err := (Settings{MaxUnreachable: &share}).MayPlan(r.Tree); err != nil {
		t.Error(err)
	}
	var refused *planner.TooManyUnreachable
	for _, limit := range []*float64{nil, new(share * 0.999)} {
		if err := (Settings{MaxUnreachable: limit}).MayPlan(r.Tree); !errors.As(err, &refused) || refused.Pairs != pairs || refused.Of != n*(n-1) {
			t.Errorf("%v, want %d of %d", err, pairs, n*(n-1))
		}
	}
	if err := (Settings{}).MayPlan(checked(t).Tree); err != nil {
		t.Error(err)
	}
}

// TestChecks spoils the tables of a plan, its list of pairs without a way and its servers:
// what checks it finds that, and stops when its caller has gone.
func TestChecks(t *testing.T) {
	bg := context.Background()
	gone, cancel := context.WithCancel(bg)
	cancel()
	for name, r := range map[string]*Result{"whole": checked(t), "one cable": checked(t, "Leaf001/3"), "a pod cut off": checked(t, cutOff...)} {
		table := r.Table(1)
		plan, err := phasetable.New(table)
		if err != nil {
			t.Fatal(err)
		}
		bad := without(r, r.Tables)
		for what, check := range map[string]func(context.Context, *lft.Tables) error{
			"Check":  r.Check,
			"Holds":  func(ctx context.Context, tables *lft.Tables) error { return Holds(ctx, r.Tree, tables, plan) },
			"verify": func(ctx context.Context, tables *lft.Tables) error { x := *r; x.Tables = tables; return x.verify(ctx) },
		} {
			if err := check(bg, r.Tables); err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if err := check(gone, r.Tables); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, %s, and its caller has gone: %v", name, what, err)
			}
			if err := check(bg, bad); (err == nil) != (name == "a pod cut off") { // no plan uses that entry there
				t.Errorf("%s, %s, on spoilt tables: %v", name, what, err)
			}
		}
		x, plans := *r, *r.Plan
		plans.Unreachable = append(slices.Clone(plans.Unreachable), fors.Pair{Src: 0, Dst: 1})
		x.Plan = &plans
		if err := x.verify(bg); err == nil || !strings.HasPrefix(err.Error(), "verify plan: ") {
			t.Errorf("%s, with a spoilt plan: %v", name, err)
		}
		x.Tables = bad
		if err := x.verify(bg); name != "a pod cut off" && (err == nil || !strings.HasPrefix(err.Error(), "verify tables: ")) {
			t.Errorf("%s, with spoilt tables: %v", name, err)
		}
		if err := x.Check(bg, r.Tables); err == nil {
			t.Errorf("%s: a pair is in the plan, and is said to have no way", name)
		}
	}
	r := checked(t)
	other := checked(t, "Leaf001/1") // a server is gone
	plan, err := phasetable.New(r.Table(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := Holds(bg, other.Tree, other.Tables, plan); err == nil || !strings.Contains(err.Error(), "the plan has 12 servers, the fabric 11") {
		t.Errorf("a plan with one server more: %v", err)
	}
	foreign := *r.Tree
	foreign.Hosts = slices.Clone(foreign.Hosts)
	foreign.Hosts[foreign.Servers[3]].GUID++
	if err := Holds(bg, &foreign, r.Tables, plan); err == nil || !strings.Contains(err.Error(), foreign.Hosts[foreign.Servers[3]].Name+" (") || !strings.Contains(err.Error(), "is not in the plan") {
		t.Errorf("a plan without one of the servers: %v", err)
	}
}

// TestVerifyBase verifies the plan for base LIDs beside the plan, where it is another one.
func TestVerifyBase(t *testing.T) {
	r := checked(t, "Leaf001/3")
	if r.Base == nil || r.LIDs < 2 {
		t.Fatal("there is no plan for base LIDs of its own")
	}
	base := *r.Base
	plan := *base.Plan
	plan.Unreachable = append(slices.Clone(plan.Unreachable), fors.Pair{Src: 0, Dst: 1})
	base.Plan = &plan
	x := *r
	x.Base = &base
	if err := x.verify(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "verify the plan for base LIDs: ") {
		t.Errorf("a spoilt plan for base LIDs: %v", err)
	}
	x.LIDs = 1 // the plan is the one for base LIDs
	if err := x.verify(context.Background()); err != nil {
		t.Error(err)
	}
}
