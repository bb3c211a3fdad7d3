package papers

import (
	"context"
	"math"
	"runtime"
	"slices"

	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/optical/ocs"
)

// Ratios are means over random matrices of the benchmark workload, 0 if not
// measured: of Spectra as published and of the method Best to lower bounds, and
// of the alternatives to Spectra.
type Ratios struct {
	Spectra  float64 `json:"spectra_to_bound,omitempty"`
	Baseline float64 `json:"baseline_to_spectra,omitempty"`
	// Eclipse tries few weights at a time, ReferenceLevels, as the reference does; by
	// halves it searches them as published.
	Eclipse   float64 `json:"eclipse_to_spectra,omitempty"`
	Halves    float64 `json:"eclipse_by_halves_to_spectra,omitempty"`
	Best      float64 `json:"best_to_bound,omitempty"`
	BestSharp float64 `json:"best_to_sharp_bound,omitempty"`
}

// fields lists the ratios.
func (r *Ratios) fields() [6]*float64 {
	return [...]*float64{&r.Spectra, &r.Baseline, &r.Eclipse, &r.Halves, &r.Best, &r.BestSharp}
}

// ReferenceRow is a case of the benchmark workload, with the ratios that an
// implementation of the paper is known to give, those measured, and the standard
// errors of these.
type ReferenceRow struct {
	Switches int     `json:"switches"`
	Delta    float64 `json:"delta"`
	Want     Ratios  `json:"reference"`
	Got      Ratios  `json:"measured"`
	Error    Ratios  `json:"standard_error"` // of Got; 0 for a single matrix
}

// ReferenceLevels are the weights that the reference's Eclipse tries at a time.
const ReferenceLevels = 10

// referenceRows are the cases, 100 racks of 16 flows each.
var referenceRows = []ReferenceRow{
	{Switches: 2, Delta: .01, Want: Ratios{Spectra: 1.065, Baseline: 2.45, Eclipse: 1.16}},
	{Switches: 4, Delta: .01, Want: Ratios{Spectra: 1.070, Baseline: 2.78, Eclipse: 1.16}},
	{Switches: 4, Delta: .04, Want: Ratios{Spectra: 1.050, Baseline: 2.58, Eclipse: 1.33}},
	{Switches: 8, Delta: .04, Want: Ratios{Spectra: 1.093, Baseline: 2.14, Eclipse: 1.30}},
	{Switches: 8, Delta: .1, Want: Ratios{Spectra: 1.186, Baseline: 1.88, Eclipse: 1.32}},
	{Switches: 4, Delta: .001, Want: Ratios{Eclipse: 0.98}},
}

// ReferenceSteps is how often Reference calls step for so many matrices.
func ReferenceSteps(seeds int) int { return seeds * len(referenceRows) }

// Reference measures the ratios of Spectra and of other methods, Best by its
// default steps, over so many random matrices, of seeds 1, 2, …, and calls step,
// from several goroutines, after each case of each.
func Reference(ctx context.Context, seeds int, others []ocs.Method, step func()) ([]ReferenceRow, error) {
	rows := slices.Clone(referenceRows)
	got := make([]Ratios, len(rows)*seeds) // [row][seed]
	if _, err := parallel.Each(ctx, len(got), runtime.GOMAXPROCS(0), func(int) func(int) error {
		return func(i int) (err error) {
			got[i], err = rows[i/seeds].measure(ctx, uint64(i%seeds)+1, others)
			step()
			return err
		}
	}); err != nil {
		return nil, err
	}
	for r := range rows {
		rows[r].Got, rows[r].Error = means(got[r*seeds : (r+1)*seeds])
	}
	return rows, nil
}

// means returns the means of ratios and their standard errors.
func means(list []Ratios) (mean, standardError Ratios) {
	n := float64(len(list))
	for i := range list {
		for k, x := range list[i].fields() {
			*mean.fields()[k] += *x / n
		}
	}
	if len(list) == 1 {
		return mean, Ratios{}
	}
	for k, e := range standardError.fields() {
		for i := range list {
			x := *list[i].fields()[k] - *mean.fields()[k]
			*e += x * x / (n - 1) / n
		}
		*e = math.Sqrt(*e)
	}
	return mean, standardError
}

// measure returns the ratios of one matrix.
func (r *ReferenceRow) measure(ctx context.Context, seed uint64, others []ocs.Method) (Ratios, error) {
	d, err := ocs.Workload("benchmark", 0, 0, seed)
	if err != nil {
		return Ratios{}, err
	}
	b := ocs.Bound(d, r.Switches, r.Delta)
	fast, err := r.makespan(ctx, d, ocs.Options{Method: ocs.Fast})
	if err != nil {
		return Ratios{}, err
	}
	got := Ratios{Spectra: fast / b.Paper}
	for _, m := range others {
		t, err := r.makespan(ctx, d, ocs.Options{Method: m})
		if err != nil {
			return Ratios{}, err
		}
		switch m {
		case Less:
			got.Baseline = t / fast
		case ocs.Best:
			got.Best, got.BestSharp = t/b.Paper, t/b.Sharp
		case ocs.Eclipse:
			got.Halves = t / fast
			if t, err = r.makespan(ctx, d, ocs.Options{Method: ocs.Eclipse, Levels: ReferenceLevels}); err != nil {
				return Ratios{}, err
			}
			got.Eclipse = t / fast
		}
	}
	return got, nil
}

// makespan is the makespan of a schedule in the row's case, which is replayed.
func (r *ReferenceRow) makespan(ctx context.Context, d *ocs.Demand, o ocs.Options) (float64, error) {
	o.Switches, o.Delta = r.Switches, r.Delta
	s, err := Schedule(ctx, d, o)
	if err != nil {
		return 0, err
	}
	return s.Makespan(), ocs.Replay(d, s)
}
