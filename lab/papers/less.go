package papers

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/forsd/forsd/optical/ocs"
)

// Less is the Spectra paper's baseline, in the spirit of LESS (Liu, Xu and Singh, UCC 2019): the
// entries are divided between the switches, unsplit, so that the sub-matrices are as sparse as
// possible; then each switch's matrix is decomposed separately.
const Less ocs.Method = "less"

// Schedule is ocs.Make, with Less for one more method.
func Schedule(ctx context.Context, d *ocs.Demand, o ocs.Options) (*ocs.Schedule, error) {
	if o.Method != Less {
		return ocs.Make(ctx, d, o)
	}
	o.Method = ocs.Fast
	nothing, err := ocs.NewDemand(1, []float64{0})
	if err == nil {
		_, err = ocs.Make(ctx, nothing, o) // checks the options
	}
	if err != nil {
		return nil, err
	}
	s := &ocs.Schedule{Racks: d.Racks(), Delta: o.Delta}
	for _, entries := range divide(d, o.Switches) {
		sub, err := ocs.NewDemand(d.Racks(), entries)
		if err != nil {
			return nil, err
		}
		one, err := ocs.Make(ctx, sub, ocs.Options{Switches: 1, Delta: o.Delta})
		if err != nil {
			return nil, err
		}
		s.Switches = append(s.Switches, one.Switches[0])
	}
	return s, nil
}

// divide divides the entries of a demand between s switches: each entry, the largest first, goes
// to the switch on which the fuller of its row and its column has least.
func divide(d *ocs.Demand, s int) [][]float64 {
	n := d.Racks()
	var order []int
	for e := range n * n {
		if d.At(e/n, e%n) > 0 {
			order = append(order, e)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d.At(b/n, b%n), d.At(a/n, a%n)) })
	row, col, of := make([][]float64, s), make([][]float64, s), make([][]float64, s)
	for h := range s {
		row[h], col[h], of[h] = make([]float64, n), make([]float64, n), make([]float64, n*n)
	}
	for _, e := range order {
		i, j, owner := e/n, e%n, 0
		least, rest := math.Inf(1), math.Inf(1)
		for h := range s {
			fuller, other := max(row[h][i], col[h][j]), min(row[h][i], col[h][j])
			if fuller < least || fuller == least && other < rest {
				least, rest, owner = fuller, other, h
			}
		}
		x := d.At(i, j)
		row[owner][i] += x
		col[owner][j] += x
		of[owner][e] = x
	}
	return of
}
