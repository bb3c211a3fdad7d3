package ocs

import (
	"math/rand/v2"
	"os"
	"testing"
)

// TestThinnedSizes compares Best with the bound on sites of many sizes with entries missing,
// and with its makespan for the fuller demand. FORS_LONG=1 runs the whole grid.
func TestThinnedSizes(t *testing.T) {
	racks, flows, switches, seeds := []int{20, 31, 42, 64, 97, 150}, []int{4, 8, 12, 17}, []int{1, 2, 4}, uint64(2)
	short := os.Getenv("FORS_LONG") == ""
	if short {
		racks, flows, switches, seeds = []int{31, 42}, []int{12, 17}, []int{4}, 1
	}
	runs, sum, most, mostBeside := 0, 0.0, 0.0, 0.0
	for _, n := range racks {
		for _, m := range flows {
			for seed := range seeds {
				full, err := Workload("benchmark", n, m, seed+1)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range switches {
					o := Options{Switches: s, Delta: 0.01, Method: Best}
					whole := mustMake(t, full, o).Makespan()
					for _, how := range []string{"idle rack", "one in a hundred", "diagonal", "idle receiver"} {
						if short && how != "idle rack" {
							continue
						}
						d := thinned(t, full, how, rand.New(rand.NewPCG(seed+1, 5)))
						best := mustMake(t, d, o)
						if err := Replay(d, best); err != nil {
							t.Fatal(err)
						}
						ratio, beside := best.Makespan()/Bound(d, s, 0.01).Sharp, best.Makespan()/whole
						if most, mostBeside := mostOf(n, m); ratio > most || beside > mostBeside {
							t.Errorf("%d racks of %d flows, seed %d, %d switches, %s: %v times the bound, %v times the fuller one's, want at most %v and %v", n, m, seed+1, s, how, ratio, beside, most, mostBeside)
						}
						runs++
						sum, most, mostBeside = sum+ratio, max(most, ratio), max(mostBeside, beside)
					}
				}
			}
		}
	}
	t.Logf("%d schedules: %.4f times the bound on average, at most %.4f; at most %.4f times the fuller one's", runs, sum/float64(runs), most, mostBeside)
}

// mostOf is the largest ratio of Best to the bound, and to its makespan for the fuller
// demand: larger if half of the pairs of racks have flows, or flows are many.
func mostOf(racks, flows int) (ratio, beside float64) {
	if flows > 12 || 2*flows > racks {
		return 1.065, 1.02
	}
	return 1.03, 1.01
}
