package libforslanes

import (
	"flag"
	"slices"
	"testing"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
)

var update = flag.Bool("update", false, "write the seeds of the fuzz target")

// TestFuzzSeeds runs the fuzz target on its seeds and on spoiled ones, without a fuzzer.
func TestFuzzSeeds(t *testing.T) {
	needs(t)
	seeds := map[string][]byte{}
	for name, dead := range map[string][][2]int{"whole": nil, "damaged": {{0, 0}}} {
		_, made := plan(t, fabgen.Spec{Spines: 3, Leaves: 2, LMC: 2}, dead...)
		data, err := phasetable.Encode(made.Table(42))
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 64) // see fuzz/lanes.c
		for i := range head {
			head[i] = byte(37 * i)
		}
		seeds["lanes/"+name] = slices.Concat(head, data)
	}
	programs.Seeds(t, "libforslanes", seeds, *update)
}
