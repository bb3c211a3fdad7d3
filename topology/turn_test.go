package topology_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// firsts are the first lanes of the leaves.
func firsts(b *topology.Baseline) (out []int) {
	for i := range b.Leaves {
		out = append(out, b.Leaves[i].First)
	}
	return out
}

// TestTurn checks at which lane the base LIDs of a leaf begin.
func TestTurn(t *testing.T) {
	for _, c := range []struct {
		spec fabgen.Spec
		want string
	}{
		{fabgen.Spec{Spines: 4, Leaves: 4}, "[0 0 0 0]"},
		{fabgen.Spec{Spines: 4, Leaves: 4, Missing: [][2]int{{0, 1}}}, "[0 0 0 0]"}, // a few that lack change nothing
		{fabgen.Spec{Spines: 4, Leaves: 4, Hosts: []int{2}}, "[0 2 0 2]"},
		{fabgen.Spec{Spines: 8, Leaves: 6, Hosts: []int{8, 2, 2, 2, 2, 2}}, "[0 0 0 2 4 6]"}, // 18 hosts: 6 lanes are passed over behind the second leaf
		{fabgen.Spec{Spines: 6, Leaves: 3, Hosts: []int{8}}, "[0 2 4]"},
		{fabgen.Spec{Spines: 0, Leaves: 1, Hosts: []int{3}}, "[0]"},
	} {
		if got := fmt.Sprint(firsts(baselineOf(t, fabgen.Generate(c.spec)))); got != c.want {
			t.Errorf("%+v: %s, want %s", c.spec, got, c.want)
		}
	}
}

// TestTurnNew checks that a leaf that comes later begins where the leaf before it ends, and that
// no other leaf changes.
func TestTurnNew(t *testing.T) {
	spec := fabgen.Spec{Spines: 4, Leaves: 5, Hosts: []int{2, 1}}
	f := fabgen.Generate(spec)
	whole := baselineOf(t, f)
	part := *whole
	part.Leaves = part.Leaves[:4]
	ft, err := topology.Fit(f, &part, nil)
	if err != nil {
		t.Fatal(err)
	}
	was, got := firsts(whole), firsts(ft.Baseline)
	last := &ft.Baseline.Leaves[3]
	if fmt.Sprint(got[:4]) != fmt.Sprint(was[:4]) || got[4] != (last.First+len(last.Slots))%4 {
		t.Errorf("the leaves begin at %v, without the last one at %v", got, was)
	}
}

// TestTurnProperty checks, for any number of hosts on each leaf, that on turned leaves each lane
// has as many hosts as any other, or one more.
func TestTurnProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := fabgen.Spec{Spines: rapid.IntRange(1, 8).Draw(rt, "spines"), Leaves: rapid.IntRange(2, 9).Draw(rt, "leaves"), Cables: rapid.IntRange(1, 2).Draw(rt, "cables")}
		for range spec.Leaves {
			spec.Hosts = append(spec.Hosts, rapid.IntRange(1, 10).Draw(rt, "hosts"))
		}
		f := fabgen.Generate(spec)
		b, err := topology.NewBaseline(f)
		if err != nil {
			rt.Skip(err)
		}
		ft, err := topology.Fit(f, b, nil)
		if err != nil {
			rt.Fatal(err)
		}
		turned, owners := false, make([]int, ft.Lanes)
		for i := range ft.Hosts {
			h := &ft.Hosts[i]
			turned = turned || h.First > 0
			owners[ft.LIDLane(h, 0)]++
			for k := range ft.Lanes {
				if lid, ok := ft.DLID(h, k); ok && ft.LIDLane(h, int(lid-h.LID)) != k {
					rt.Fatalf("lane %d of %s has LID %d, which takes another lane", k, h.Name, lid)
				}
			}
		}
		least, most := owners[0], owners[0]
		for _, n := range owners {
			least, most = min(least, n), max(most, n)
		}
		if turned && most > least+1 {
			rt.Fatalf("%v: lanes are owned by %v hosts, leaves begin at %v", spec.Hosts, owners, firsts(b))
		}
	})
}
