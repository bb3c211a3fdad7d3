package ilp

import (
	"context"
	"fmt"
	"math"
	"time"
)

// sense is the relation of a row of a program to its right-hand side.
type sense int

const (
	atMost sense = iota
	atLeast
	equal
)

// row is a constraint on a sum of columns.
type row struct {
	cols []int
	coef []float64 // one per column; nil if all are 1
	sense
	rhs float64
}

// program is a linear or an integer programme with columns from 0 to their upper
// bounds. Any feasible point is a solution.
type program struct {
	upper   []float64 // [column]
	integer bool
	rows    []row
	empty   bool // a row without columns cannot hold
}

// sum adds a row with coefficients 1 to an integer programme; no right-hand side is
// negative. It is relaxed by less than 1, which changes no integer solution, and by a
// different amount for every row: otherwise the programme is degenerate, and lp_solve
// stalls.
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

// share returns a number in [0, 1), a different one for every row.
func share(row int) float64 {
	_, share := math.Modf(float64(row) * (math.Sqrt(5) - 1) / 2)
	return share
}

// outcome is the result of a solver.
type outcome int

const (
	solved outcome = iota
	infeasible
	outOfTime
	failed
)

// solution is a point.
type solution struct {
	outcome
	values []float64 // [column]
	detail string    // the solver's name of a failure
}

// run solves a program within a limit. It fails with ErrTimeLimit if that does not
// suffice, and with ctx.Err() if ctx ends.
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
