// Package libforsmpi tests the PMPI shim under the real Open MPI: programs run on
// simulated fabrics' servers, with and without it.
package libforsmpi

import (
	"testing"

	"forsd/internal/fabgen"
	"forsd/planner"
	"forsd/topology"
)

// plan is the table of a true plan: a fat tree with so many dead cables on its
// first leaf.
func plan(t testing.TB, spec fabgen.Spec, dead int) *planner.Result {
	t.Helper()
	fabric := fabgen.Generate(spec)
	base, err := topology.NewBaseline(fabric)
	if err != nil {
		t.Fatal(err)
	}
	for p := range dead {
		fabric.Disconnect(topology.PortRef{Node: fabric.Find(fabgen.LeafGUID), Port: uint8(spec.Spines + 1 + p)})
	}
	tree, err := topology.Fit(fabric, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := planner.Make(tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
