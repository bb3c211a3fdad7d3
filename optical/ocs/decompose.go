package ocs

import (
	"context"
	"math"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// decompose covers a demand by exactly Degree permutations (Alg. 1), of which each
// is a matching of largest remaining demand among those that cover the critical
// rows and columns: those with most entries that no permutation has covered yet.
func decompose(ctx context.Context, d *Demand) (*cover, error) {
	m := newPeeler(d)
	c := newCover(d, m.degree())
	for m.degree() > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		pick, α, err := m.next(ctx)
		if err != nil {
			return nil, err
		}
		c.add(pick, α)
	}
	c.refine()
	c.prune()
	return c, nil
}

// peeler is what Alg. 1 has left to do.
type peeler struct {
	d         *Demand
	rest      []float64 // [entry] D_rem
	uncovered []bool    // [entry] S_rem
	row, col  []int     // [rack] uncovered entries
	weight    []int64   // [entry] D_rem for the kernel
	scale     float64
	critical  bipartite.Coverage
	weigher   bipartite.Weigher
}

func newPeeler(d *Demand) *peeler {
	p := &peeler{d: d, rest: slices.Clone(d.amount), uncovered: make([]bool, len(d.to)), weight: make([]int64, len(d.to)),
		row: make([]int, d.n), col: make([]int, d.n), scale: scale(d)}
	p.critical = bipartite.Coverage{Left: make([]bool, d.n), Right: make([]bool, d.n), Edges: p.uncovered}
	for e := range p.uncovered {
		p.uncovered[e] = true
		p.row[d.from[e]]++
		p.col[d.to[e]]++
	}
	return p
}

// scale is by what demands become whole numbers for the kernel: the largest takes
// 30 bits, which is as exact as measured traffic and leaves room for sums.
func scale(d *Demand) float64 {
	if len(d.amount) == 0 {
		return 0
	}
	_, exp := math.Frexp(slices.Max(d.amount))
	return math.Ldexp(1, min(30-exp, 1000))
}

// degree is how many permutations are still needed.
func (p *peeler) degree() int { return max(slices.Max(p.row), slices.Max(p.col)) }

// next returns the entries of the next permutation, one a row, −1 for none, and
// its first weight: the least remaining demand of the entries that it is the first
// to cover. (Over all entries of P, as line 5 has it, the minimum is 0 as soon as P
// passes a zero of D.)
func (p *peeler) next(ctx context.Context) (pick []int32, α float64, err error) {
	degree := p.degree()
	for i := range p.row {
		p.critical.Left[i] = p.row[i] == degree
		p.critical.Right[i] = p.col[i] == degree
	}
	for e, x := range p.rest {
		p.weight[e] = int64(max(0, x) * p.scale)
	}
	pick, err = p.weigher.Cover(ctx, p.d.n, p.d.start, p.d.to, p.weight, p.critical)
	if err != nil {
		return nil, 0, err // ctx has ended: a matching covers all vertices of largest degree (König)
	}
	α = math.Inf(1)
	for _, e := range pick {
		if e >= 0 && p.uncovered[e] {
			α = min(α, p.rest[e])
		}
	}
	α = max(0, α)
	for i, e := range pick {
		if e < 0 {
			continue
		}
		p.rest[e] -= α
		if p.uncovered[e] {
			p.uncovered[e] = false
			p.row[i]--
			p.col[p.d.to[e]]--
		}
	}
	return pick, α, nil
}
