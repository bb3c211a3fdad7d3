package main

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestSteps: in the steps that the shim gives a part of the hosts each pair meets once, no server
// and no lane of a leaf is used twice in one, and there are hardly more than the busiest of these
// needs. The exchange of all hosts keeps the plan's.
func TestSteps(t *testing.T) {
	by := compiled(t)
	rng := rand.New(rand.NewPCG(5, 6))
	sum, worst, count, table := 0.0, 0.0, 0, 0.0
	for i, spec := range []fabgen.Spec{{Spines: 6, Leaves: 6, LMC: 5}, {Spines: 8, Leaves: 5, Cables: 2, LMC: 3}, {Spines: 20, Leaves: 18, LMC: 5}} {
		for _, dead := range []int{0, 1, 9} {
			o := options{spec: spec}
			s, err := o.site(t.Context(), dead)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := s.step(t.Context(), by.part, make([]int, len(s.hosts)))
			if err != nil {
				t.Fatal(err)
			}
			if n := 1 + int(slices.MaxFunc(whole, func(a, b sim.Row) int { return int(a.Phase - b.Phase) }).Phase); n > s.view.Phases() || len(whole) != len(s.plan) {
				t.Errorf("tree %d, %d dead: %d transfers of all hosts in %d steps, %d in %d phases", i, dead, len(whole), n, len(s.plan), s.view.Phases())
			}
			for _, share := range []float64{.1, .3, .6, .9} {
				jobs := make([]int, len(s.hosts))
				for h := range jobs {
					if rng.Float64() > share {
						jobs[h] = -1
					}
				}
				steps, least, phases := s.checked(t, by, jobs)
				if steps == 0 {
					continue
				}
				x := float64(steps) / float64(least)
				sum, worst, table, count = sum+x, max(worst, x), table+float64(phases)/float64(least), count+1
			}
		}
	}
	t.Logf("%d parts: %.3f times the bound on the mean, %.3f at worst; %.2f in the plan's phases", count, sum/float64(count), worst, table/float64(count))
	if sum/float64(count) > 1.03 || worst > 1.15 {
		t.Error("more steps than need to be")
	}
}

// checked checks the steps of a part. least is what its busiest server or lane has to carry, phases
// those of the plan in which it has transfers.
func (s *site) checked(t *testing.T, by *shim, jobs []int) (steps, least, phases int) {
	t.Helper()
	rows, err := s.step(t.Context(), by.part, jobs)
	if err != nil {
		t.Fatal(err)
	}
	number := map[ib.GUID]int{}
	for h, g := range s.hosts {
		number[g] = h
	}
	type use struct{ what, of, lane, step int }
	lane, met, taken, load := map[[2]int]int{}, map[int]bool{}, map[use]bool{}, map[use]int{}
	for h := range s.hosts {
		for ph := range s.view.Phases() {
			if x := s.view.Row(h).At(ph); x.SendTo != phasetable.Idle && jobs[h] >= 0 && jobs[x.SendTo] >= 0 {
				lane[[2]int{h, x.SendTo}], met[ph] = x.Lane, true
			}
		}
	}
	for _, r := range rows {
		a, b, step := number[r.Src], number[r.Dst], int(r.Phase)
		k, planned := lane[[2]int{a, b}]
		if !planned {
			t.Fatalf("%d sends to %d, which the plan does not have, or twice", a, b)
		}
		delete(lane, [2]int{a, b})
		uses := []use{{0, a, 0, step}, {1, b, 0, step}}
		if k >= 0 {
			uses = append(uses, use{2, s.view.Server(a).Leaf, k, step}, use{3, s.view.Server(b).Leaf, k, step})
		}
		for _, u := range uses {
			if taken[u] {
				t.Fatalf("step %d has %v twice", step, u)
			}
			taken[u] = true
			u.step = 0
			load[u]++
			least = max(least, load[u])
		}
		steps = max(steps, step+1)
	}
	if len(lane) > 0 {
		t.Fatalf("%d pairs do not meet", len(lane))
	}
	return steps, least, len(met)
}
