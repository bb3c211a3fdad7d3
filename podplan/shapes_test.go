package podplan_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestShapes plans trees of random shapes and damage; plan and tables are verified by Make.
func TestShapes(t *testing.T) {
	seeds := uint64(60)
	if os.Getenv("FORS_LONG") != "" {
		seeds = 3000
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 77))
		s := fabgen.TreeSpec{Pods: 2 + rng.IntN(5), Leaves: 1 + rng.IntN(5), Mids: 1 + rng.IntN(5), Tops: 1 + rng.IntN(5), Hosts: 1 + rng.IntN(6), LMC: uint8(rng.IntN(5)),
			LeafCables: 1 + rng.IntN(6)/5, TopCables: 1 + rng.IntN(6)/5, Shared: 1 + rng.IntN(6)/5, Shuffle: rng.Uint64()}
		for range rng.IntN(4) {
			s.Missing = append(s.Missing, [2]int{rng.IntN(s.Pods * s.Leaves), rng.IntN(s.Hosts)})
		}
		f := fabgen.GenerateTree(s)
		if rng.IntN(4) == 0 {
			var sizes []int
			for range s.Pods {
				sizes = append(sizes, 1+rng.IntN(4))
			}
			f = fabgen.Pods(fabgen.PodSpec{Pods: s.Pods, Spines: s.Mids, Tops: s.Tops, Hosts: s.Hosts, Leaf: func(p int) int { return sizes[p] }})
		}
		base, err := topology.NewPodBaseline(f)
		if err != nil {
			continue // too few hosts are left for three levels
		}
		for _, spec := range s.Draw(rng, fabgen.Damage{LeafCables: rng.IntN(4), TopCables: rng.IntN(4), Mids: rng.IntN(3) / 2, Tops: rng.IntN(3) / 2}) {
			_, _ = f.Fail(spec) // uneven trees have fewer nodes
		}
		tree, err := topology.FitPods(f, base, nil)
		if err != nil {
			t.Errorf("seed %d, %+v: %v", seed, s, err)
			continue
		}
		r, err := podplan.Make(context.Background(), tree, podplan.Settings{MaxUnreachable: &all})
		if err != nil {
			t.Errorf("seed %d, %+v: %v", seed, s, err)
			continue
		}
		if r.Plan.Gap() < 0 {
			t.Errorf("seed %d, %+v: %d phases are fewer than the bound %d by %s", seed, s, r.Plan.Phases(), r.Plan.LowerBound, r.Plan.Certificate)
		}
		if err := compact(r); err != nil {
			t.Errorf("seed %d, %+v: %v", seed, s, err)
		}
	}
}

// compact holds the compact table of a plan against that of rows.
func compact(r *podplan.Result) error {
	data, err := phasetable.Encode(r.Compact(7))
	if err != nil {
		return err
	}
	v, err := phasetable.Decode(data)
	if err != nil {
		return err
	}
	rows, err := phasetable.New(r.Rows(7))
	if err != nil {
		return err
	}
	if v.Phases() != rows.Phases() {
		return fmt.Errorf("%d phases, want %d", v.Phases(), rows.Phases())
	}
	for s := range v.Servers() {
		if !bytes.Equal(v.Row(s), rows.Row(s)) {
			return fmt.Errorf("the compact table has another row for server %d", s)
		}
	}
	return nil
}
