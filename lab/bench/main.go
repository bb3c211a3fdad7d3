// Command bench times the work between a failure and its new plan: planning,
// tables, verification, and the files, for the three fat trees that the goals
// are stated for; then the exact planner alone under all kinds of damage, see
// benchExact. Every figure is the median of ten runs, with the allocations of
// one run. The last column is a ratio to hashing 8 MiB by SHA-256 in the same
// run, which distinguishes a slow machine from a slow program.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
	"github.com/forsd/forsd/verify"
)

const runs = 10

// fabrics are the trees measured: healthy, and with three cables of one leaf
// dead.
var fabrics = []struct {
	name           string
	spines, leaves int
}{{"FT(2;20,18)", 20, 18}, {"FT(2;16,32)", 16, 32}, {"FT(2;32,32)", 32, 32}}

func main() {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	unit := median(func() { sha256.Sum256(make([]byte, 8<<20)) })
	fmt.Printf("%s, %d cores, median of %d; unit of the last column: SHA-256 of 8 MiB, %.1f ms\n",
		runtime.Version(), runtime.NumCPU(), runs, ms(unit.time))
	fmt.Fprintln(w, "fabric\tfailure\tstage\tms\tallocs\tKiB\tratio\t")
	for _, f := range fabrics {
		for _, dead := range []int{0, 1, 3} {
			if err := bench(w, f.name, f.spines, f.leaves, dead, unit.time); err != nil {
				fmt.Fprintf(os.Stderr, "bench %s: %v\n", f.name, err)
				os.Exit(1)
			}
		}
	}
	w.Flush()
	benchExact(os.Stdout, unit.time)
	benchBase(os.Stdout)
	benchStay(os.Stdout)
	benchGPU(os.Stdout, unit.time)
	benchFAST(os.Stdout)
	benchOCS(os.Stdout, unit.time)
	benchPhotonic(os.Stdout, unit.time)
	benchLiquid(os.Stdout, unit.time)
	benchPods(os.Stdout)
}

func bench(w *tabwriter.Writer, name string, spines, leaves, dead int, unit time.Duration) error {
	fabric := fabgen.Generate(fabgen.Spec{Spines: spines, Leaves: leaves, LMC: 5})
	base, err := topology.NewBaseline(fabric)
	if err != nil {
		return err
	}
	for p := range dead {
		fabric.Disconnect(topology.PortRef{Node: fabric.Find(fabgen.LeafGUID), Port: uint8(spines + 1 + p)})
	}
	lst := fabgen.SubnetLst(fabric)
	tree, err := topology.Fit(fabric, base, nil)
	if err != nil {
		return err
	}
	made, err := planner.Make(context.Background(), tree, planner.Settings{})
	if err != nil {
		return err
	}
	var all time.Duration
	report := func(stage string, path bool, body func()) {
		m := median(body)
		if path {
			all += m.time
		}
		fmt.Fprintf(w, "%s\t%dF\t%s\t%.2f\t%d\t%d\t%.2f\t\n", name, dead, stage, ms(m.time), m.allocs, m.bytes>>10, float64(m.time)/float64(unit))
	}
	report("read dump", false, func() { must(topology.ReadSubnetLst(lst)) })
	report("recognise", false, func() { must(topology.Fit(fabric, base, nil)) })
	report(fmt.Sprintf("plan (%s, %d phases)", made.Plan.Engine, made.Plan.Phases), true, func() { must(planner.Plan(context.Background(), tree, planner.Settings{})) })
	one := planner.Settings{LIDs: 1}
	report(fmt.Sprintf("plan with one LID a server (%d phases)", must(planner.Plan(context.Background(), tree, one)).Plan.Phases), false, func() { must(planner.Plan(context.Background(), tree, one)) })
	report("tables", true, func() { must(lft.Build(tree)) })
	report("verify tables", true, func() { check(verify.Tables(tree, made.Tables)) })
	report("verify plan", true, func() { check(made.Check(made.Tables)) })
	fmt.Fprintf(w, "%s\t%dF\tplan + tables + verification\t%.2f\t\t\t%.2f\t\n", name, dead, ms(all), float64(all)/float64(unit))
	report("write table file", false, func() { check(made.Tables.Write(&bytes.Buffer{}, nil)) })
	report("encode phase table", false, func() { must(phasetable.Encode(made.Table(1))) })
	return nil
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

type cost struct {
	time          time.Duration
	allocs, bytes uint64
}

// median runs body often enough, and once before that.
func median(body func()) cost {
	body()
	var before, after runtime.MemStats
	times := make([]time.Duration, runs)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range times {
		start := time.Now()
		body()
		times[i] = time.Since(start)
	}
	runtime.ReadMemStats(&after)
	slices.Sort(times)
	return cost{(times[runs/2-1] + times[runs/2]) / 2, (after.Mallocs - before.Mallocs) / runs, (after.TotalAlloc - before.TotalAlloc) / runs}
}
