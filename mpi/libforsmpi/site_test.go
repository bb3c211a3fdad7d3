// Package libforsmpi tests the PMPI shim under the real Open MPI: programs run on
// simulated fabrics' servers, with and without it.
package libforsmpi

import (
	"context"
	"testing"

	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// cable names a cable by its leaf and its lane.
type cable struct{ leaf, lane int }

// plan is a true plan: for a fat tree with dead cables.
func plan(t testing.TB, spec fabgen.Spec, dead ...cable) *planner.Result {
	t.Helper()
	fabric := fabgen.Generate(spec)
	base, err := topology.NewBaseline(fabric)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range dead {
		fabric.Disconnect(topology.PortRef{Node: fabric.Find(fabgen.LeafGUID + topology.GUID(c.leaf)), Port: uint8(spec.Spines + 1 + c.lane)})
	}
	tree, err := topology.Fit(fabric, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	anything := 1.0 // plans that leave out many pairs are looked at, too
	made, err := planner.Make(context.Background(), tree, planner.Settings{MaxUnreachable: &anything})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
