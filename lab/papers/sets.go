package papers

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"syscall"
	"time"

	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/optical/ocs"
	"github.com/forsd/forsd/optical/photonic"
)

// SetRow is the result of a planner on a fixed set of cases.
type SetRow struct {
	Set   string    `json:"set"`
	Times []float64 `json:"times"` // [case] times the lower bound
	Mean  float64   `json:"mean"`
	Most  float64   `json:"most"`
	CPUMS float64   `json:"cpu_ms"` // a case, with bound and replay
}

// Sets are the fixed sets, by name, on which a heuristic of the planners of fat trees, of method
// best (circuit switches) and of photonics must show its gain.
func Sets() []Set {
	return append(trees(), []Set{
		{"ocs thinned sites", thinnedSites()},
		{"ocs thinned benchmark", thinnedBenchmark()},
		{"ocs reference", reference()},
		{"ocs gpt and moe", workloads()},
		{"ocs flows", flows()},
		{"ocs irregular", irregular()},
		{"ocs small delta", smallDelta()},
		{"photonic one size", exchanges("uniform")},
		{"photonic sizes", exchanges("random", "zipf")},
	}...)
}

// Set is a set of cases, each of which returns how many times the lower bound a plan is.
type Set struct {
	Name  string
	Cases []func(ctx context.Context) (float64, error)
}

// Measure plans one case in oneIn of a set, several at a time.
func (s *Set) Measure(ctx context.Context, oneIn int) (SetRow, error) {
	row := SetRow{Set: s.Name, Times: make([]float64, (len(s.Cases)+oneIn-1)/oneIn)}
	cases, before := float64(len(row.Times)), cpu()
	if _, err := parallel.Each(ctx, len(row.Times), runtime.GOMAXPROCS(0), func(int) func(int) error {
		return func(i int) (err error) {
			row.Times[i], err = s.Cases[i*oneIn](ctx)
			return err
		}
	}); err != nil {
		return row, err
	}
	row.CPUMS = float64(cpu()-before) / float64(time.Millisecond) / cases
	for _, x := range row.Times {
		row.Mean, row.Most = row.Mean+x/cases, max(row.Most, x)
	}
	return row, nil
}

// cpu is the processor time of this program so far.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type setCase = func(ctx context.Context) (float64, error)

// circuits schedules a demand by method best.
func circuits(demand func() (*ocs.Demand, error), s int, δ float64) setCase {
	return func(ctx context.Context) (float64, error) {
		d, err := demand()
		if err != nil {
			return 0, err
		}
		made, err := ocs.Make(ctx, d, ocs.Options{Switches: s, Delta: δ, Method: ocs.Best})
		if err != nil {
			return 0, err
		}
		return made.Makespan() / ocs.Bound(d, s, δ).Sharp, ocs.Replay(d, made)
	}
}

// missing are the ways to leave a hundredth of a benchmark's entries out.
var missing = []string{"idle rack", "one in a hundred", "diagonal", "idle receiver"}

// thinned is a benchmark demand without some of its entries.
func thinned(racks, flows int, seed uint64, how string) func() (*ocs.Demand, error) {
	return func() (*ocs.Demand, error) {
		full, err := ocs.Workload("benchmark", racks, flows, seed)
		if err != nil {
			return nil, err
		}
		rng := rand.New(rand.NewPCG(seed, 5))
		column := rng.Perm(racks)
		entries := make([]float64, racks*racks)
		for i := range racks {
			for j := range racks {
				to := j
				if how == "diagonal" { // columns are permuted, and entries on the diagonal are lost
					to = column[j]
				}
				if how == "idle rack" && (i == 3 || j == 3) || how == "idle receiver" && j == 3 || how == "one in a hundred" && rng.Float64() < 0.01 {
					continue
				}
				entries[i*racks+to] = full.At(i, j)
			}
		}
		return ocs.NewDemand(racks, entries)
	}
}

func thinnedSites() (cases []setCase) {
	for _, n := range []int{20, 31, 42, 64, 97, 150} {
		for _, m := range []int{4, 8, 12, 17} {
			for seed := range uint64(2) {
				for _, s := range []int{1, 2, 4} {
					for _, how := range missing {
						cases = append(cases, circuits(thinned(n, m, seed+1, how), s, .01))
					}
				}
			}
		}
	}
	return cases
}

func thinnedBenchmark() (cases []setCase) {
	for seed := range uint64(6) {
		for _, s := range []int{2, 4} {
			for _, how := range missing {
				cases = append(cases, circuits(thinned(100, 16, seed+3, how), s, .01))
			}
		}
	}
	return cases
}

// drawn is a demand of a workload.
func drawn(name string, flows int, seed uint64) func() (*ocs.Demand, error) {
	return func() (*ocs.Demand, error) { return ocs.Workload(name, 0, flows, seed) }
}

func reference() (cases []setCase) {
	for seed := range uint64(10) {
		for _, r := range referenceRows {
			cases = append(cases, circuits(drawn("benchmark", 0, seed+1), r.Switches, r.Delta))
		}
	}
	return cases
}

func workloads() (cases []setCase) {
	for seed := range uint64(3) {
		for _, name := range []string{"gpt", "moe"} {
			for _, s := range []int{2, 4} {
				for _, δ := range []float64{.001, .005, .02, .1} {
					cases = append(cases, circuits(drawn(name, 0, seed+1), s, δ))
				}
			}
		}
	}
	return cases
}

func flows() (cases []setCase) {
	for seed := range uint64(3) {
		for _, m := range []int{4, 8, 12, 20, 24, 28, 32} {
			for _, s := range []int{4, 8} {
				cases = append(cases, circuits(drawn("benchmark", m, seed+1), s, .04))
			}
		}
	}
	return cases
}

// irregular are demands without the benchmark's structure: a fifth of the pairs, exponential,
// and all pairs, log-normal.
func irregular() (cases []setCase) {
	for seed := range uint64(6) {
		demand := func(n int, entry func(rng *rand.Rand) float64) func() (*ocs.Demand, error) {
			return func() (*ocs.Demand, error) {
				rng, entries := rand.New(rand.NewPCG(seed, 0)), make([]float64, n*n)
				for e := range entries {
					entries[e] = entry(rng)
				}
				return ocs.NewDemand(n, entries)
			}
		}
		exponential := demand(40, func(rng *rand.Rand) float64 {
			if rng.Float64() >= 0.2 {
				return 0
			}
			return rng.ExpFloat64()
		})
		logNormal := demand(64, func(rng *rand.Rand) float64 { return math.Exp(rng.NormFloat64()) })
		for _, s := range []int{2, 4} {
			cases = append(cases, circuits(exponential, s, .05), circuits(logNormal, s, .07))
		}
	}
	return cases
}

func smallDelta() (cases []setCase) {
	for seed := range uint64(4) {
		for _, δ := range []float64{.0001, .0005, .001} {
			for _, s := range []int{2, 4} {
				cases = append(cases, circuits(drawn("benchmark", 0, seed+21), s, δ))
			}
		}
	}
	return cases
}

// exchanges are exchanges of GPUs planned.
func exchanges(sizes ...string) (cases []setCase) {
	gpus := []int{8, 15, 16, 27, 31, 32, 47, 48, 62, 64} // of many divisors and of few
	if sizes[0] != "uniform" {
		gpus = []int{8, 16, 24, 32}
	}
	for _, n := range gpus {
		for _, k := range []int{1, 2, 4} {
			for _, µs := range []float64{1, 100, 1000, 10_000, 1_000_000} {
				for _, how := range sizes {
					cases = append(cases, func(ctx context.Context) (float64, error) {
						in := &photonic.Instance{GPUs: n, Degree: k, Reconfig: photonic.Micros(µs), Link: photonic.DefaultLink, Message: photonic.DefaultMessage}
						if err := in.Draw(how, photonic.ZipfFactor, uint64(n)); err != nil {
							return 0, err
						}
						p, err := photonic.Make(ctx, in, photonic.Options{Relabel: true})
						if err != nil {
							return 0, err
						}
						return float64(p.Cost) / float64(p.LowerBound), nil
					})
				}
			}
		}
	}
	return cases
}
