package ilp

import (
	"encoding/gob"
	"io"
)

// wireProgram and wireSolution are what goes to the program that has lp_solve, and what
// comes back.
type wireProgram struct {
	Upper, Minimise []float64
	Integer         bool
	Rows            []wireRow
}

type wireRow struct {
	Cols  []int
	Coef  []float64
	Sense sense
	RHS   float64
}

type wireSolution struct {
	Outcome       outcome
	Values, Duals []float64
	Detail        string
}

func writeProgram(w io.Writer, p *program) error {
	q := wireProgram{Upper: p.upper, Minimise: p.minimise, Integer: p.integer, Rows: make([]wireRow, len(p.rows))}
	for i, r := range p.rows {
		q.Rows[i] = wireRow{r.cols, r.coef, r.sense, r.rhs}
	}
	return gob.NewEncoder(w).Encode(&q)
}

func readProgram(r io.Reader) (*program, error) {
	var q wireProgram
	if err := gob.NewDecoder(r).Decode(&q); err != nil {
		return nil, err
	}
	p := &program{upper: q.Upper, minimise: q.Minimise, integer: q.Integer, rows: make([]row, len(q.Rows))}
	for i, r := range q.Rows {
		p.rows[i] = row{r.Cols, r.Coef, r.Sense, r.RHS}
	}
	return p, nil
}

func writeSolution(w io.Writer, s solution) error {
	return gob.NewEncoder(w).Encode(&wireSolution{s.outcome, s.values, s.duals, s.detail})
}

func readSolution(r io.Reader) (solution, error) {
	var s wireSolution
	err := gob.NewDecoder(r).Decode(&s)
	return solution{s.Outcome, s.Values, s.Duals, s.Detail}, err
}
