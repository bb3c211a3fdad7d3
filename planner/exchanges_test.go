package planner

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestExchanges plans two to four exchanges on random trees: each leaf in one, with a few
// servers of others, and servers in any.
func TestExchanges(t *testing.T) {
	all := 1.0
	for _, c := range []struct {
		name        string
		strays      float64
		mean, worst float64 // base plans by their bound, those of any LIDs by theirs
	}{{"leaves in one", 0, 1.02, 1.06}, {"a few strays", 0.03, 1.05, 1.6}, {"any", 1, 1.1, 1.7}} {
		sum, worst, sumPinned, busy, count := 0.0, 0.0, 0.0, 0.0, share(400, 15)
		for i := range count {
			spec, dead := fabgen.Drawn(uint64(i))
			rng := rand.New(rand.NewPCG(uint64(i), 36))
			tree := fabgen.Divided(fabgen.Damaged(t, spec, dead...), rng, 2+rng.IntN(3), c.strays)
			r, err := Make(bg, tree, Settings{MaxUnreachable: &all})
			if err != nil {
				t.Fatalf("%s, tree %d: %v", c.name, i, err)
			}
			if r.Base == nil {
				t.Fatalf("%s, tree %d: %v", c.name, i, r.Notes)
			}
			b := r.Report().Base
			phases := float64(b.Phases) / float64(max(1, b.LowerBound))
			if c.strays == 0 {
				var most float64
				if phases, most = checkBase(t, r); len(r.Base.Plan.Unreachable) == 0 {
					busy = max(busy, most)
				}
			} else if walkBase(t, r); r.Load.BusiestCable != busiest(t, r) {
				t.Errorf("%s, tree %d: a busiest cable of %d, counted %d", c.name, i, r.Load.BusiestCable, busiest(t, r))
			}
			sum, worst = sum+phases, max(worst, phases)
			sumPinned += float64(r.Plan.Phases) / float64(max(1, r.Schedule.least))
		}
		t.Logf("%s: base plans %.4f times their bound on the mean, %.4f at worst, pinned plans %.4f; busiest cable %.4f", c.name, sum/float64(count), worst, sumPinned/float64(count), busy)
		if sum > c.mean*float64(count) || worst > c.worst || sumPinned > c.mean*float64(count) || busy > 1.1 {
			t.Errorf("%s: plans are too long", c.name)
		}
	}
}

// TestGroups reads files with groups, and refuses wrong ones with line and reason.
func TestGroups(t *testing.T) {
	tree := fabgen.Damaged(t, fabgen.Spec{Spines: 2, Leaves: 2, Hosts: []int{2}, LMC: 1})
	name := func(i int) string { return tree.Hosts[tree.Servers[i]].Name }
	guid := func(i int) ib.GUID { return tree.Hosts[tree.Servers[i]].GUID }
	read := func(text string) (*topology.FatTree, error) {
		g, err := ReadGroups([]byte(text))
		if err != nil {
			return nil, err
		}
		out, _, err := g.Divide(tree, false)
		return out, err
	}
	out, err := read(fmt.Sprintf("# two\ngroup,server\na,%s\nb, %s\na,%d\n", name(0), guid(1), tree.Hosts[tree.Servers[2]].LID+1))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "b"}, out.Exchanges); d != "" {
		t.Error(d)
	}
	end := func(i int) topology.EndPort { return tree.Hosts[tree.Servers[i]].EndPort }
	if d := cmp.Diff([][]topology.EndPort{{end(0), end(2)}, {end(1)}}, out.ByExchange()); d != "" || out.Hosts[tree.Servers[3]].Server {
		t.Error(d)
	}
	for text, want := range map[string]string{
		"":                                 "no group is given",
		"group,server\n":                   "no group is given",
		"server,group\na,b\n":              "line 1: the header is \"server,group\": want group,server",
		"group,server\na\n":                "line 2: \"a\" is not a group and a server",
		"group,server\na,b,c\n":            "line 2: \"a,b,c\" is not a group and a server",
		"group,server\na,nothing\n":        "line 2: no host has the name, port GUID or LID \"nothing\"",
		"group,server\na,\"x\n":            "read groups: ",
		"group,server\na,H0\n\nb,H0":       "line 4: server \"H0\", port " + guid(0).String() + ", is in a group already, by line 2",
		"group,server\na,H0\nb,0x00000001": "line 3: no host has",
	} {
		_, err := read(strings.ReplaceAll(text, "H0", name(0)))
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "H0", name(0))) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestRemainingOfGroups completes an exchange of all servers that stopped half way as one within
// rails, and the other way round.
func TestRemainingOfGroups(t *testing.T) {
	whole := fabgen.Damaged(t, fabgen.Spec{Spines: 4, Leaves: 6, LMC: 2})
	rails := fabgen.Divided(whole, rand.New(rand.NewPCG(1, 2)), 3, 0)
	for _, trees := range [][2]*topology.FatTree{{whole, rails}, {rails, whole}, {rails, rails}} {
		r, err := Make(bg, trees[0], Settings{})
		if err != nil {
			t.Fatal(err)
		}
		old, err := phasetable.New(r.Table(1))
		if err != nil {
			t.Fatal(err)
		}
		done := old.Phases() / 2
		rest, err := Remaining(bg, trees[1], old, done)
		if err != nil {
			t.Fatal(err)
		}
		met := map[fors.Pair]int{}
		count := func(plan *fors.Plan, from, to int) {
			for i, d := range plan.To[from*plan.Servers : to*plan.Servers] {
				if d != fors.Idle {
					met[fors.Pair{Src: fors.Server(i % plan.Servers), Dst: d}]++
				}
			}
		}
		count(r.Plan, 0, done)
		count(rest.Plan, 0, rest.Plan.Phases)
		for s := range whole.Servers {
			for d := range whole.Servers {
				if n := met[fors.Pair{Src: fors.Server(s), Dst: fors.Server(d)}]; s != d && exchangeOf(trees[1], s) == exchangeOf(trees[1], d) && n != 1 {
					t.Fatalf("server %d sends to %d %d times", s, d, n)
				}
			}
		}
	}
}
