package plans

import (
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestJobWithoutHosts requests the plan of a job that has lost all its hosts, such as those of
// a drained leaf, before it had any plan.
func TestJobWithoutHosts(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	fabgen.AssignLIDs(f, 2)
	tree := fabgen.Fitted(t, f)
	tables, err := lft.Build(tree)
	if err != nil {
		t.Fatal(err)
	}
	var k jobPlans
	sub := planner.Restrict(tree, nil)
	s, err := k.of(7, sub, []*lft.Tables{tables}, func() (*planner.Schedule, error) {
		return planner.PlanJob(t.Context(), sub, nil, planner.Settings{}, tables)
	})
	if err == nil {
		t.Fatalf("it has a plan: %+v", s)
	}
}
