//go:build !lpsolve

package ilp

import (
	"encoding/gob"
	"io"
)

func writeProgram(w io.Writer, p *program) error {
	q := wireProgram{Upper: p.upper, Integer: p.integer, Rows: make([]wireRow, len(p.rows))}
	for i, r := range p.rows {
		q.Rows[i] = wireRow{r.cols, r.coef, r.sense, r.rhs}
	}
	return gob.NewEncoder(w).Encode(&q)
}

func readSolution(r io.Reader) (solution, error) {
	var s wireSolution
	err := gob.NewDecoder(r).Decode(&s)
	return solution{s.Outcome, s.Values, s.Detail}, err
}
