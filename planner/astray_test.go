package planner

import (
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
)

// A base LID that leads over another lane than that of its number is left out of a plan for
// tables that are in force: such a plan holds on them, and the usual one does not.
func TestAstray(t *testing.T) {
	tree := fabgen.Damaged(t, fabgen.Spec{Spines: 3, Leaves: 4, LMC: 2})
	routed, err := Route(t.Context(), tree, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	on := []*lft.Tables{routed.Tables}
	if Astray(tree, on) != tree {
		t.Fatal("hosts are astray on tables for the tree")
	}
	host, leaf := &tree.Hosts[0], &tree.Leaves[1]
	out := on[0].Switches[on[0].Find(leaf.GUID)].Out
	out[host.LID] = leaf.Cables[(tree.LIDLane(host, 0)+1)%tree.Lanes].LeafPort
	for _, astray := range []bool{false, true} {
		tree := tree
		if astray {
			tree = Astray(tree, on)
			for i := range tree.Hosts {
				if tree.Hosts[i].Moved != (i == 0) {
					t.Errorf("host %d is marked: %v", i, tree.Hosts[i].Moved)
				}
			}
		}
		schedule, err := Plan(t.Context(), tree, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = schedule.Verified(t.Context(), on...); (err == nil) != astray {
			t.Errorf("without the base LID: %v, and on these tables: %v", astray, err)
		}
	}
}
