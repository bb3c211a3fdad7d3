package podplan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
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
	for seed := range uint64(rounds + large) {
		rng := rand.New(rand.NewPCG(seed, 51))
		s := fabgen.TreeSpec{Pods: 3 + rng.IntN(6), Leaves: 2 + rng.IntN(3), Mids: 3 + rng.IntN(3), LMC: uint8(rng.IntN(3))}
		s.Tops = s.Leaves + rng.IntN(2)
		if s.Hosts = 2 + rng.IntN(s.Mids-1); seed >= uint64(rounds) {
			lmc := s.LMC
			s = fabgen.KAry(16)
			s.LMC = lmc
		}
		missing, late := .01+.39*rng.Float64(), rng.IntN(2) == 0
		var gone []string
		for l := range s.Pods * s.Leaves {
			for h := range s.Hosts {
				switch lacks := rng.Float64() < missing; {
				case lacks && late:
					gone = append(gone, fmt.Sprintf("Hca%04d", l*s.Hosts+h))
				case lacks:
					s.Missing = append(s.Missing, [2]int{l, h})
				}
			}
		}
		f := fabgen.GenerateTree(s)
		b, err := topology.NewPodBaseline(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range gone {
			if _, err := f.Fail(host); err != nil {
				t.Fatal(err)
			}
		}
		for range rng.IntN(9) {
			_, _ = f.Fail([]string{fmt.Sprintf("Leaf%03d/%d", rng.IntN(s.Pods*s.Leaves), s.Hosts+1+rng.IntN(s.Mids)),
				fmt.Sprintf("Mid%03d/%d", rng.IntN(s.Pods*s.Mids), 1+rng.IntN(s.Leaves+s.Tops)), fmt.Sprintf("Top%03d", rng.IntN(s.Mids*s.Tops))}[rng.IntN(3)])
		}
		tree, err := topology.FitPods(f, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := podplan.Make(context.Background(), tree, podplan.Settings{MaxUnreachable: &anything})
		if err != nil {
			t.Fatalf("%d: %+v: %v", seed, s, err)
		}
		all.add(r)
		if r.Base != nil {
			base.add(r.Base)
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
