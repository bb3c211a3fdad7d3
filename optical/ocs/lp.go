package ocs

import (
	"context"
	"fmt"
	"math"
)

// maxTableau is the most numbers of a tableau: half a gigabyte.
const maxTableau = 1 << 26

// refineLP gives the permutations the weights of least sum that cover D (Eq. 5),
// for comparison with refine. It solves the dual, max Σ D_e·y_e with Σ y_e ≤ 1 over
// the entries of each permutation, by the simplex method: y = 0 is a feasible
// start, there are few rows, and the prices of the rows are the weights. It fails if
// the tableau is too large.
func (c *cover) refineLP(ctx context.Context) error {
	if k, m := len(c.weight), len(c.d.to); k*(m+k+1) > maxTableau {
		return fmt.Errorf("linear programming with %d permutations and %d entries takes more than %d MB: take the greedy weights", k, m, maxTableau*8>>20)
	}
	t := newTableau(c)
	if err := t.solve(ctx); err != nil {
		return err
	}
	for i := range c.weight {
		c.weight[i] = t.price(i)
	}
	c.refine() // for rounding
	c.prune()
	return nil
}

// tableau is the tableau of the dual: a row per permutation, a column per entry, then a
// slack column per row and the right sides.
type tableau struct {
	rows  [][]float64
	basis []int     // [row] the column whose value is the row's right side
	cost  []float64 // [column] reduced cost
	slack int       // the first slack column
	bland bool      // the rule that cannot cycle
	still int       // consecutive pivots without gain
	room  []float64 // of all rows
}

func newTableau(c *cover) *tableau {
	k, m := len(c.weight), len(c.d.to)
	t := new(tableau)
	t.reset(k, m)
	for i, entries := range c.entry {
		t.right(i, 1)
		for _, e := range entries {
			if e >= 0 {
				t.rows[i][e] = 1
			}
		}
	}
	for e, x := range c.d.amount {
		t.cost[e] = -x
	}
	return t
}

// reset sets the size of the tableau, with all columns 0 but the slack columns.
func (t *tableau) reset(rows, columns int) {
	width := columns + rows + 1
	if room := (rows + 1) * width; cap(t.room) < room {
		t.room = make([]float64, room)
	}
	all := t.room[:(rows+1)*width]
	clear(all)
	t.rows, t.basis, t.slack, t.bland, t.still = t.rows[:0], t.basis[:0], columns, false, 0
	for i := range rows {
		t.rows, t.basis = append(t.rows, all[i*width:(i+1)*width:(i+1)*width]), append(t.basis, columns+i)
		t.rows[i][columns+i] = 1
	}
	t.cost = all[rows*width:]
}

// right sets the right side of a row.
func (t *tableau) right(row int, x float64) { t.rows[row][len(t.rows[row])-1] = x }

// price is the price of a row.
func (t *tableau) price(row int) float64 { return max(0, t.cost[t.slack+row]) }

// solve pivots until no column gains.
func (t *tableau) solve(ctx context.Context) error {
	for ctx.Err() == nil {
		column, ok := t.entering()
		if !ok {
			return nil
		}
		t.pivot(t.leaving(column), column)
	}
	return ctx.Err()
}

// entering picks the column that gains most per unit or, by Bland's rule, the
// first that gains.
func (t *tableau) entering() (column int, ok bool) {
	least := -tolerance * t.scale()
	column = -1
	for j, x := range t.cost[:len(t.cost)-1] {
		if x < least {
			least, column = x, j
			if t.bland {
				break
			}
		}
	}
	return column, column >= 0
}

// scale is the size of the optimum so far, by which costs are judged.
func (t *tableau) scale() float64 {
	return max(math.Abs(t.cost[len(t.cost)-1])/float64(len(t.rows)), math.SmallestNonzeroFloat64)
}

// leaving picks the row that bounds a column's value. One exists, because a
// permutation's entries have coefficients that bound it.
func (t *tableau) leaving(column int) (row int) {
	least, row, last := math.Inf(1), -1, len(t.cost)-1
	for i, x := range t.rows {
		if x[column] > tolerance {
			if ratio := x[last] / x[column]; ratio < least {
				least, row = ratio, i
			}
		}
	}
	if least > 0 {
		t.still = 0
	} else if t.still++; t.still > len(t.rows) {
		t.bland = true
	}
	return row
}

func (t *tableau) pivot(row, column int) {
	p := t.rows[row]
	t.basis[row] = column
	f := 1 / p[column]
	for j := range p {
		p[j] *= f
	}
	for i, x := range t.rows {
		if i != row && x[column] != 0 {
			eliminate(x, p, x[column])
		}
	}
	eliminate(t.cost, p, t.cost[column])
}

// eliminate subtracts f times p from x.
func eliminate(x, p []float64, f float64) {
	for j, y := range p {
		x[j] -= f * y
	}
}
