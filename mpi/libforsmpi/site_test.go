// Package libforsmpi tests the PMPI shim under the real Open MPI: programs run on
// simulated fabrics' servers, with and without it.
package libforsmpi

import (
	"context"
	"testing"

	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
)

// cable names a cable by its leaf and its lane.
type cable struct{ leaf, lane int }

// plan is a real plan: for a fat tree with dead cables.
func plan(t testing.TB, spec fabgen.Spec, dead ...cable) *planner.Result {
	t.Helper()
	lost := make([][2]int, len(dead))
	for i, c := range dead {
		lost[i] = [2]int{c.leaf, c.lane}
	}
	tree := fabgen.Damaged(t, spec, lost...)
	anything := 1.0 // accept plans that leave out many pairs, too
	made, err := planner.Make(context.Background(), tree, planner.Settings{MaxUnreachable: &anything})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
