package verify_test

import (
	"errors"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

// TestWalk walks the linear shift of a tree of three levels, and the same with a mistake.
func TestWalk(t *testing.T) {
	tree := fabgen.FittedPods(t, fabgen.GenerateTree(fabgen.KAry(4)))
	f := tree.Fabric
	tables, err := lft.BuildPods(t.Context(), tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := len(tree.Servers)
	servers := make([]topology.EndPort, n)
	for i, h := range tree.Servers {
		servers[i] = tree.Hosts[h].EndPort
	}
	walk := func(unreachable [][2]int32, spoil func(phases [][]verify.Transfer), workers int) string {
		phases := make([][]verify.Transfer, n-1)
		for p := range phases {
			for s := range n {
				d := (s + p + 1) % n
				phases[p] = append(phases[p], verify.Transfer{Src: int32(s), Dst: int32(d), DLID: servers[d].LID})
			}
		}
		spoil(phases)
		w, err := verify.NewWalk(f, tables, servers)
		for _, p := range phases {
			if err == nil && workers == 0 {
				err = w.Phase(p)
			}
		}
		if err == nil && workers > 0 {
			err = w.Phases(len(phases), workers, func() func(int) ([]verify.Transfer, error) {
				return func(phase int) ([]verify.Transfer, error) { return phases[phase], nil }
			})
		}
		if err == nil {
			err = w.Done(tree, unreachable)
		}
		var v *verify.Violation
		if errors.As(err, &v) {
			return v.Code
		}
		return ""
	}
	entry := func(name string, lid ib.LID) *uint8 {
		for i := range tables.Switches {
			if tables.Switches[i].Name == name {
				return &tables.Switches[i].Out[lid]
			}
		}
		t.Fatal(name)
		return nil
	}
	for _, c := range []struct {
		name, want  string
		unreachable [][2]int32
		spoil       func(p [][]verify.Transfer)
	}{
		{"as it is", "", nil, func([][]verify.Transfer) {}},
		{"a transfer less", verify.PairMissing, nil, func(p [][]verify.Transfer) { p[3] = p[3][1:] }},
		{"a pair called unreachable", verify.NotUnreachable, [][2]int32{{0, 4}}, func(p [][]verify.Transfer) { p[3] = p[3][1:] }},
		{"a pair again", verify.PairTwice, nil, func(p [][]verify.Transfer) { p[3] = p[2] }},
		{"two at once", verify.SendsTwice, nil, func(p [][]verify.Transfer) { p[3] = append(p[3], p[4][0]) }},
		{"heard twice", verify.ReceivesTwice, nil, func(p [][]verify.Transfer) { p[3][1].Dst, p[3][1].DLID = p[3][0].Dst, p[3][0].DLID }},
		{"another's LID", verify.WrongDLID, nil, func(p [][]verify.Transfer) { p[3][0].DLID = servers[9].LID }},
		{"no such server", verify.BadRows, nil, func(p [][]verify.Transfer) { p[3][0].Dst = 16 }},
		{"an entry less", verify.NoEntry, nil, func([][]verify.Transfer) { *entry("Leaf000", servers[15].LID) = lft.NoPath }},
		{"an entry to a host", verify.WrongDestination, nil, func([][]verify.Transfer) { *entry("Leaf000", servers[15].LID) = 1 }},
		{"an entry to the other plane", verify.LinkTwice, nil, func([][]verify.Transfer) { *entry("Leaf000", servers[15].LID) = 3 }},
	} {
		kept := *entry("Leaf000", servers[15].LID)
		for workers := range 4 {
			if got := walk(c.unreachable, c.spoil, workers); got != c.want {
				t.Errorf("%s, %d workers: %q, want %q", c.name, workers, got, c.want)
			}
		}
		*entry("Leaf000", servers[15].LID) = kept
	}
}
