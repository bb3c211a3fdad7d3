package ilp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/forsd/forsd/fors"
)

// Bound returns the least number of phases in which the inter-leaf transfers of
// the complete exchange can pass the lanes if they may be split: the joint linear
// programme over all leaves, rounded up. For leaves A and B with n_A and n_B
// servers it seeks the least Φ with y[A][B][k] ≥ 0, Σ_k y[A][B][k] = n_A·n_B,
// Σ_B y[A][B][k] ≤ Φ and Σ_A y[A][B][k] ≤ Φ, where y is 0 for lanes that are not
// up at both. A plan needs at least as many phases, and at least P−1. Pairs without a
// lane are ignored. Leaves with the same lanes and as many servers have equal
// solutions, and so do lanes with the same leaves, so one of each stands for all.
//
// The result does not rely on lp_solve being correct: it is computed from the
// dual values in integers, and any dual values give a valid bound. Bound fails
// with ErrTimeLimit after PhaseLimit, with the context's error, or with
// ErrNotBuiltIn.
func Bound(ctx context.Context, t *fors.Tree) (phases int, err error) {
	if !Available() {
		return 0, ErrNotBuiltIn
	}
	if err := check(t); err != nil {
		return 0, err
	}
	q := newQuotient(newNetwork(t))
	if len(q.flows) == 0 {
		return 0, nil
	}
	p := q.program()
	s, err := run(ctx, p, PhaseLimit)
	if err != nil {
		return 0, fmt.Errorf("bound the phases of %d leaf classes and %d lane classes: %w", len(q.kinds), len(q.lanes), err)
	}
	if s.outcome != solved {
		return 0, errors.New("bound the phases: lp_solve finds no solution, although one always exists")
	}
	bound := q.certify(s.duals[:len(q.kinds)*len(q.lanes)*q.sides])
	if Φ := s.values[0]; float64(bound) < Φ*(1-2*slack) {
		return 0, fmt.Errorf("bound the phases: lp_solve's dual values prove %d phases, but its optimum is %g", bound, Φ)
	}
	return bound, nil
}

// quotient is the exchange of a tree in classes of leaves and of lanes.
type quotient struct {
	kinds []leafClass
	lanes [][]fors.Lane // [class]
	flows []flow
	// sides is 1 if transfers to a leaf mirror those from it, so that only the capacity
	// out of the leaves counts, and 2 if closed lanes make them differ.
	sides int
}

// leafClass is a set of leaves with the same lanes and as many servers of each kind.
type leafClass struct {
	leaf    int   // one of them
	leaves  int   // their number
	servers []int // [kind]
}

// flow is the transfers from a leaf of one class to the servers of a kind at a
// leaf of another class, or at another leaf of the same.
type flow struct {
	from, to  int   // leaf classes
	pairs     int   // ordered pairs of leaves
	transfers int   // for one pair of leaves
	lanes     []int // lane classes
}

func newQuotient(w *network) *quotient {
	q := &quotient{kinds: w.leafClasses(), sides: 1}
	if len(w.open) > 1 {
		q.sides = 2
	}
	var sets []fors.LaneSet
	for a, from := range q.kinds {
		for b, to := range q.kinds {
			for kind, n := range to.servers {
				f := flow{from: a, to: b, pairs: from.leaves * to.leaves, transfers: from.total() * n}
				if a == b {
					f.pairs -= from.leaves
				}
				if set := w.lanes(from.leaf, to.leaf, kind); f.pairs > 0 && f.transfers > 0 && set.Size() > 0 {
					q.flows, sets = append(q.flows, f), append(sets, set)
				}
			}
		}
	}
	q.lanes = refine(w.t.Lanes, sets)
	for i := range q.flows {
		for c, lanes := range q.lanes {
			if sets[i].Has(int(lanes[0])) {
				q.flows[i].lanes = append(q.flows[i].lanes, c)
			}
		}
	}
	return q
}

// leafClasses groups the leaves with servers into classes, ordered by their first leaves.
func (w *network) leafClasses() []leafClass {
	servers := make([][]int, len(w.up)) // [leaf][kind]
	for leaf := range servers {
		servers[leaf] = make([]int, len(w.open))
	}
	for d, leaf := range w.leaf {
		servers[leaf][w.kind[d]]++
	}
	var classes []leafClass
	for leaf, n := range servers {
		i := slices.IndexFunc(classes, func(c leafClass) bool {
			return slices.Equal(w.up[c.leaf], w.up[leaf]) && slices.Equal(c.servers, n)
		})
		switch {
		case i >= 0:
			classes[i].leaves++
		case len(w.t.Slots[leaf]) > 0:
			classes = append(classes, leafClass{leaf: leaf, leaves: 1, servers: n})
		}
	}
	return classes
}

func (c *leafClass) total() int {
	n := 0
	for _, servers := range c.servers {
		n += servers
	}
	return n
}

// program states the quotient with Φ as column 0. The capacity rows come first,
// at side·classes of leaves·classes of lanes + leaf class·classes of lanes + lane class.
func (q *quotient) program() *program {
	p := &program{upper: []float64{math.Inf(1)}, minimise: []float64{1}}
	size := len(q.kinds) * len(q.lanes)
	p.rows = make([]row, q.sides*size)
	for i := range p.rows {
		// One leaf of the class sends (or receives) at most Φ·lanes on the class's lanes.
		p.rows[i] = row{cols: []int{0}, coef: []float64{-float64(len(q.lanes[i%len(q.lanes)]))}, sense: atMost}
	}
	for _, f := range q.flows {
		if q.sides == 1 && f.from > f.to {
			continue // the mirror image of the flow back, with the same columns
		}
		var cols []int
		for _, c := range f.lanes {
			col := len(p.upper)
			p.upper, p.minimise = append(p.upper, math.Inf(1)), append(p.minimise, 0)
			cols = append(cols, col)
			p.rows[f.from*len(q.lanes)+c].add(col, f.pairs/q.kinds[f.from].leaves)
			if q.sides == 2 {
				p.rows[size+f.to*len(q.lanes)+c].add(col, f.pairs/q.kinds[f.to].leaves)
			} else if f.from != f.to {
				p.rows[f.to*len(q.lanes)+c].add(col, f.pairs/q.kinds[f.to].leaves)
			}
		}
		p.rows = append(p.rows, row{cols: cols, sense: atLeast, rhs: float64(f.transfers) * (1 + slack*share(len(p.rows)))})
	}
	return p
}

// slack is the largest perturbation of the demands for lp_solve. Without it, the
// programme is so degenerate that lp_solve stalls: on FT(2;20,18) with 40 dead links
// it does not finish in 30 s, and with the slack it takes 0.06 s. The final proof
// uses the exact numbers.
const slack = 1.0 / (1 << 20)

func (r *row) add(col, coef int) {
	r.cols, r.coef = append(r.cols, col), append(r.coef, float64(coef))
}

// certify computes the bound that dual values of the capacity rows prove. With
// prices u and v on every lane out of and into every leaf, a transfer pays at least
// the price of its cheapest lane, and a link earns at most its price in each phase;
// so the phases are at least
//
//	Σ_{A≠B} n_A·n_B·min_k (u[A][k] + v[B][k]) / Σ_{A,k} (u[A][k] + v[A][k]),
//
// for any prices. They are rounded to integers, so rounding them is the only loss.
func (q *quotient) certify(duals []float64) int {
	size := len(q.kinds) * len(q.lanes)
	price := q.prices(duals)
	out, in := price[:size], price[len(price)-size:]
	paid, earned := 0, 0
	for _, f := range q.flows {
		least := math.MaxInt
		for _, c := range f.lanes {
			least = min(least, out[f.from*len(q.lanes)+c]+in[f.to*len(q.lanes)+c])
		}
		paid += f.pairs * f.transfers * least
	}
	for a, kind := range q.kinds {
		for c, lanes := range q.lanes {
			earned += kind.leaves * len(lanes) * (out[a*len(q.lanes)+c] + in[a*len(q.lanes)+c])
		}
	}
	if earned == 0 {
		return 0
	}
	return (paid + earned - 1) / earned
}

// prices scales the dual values to one leaf each and to integers up to 2²⁴, which
// keeps the sums of certify below 2⁶³ for 2¹⁶ servers.
func (q *quotient) prices(duals []float64) []int {
	scaled := make([]float64, len(duals))
	for i, dual := range duals {
		scaled[i] = math.Abs(dual) / float64(q.kinds[i/len(q.lanes)%len(q.kinds)].leaves)
	}
	prices := make([]int, len(duals))
	if most := slices.Max(scaled); most > 0 {
		for i, dual := range scaled {
			prices[i] = int(math.Round(math.Ldexp(dual/most, 24)))
		}
	}
	return prices
}
