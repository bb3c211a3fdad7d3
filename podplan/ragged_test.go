package podplan_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestRagged plans trees of which 1 to 40 % of the hosts are missing, some from the first and some
// since the baseline, with up to eight dead parts: plans for lanes and for base LIDs take hardly
// more phases than prices prove, whatever the LMC.
func TestRagged(t *testing.T) {
	rounds, large := 40, 0
	if os.Getenv("FORS_LONG") != "" {
		rounds, large = 400, 60
	}
	var all, base, many ratios
	anything := 1.
	seeds := []uint64{272} // a leaf with one plane, whose pod shares no top of it with another
	for seed := range uint64(rounds + large) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		tree, err := fabgen.Ragged(seed, len(seeds) > 100 && seed >= uint64(rounds))
		if err != nil {
			t.Fatal(err)
		}
		r, err := podplan.Make(context.Background(), tree, podplan.Settings{MaxUnreachable: &anything})
		if err != nil {
			t.Fatalf("%d: %v", seed, err)
		}
		all.add(r)
		if r.Base != nil {
			base.add(r.Base)
			if r.Base.Plan.Gap() < 0 {
				t.Errorf("%d: the base plan is shorter than its bound", seed)
			}
		}
		if len(tree.Servers) >= 64 {
			many.add(r)
		}
	}
	t.Logf("plans %v; base plans %v; with 64 servers and more %v", &all, &base, &many)
	if all.mean() > 1.03 || base.mean() > 1.03 || many.mean() > 1.03 || many.worst > 1.26 {
		t.Error("more phases than need to be")
	}
}

// ratios are phases over bounds.
type ratios struct {
	n          int
	sum, worst float64
}

func (x *ratios) add(r *podplan.Result) {
	q := float64(r.Plan.Phases()) / float64(r.Plan.LowerBound)
	x.n, x.sum, x.worst = x.n+1, x.sum+q, max(x.worst, q)
}

func (x *ratios) mean() float64 { return x.sum / float64(x.n) }

func (x *ratios) String() string {
	return fmt.Sprintf("%.4f times the bound on the mean of %d, %.4f at worst", x.mean(), x.n, x.worst)
}
