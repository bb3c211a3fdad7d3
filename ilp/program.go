package ilp

import (
	"context"
	"fmt"
	"math"
	"time"
)

// sense is how a row of a program relates to its right-hand side.
type sense int

const (
	atMost sense = iota
	atLeast
	equal
)

// row is a constraint on a sum of columns.
type row struct {
	cols []int
	coef []float64 // one a column; nil where all are 1
	sense
	rhs float64
}

// program is a linear or an integer programme with columns from 0 to their upper
// bounds. Without an objective any feasible point is a solution.
type program struct {
	upper    []float64 // [column]
	minimise []float64 // [column], nil for none
	integer  bool
	rows     []row
	empty    bool // a row without columns cannot hold
}

// sum adds a row with coefficients 1 to an integer programme; no row asks for less
// than nothing. The right-hand side is relaxed by less than 1, which changes no
// integer solution, and by a different amount for every row: the programme is
// degenerate otherwise, and lp_solve stalls.
func (p *program) sum(cols []int, s sense, rhs int) {
	if len(cols) == 0 {
		p.empty = p.empty || s != atMost && rhs > 0
		return
	}
	if s != atLeast {
		p.rows = append(p.rows, row{cols: cols, sense: atMost, rhs: float64(rhs) + share(len(p.rows))/32})
	}
	if s != atMost {
		p.rows = append(p.rows, row{cols: cols, sense: atLeast, rhs: float64(rhs) - share(len(p.rows))/32})
	}
}

// share is a number in [0, 1), a different one for every row.
func share(row int) float64 {
	_, share := math.Modf(float64(row) * (math.Sqrt(5) - 1) / 2)
	return share
}

// outcome is what a solver says of a program.
type outcome int

const (
	solved outcome = iota
	infeasible
	outOfTime
	failed
)

// solution is a point, with the dual values of the rows where the program is linear.
type solution struct {
	outcome
	values []float64 // [column]
	duals  []float64 // [row]
	detail string    // the solver's word for a failure
}

// run solves a program within a limit. It fails with ErrTimeLimit where that does not
// suffice, and with ctx.Err() where ctx ends.
func run(ctx context.Context, p *program, limit time.Duration) (solution, error) {
	if err := ctx.Err(); err != nil {
		return solution{}, err
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s := solve(within, p)
	if err := ctx.Err(); err != nil {
		return solution{}, err
	}
	switch s.outcome {
	case outOfTime:
		return s, fmt.Errorf("%w: lp_solve has %d columns and %d rows and found nothing in %s", ErrTimeLimit, len(p.upper), len(p.rows), limit)
	case failed:
		return s, fmt.Errorf("lp_solve gave up on %d columns and %d rows: %s", len(p.upper), len(p.rows), s.detail)
	}
	return s, nil
}
