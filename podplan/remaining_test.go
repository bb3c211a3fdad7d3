package podplan

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemaining loses parts of trees of three levels while the plan of the whole tree runs.
// After a cable of a leaf or a mid, what remains is at its bound.
func TestRemaining(t *testing.T) {
	for _, k := range []int{4, 8} {
		up := fmt.Sprintf("/%d", k/2+1)
		for lmc := range uint8(3) {
			spec := fabgen.KAry(k)
			spec.LMC = lmc
			whole := fabgen.GenerateTree(spec)
			made := madeOf(t, whole, whole)
			old, err := phasetable.New(made.Rows(7))
			ok(t, err)
			for _, c := range []struct {
				lost string
				over float64 // the bound; with one LID there is one way
				kept float64
			}{{"", 0, 1}, {"Leaf001" + up, 0, 0.88}, {"Mid002", 0, 0.77}, {"Mid002" + up, 0.07, 0.4}, {"Top001", 0.09, 0}} {
				f := whole.Clone()
				if c.lost != "" {
					_, err := f.Fail(c.lost)
					ok(t, err)
				}
				on := madeOf(t, f, whole)
				shares := []int{0, 25, 50, 75, 95, 100}
				if k > 4 && os.Getenv("FORS_LONG") == "" {
					shares = []int{25}
				}
				for _, percent := range shares {
					r, err := Remaining(t.Context(), on.Tree, on.Tables, old, percent*old.Phases()/100)
					ok(t, err)
					all := float64(r.Kept + r.Moved + r.Shed)
					if int(all) != r.pairs.Len() {
						t.Errorf("%v transfers of the old plan remain, and %d pairs", all, r.pairs.Len())
					}
					name := fmt.Sprintf("k=%d, LMC %d, %q lost at %d%%: %d phases, bound %d; %.3f kept, %.3f moved", k, lmc, c.lost, percent,
						r.Plan.Phases(), r.Plan.LowerBound, float64(r.Kept)/all, float64(r.Moved)/all)
					t.Log(name)
					if lmc > 0 && (float64(r.Plan.Gap()) > 1+c.over*float64(r.Plan.LowerBound) || c.over == 0 && r.Plan.Gap() > 0 || float64(r.Kept) < c.kept*all) {
						t.Error(name)
					}
				}
			}
			_, err = Remaining(t.Context(), made.Tree, made.Tables, old, old.Phases()+1)
			if !errors.Is(err, planner.ErrTooFar) {
				t.Errorf("more phases than there are: %v", err)
			}
		}
	}
}

// madeOf plans a fabric by the baseline of another one.
func madeOf(t *testing.T, f, whole *topology.Fabric) *Result {
	t.Helper()
	base, err := topology.NewPodBaseline(whole)
	ok(t, err)
	tree, err := topology.FitPods(f, base, nil)
	ok(t, err)
	r, err := Make(t.Context(), tree, Settings{})
	ok(t, err)
	return r
}

// TestRemainingOnOthers takes away a host, lets the tree have another one, and refuses to
// judge tables that do not carry the plan.
func TestRemainingOnOthers(t *testing.T) {
	spec := fabgen.KAry(4)
	spec.LMC = 2
	whole := fabgen.GenerateTree(spec)
	fewer := whole.Clone()
	name := madeOf(t, whole, whole).Tree.Hosts[3].Name
	_, err := fewer.Fail(name)
	ok(t, err)
	for _, c := range []struct{ before, now *topology.Fabric }{{whole, fewer}, {fewer, whole}} {
		old, err := phasetable.New(madeOf(t, c.before, whole).Rows(7))
		ok(t, err)
		on := madeOf(t, c.now, whole)
		r, err := Remaining(t.Context(), on.Tree, on.Tables, old, 5)
		ok(t, err)
		if n := len(r.Tree.Servers); r.pairs.Len() != n*(n-1)-5*15 && n == 16 || r.Plan.Phases() > r.Plan.LowerBound+2 {
			t.Errorf("%d servers: %d pairs in %d phases, bound %d", n, r.pairs.Len(), r.Plan.Phases(), r.Plan.LowerBound)
		}
		empty := r.Tables.Clone()
		for i := range empty.Switches {
			clear(empty.Switches[i].Out)
		}
		if r.Check(t.Context(), empty) == nil {
			t.Error("tables without entries carry the plan")
		}
		r.Done--
		if r.Check(t.Context(), r.Tables) == nil {
			t.Error("a plan that lacks the pairs of a phase is complete")
		}
	}
}
