//go:build lpsolve

package ilp

import "github.com/draffensperger/golp"

// Available tells whether the engine is built in.
func Available() bool { return true }

// solve gives a program to lp_solve, with a limit in seconds.
func solve(p *program, seconds int) solution {
	lp := golp.NewLP(0, len(p.upper))
	lp.SetVerboseLevel(golp.CRITICAL)
	lp.SetTimeout(seconds)
	for _, r := range p.rows {
		entries := make([]golp.Entry, len(r.cols))
		for i, col := range r.cols {
			entries[i] = golp.Entry{Col: col, Val: 1}
			if r.coef != nil {
				entries[i].Val = r.coef[i]
			}
		}
		// golp returns no error from here.
		_ = lp.AddConstraintSparse(entries, constraint(r.sense), r.rhs)
	}
	lp.SetAddRowMode(false)
	for col, upper := range p.upper {
		lp.SetBounds(col, 0, upper)
		lp.SetInt(col, p.integer)
	}
	if p.minimise != nil {
		lp.SetObjFn(p.minimise)
	}
	switch result := lp.Solve(); result {
	case golp.OPTIMAL:
	case golp.SUBOPTIMAL:
		if p.minimise != nil {
			return solution{outcome: outOfTime}
		}
	case golp.INFEASIBLE:
		return solution{outcome: infeasible}
	case golp.TIMEOUT:
		return solution{outcome: outOfTime}
	default:
		return solution{outcome: failed, detail: result.String()}
	}
	s := solution{outcome: solved, values: lp.Variables()}
	if !p.integer {
		s.duals = lp.Duals()
	}
	return s
}

func constraint(s sense) golp.ConstraintType {
	switch s {
	case atMost:
		return golp.LE
	case atLeast:
		return golp.GE
	}
	return golp.EQ
}
