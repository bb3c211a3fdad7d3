package ocs

import (
	"context"
	"runtime"
	"sync"
)

// Ratios are means over random matrices of the benchmark workload: of Spectra as
// published to the paper's lower bound, and of the alternatives to Spectra.
type Ratios struct {
	Spectra  float64 `json:"spectra_to_bound"`
	Baseline float64 `json:"baseline_to_spectra"`
	Eclipse  float64 `json:"eclipse_to_spectra"`
}

// ReferenceRow is a case of the benchmark workload, with the ratios that an
// implementation of the paper is known to give and those measured.
type ReferenceRow struct {
	Switches int     `json:"switches"`
	Delta    float64 `json:"delta"`
	Want     Ratios  `json:"reference"`
	Got      Ratios  `json:"measured"`

	// Halves is the ratio of Eclipse as published, which searches its weights by halves.
	// The reference tries few of them: ReferenceLevels.
	Halves float64 `json:"eclipse_by_halves_to_spectra"`
	// Best is the method Best to the paper's bound and to the sharper one, where it
	// was asked for.
	Best      float64 `json:"best_to_bound,omitempty"`
	BestSharp float64 `json:"best_to_sharp_bound,omitempty"`
}

// ReferenceLevels are the weights that the reference's Eclipse tries at a time.
const ReferenceLevels = 10

// referenceRows are the cases, 100 racks of 16 flows each.
var referenceRows = []ReferenceRow{
	{Switches: 2, Delta: .01, Want: Ratios{1.065, 2.45, 1.16}},
	{Switches: 4, Delta: .01, Want: Ratios{1.070, 2.78, 1.16}},
	{Switches: 4, Delta: .04, Want: Ratios{1.050, 2.58, 1.33}},
	{Switches: 8, Delta: .04, Want: Ratios{1.093, 2.14, 1.30}},
	{Switches: 8, Delta: .1, Want: Ratios{1.186, 1.88, 1.32}},
	{Switches: 4, Delta: .001, Want: Ratios{0, 0, 0.98}},
}

// ReferenceSteps is how often Reference calls step for so many matrices.
func ReferenceSteps(seeds int) int { return seeds * len(referenceRows) }

// Reference measures the ratios over so many random matrices, of seeds 0, 1, …, and
// calls step, from several goroutines, after each case of each. With best it
// measures the method Best as well, by its default steps.
func Reference(ctx context.Context, seeds int, best bool, step func()) ([]ReferenceRow, error) {
	type job struct{ row, seed int }
	jobs := make(chan job)
	got := make([][]ReferenceRow, len(referenceRows))
	errs := make([][]error, len(referenceRows))
	for r := range got {
		got[r], errs[r] = make([]ReferenceRow, seeds), make([]error, seeds)
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				got[j.row][j.seed] = referenceRows[j.row]
				errs[j.row][j.seed] = got[j.row][j.seed].measure(ctx, uint64(j.seed), best)
				step()
			}
		})
	}
	for r := range got {
		for seed := range seeds {
			jobs <- job{r, seed}
		}
	}
	close(jobs)
	workers.Wait()
	rows := make([]ReferenceRow, len(referenceRows))
	for r := range rows {
		rows[r] = referenceRows[r]
		for seed := range seeds {
			if err := errs[r][seed]; err != nil {
				return nil, err
			}
			rows[r].add(&got[r][seed], 1/float64(seeds))
		}
	}
	return rows, nil
}

// add adds a share of another row's measurements.
func (r *ReferenceRow) add(o *ReferenceRow, share float64) {
	r.Got.Spectra += share * o.Got.Spectra
	r.Got.Baseline += share * o.Got.Baseline
	r.Got.Eclipse += share * o.Got.Eclipse
	r.Halves += share * o.Halves
	r.Best += share * o.Best
	r.BestSharp += share * o.BestSharp
}

// measure fills in the ratios of one matrix.
func (r *ReferenceRow) measure(ctx context.Context, seed uint64, best bool) error {
	d, err := Workload("benchmark", 0, 0, seed)
	if err != nil {
		return err
	}
	options := []Options{{Method: Fast}, {Method: Less}, {Method: Eclipse, Levels: ReferenceLevels}, {Method: Eclipse}, {Method: Best}}
	if !best {
		options = options[:4]
	}
	t := make([]float64, 5)
	for i, o := range options {
		o.Switches, o.Delta = r.Switches, r.Delta
		s, err := Make(ctx, d, o)
		if err == nil {
			err = Replay(d, s)
		}
		if err != nil {
			return err
		}
		t[i] = s.Makespan()
	}
	bound := Bound(d, r.Switches, r.Delta)
	r.Got = Ratios{t[0] / bound.Paper, t[1] / t[0], t[2] / t[0]}
	r.Halves = t[3] / t[0]
	r.Best, r.BestSharp = t[4]/bound.Paper, t[4]/bound.Sharp
	return nil
}
