//go:build lpsolve

package ilp

import (
	"encoding/gob"
	"io"
)

func readProgram(r io.Reader) (*program, error) {
	var q wireProgram
	if err := gob.NewDecoder(r).Decode(&q); err != nil {
		return nil, err
	}
	p := &program{upper: q.Upper, integer: q.Integer, rows: make([]row, len(q.Rows))}
	for i, r := range q.Rows {
		p.rows[i] = row{r.Cols, r.Coef, r.Sense, r.RHS}
	}
	return p, nil
}

func writeSolution(w io.Writer, s solution) error {
	return gob.NewEncoder(w).Encode(&wireSolution{s.outcome, s.values, s.detail})
}
