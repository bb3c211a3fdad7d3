package ocs

import (
	"context"
	"math"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

// decompose covers a demand by exactly Degree permutations (Alg. 1). Each is a matching
// of maximum remaining demand among those that cover the critical rows and columns:
// those with the most uncovered entries.
func decompose(ctx context.Context, d *Demand) (*cover, error) {
	return decomposeBy(ctx, d, variant{})
}

// variant is a way to decompose: by levels, or as published if it is the zero value.
type variant struct {
	share float64 // share of its newly covered entries that may be smaller than the first weight
	split float64 // a remainder of at least split times the median entry counts as an entry; 0 means never
	extra int     // permutations beyond the degree, for remainders of sums and for peaks
}

// variants are the ways in which Best decomposes demands in addition to the published one.
// If lines differ in their numbers of entries, or entries are sums of two flows, the least
// entry of a permutation is a poor estimate of the others and a quantile is a better one;
// later permutations carry the remainders of larger entries. The remainder of a sum must
// count as an entry, or no permutation has room for it.
var variants = []variant{{0.25, 0.5, 0}, {0.1, 0.5, 0}, {0.25, 0, 0}, {0.1, 0.5, 1}, {0.1, 0.5, 2}, {0.1, 0.5, 3}}

// decomposeBy is decompose by a variant.
func decomposeBy(ctx context.Context, d *Demand, by variant) (*cover, error) {
	m := newPeeler(d)
	m.share, m.least = by.share, math.Inf(1)
	if by.split > 0 && len(d.amount) > 0 {
		m.least = by.split * slices.Sorted(slices.Values(d.amount))[len(d.amount)/2]
	}
	if by != (variant{}) {
		m.levels = d.levels()
	}
	m.left = m.degree() + by.extra
	c := newCover(d, m.left)
	for m.left > 0 {
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

// peeler is the state of Alg. 1.
type peeler struct {
	d         *Demand
	rest      []float64 // [entry] D_rem
	uncovered []bool    // [entry] S_rem
	row, col  []int     // [rack] uncovered entries
	weight    []int64   // [entry] D_rem for the kernel
	scale     float64
	critical  bipartite.Coverage
	weigher   bipartite.Weigher
	levels    []level
	done      int       // permutations made
	left      int       // permutations still to make
	share     float64   // see variant
	least     float64   // a remainder of at least this counts as an entry
	first     []float64 // scratch of remaining
}

// level is the set of entries above a bound that the first permutations must cover.
type level struct {
	first       int
	above, unit float64 // unit is the median of the entries above
}

// permutations is the number of first permutations that a remainder of an entry needs.
func (l *level) permutations(rest float64) int {
	if rest <= l.above {
		return 0
	}
	return max(1, int(math.Ceil((rest-l.above)/l.unit)))
}

// step is the least factor between levels.
const step = 1.25

// levels returns the sets of entries that belong in the first permutations. Let w_r be the
// largest of all lines' r-th largest entries. No line has more than r entries above w_{r+1},
// so the first r permutations can cover them all, and the others need weigh no more than
// w_{r+1}. If a line lacks an entry, matchings of maximum demand alone do not ensure this:
// they take entries that are missing later, and one more permutation is heavy. There is a
// level at each r where w falls by the factor step.
func (d *Demand) levels() (out []level) {
	var w []float64
	for _, x := range d.sorted() {
		for r, v := range x {
			if r == len(w) {
				w = append(w, 0)
			}
			w[r] = max(w[r], v)
		}
	}
	for r := 1; r < len(w); r++ {
		if w[r]*step <= w[r-1] {
			var above []float64
			for _, x := range d.amount {
				if x > w[r] {
					above = append(above, x)
				}
			}
			slices.Sort(above)
			out = append(out, level{r, w[r], above[len(above)/2]})
		}
	}
	return out
}

func newPeeler(d *Demand) *peeler {
	p := &peeler{d: d, rest: slices.Clone(d.amount), uncovered: make([]bool, len(d.to)), weight: make([]int64, len(d.to)),
		row: make([]int, d.n), col: make([]int, d.n), scale: scale(d)}
	p.critical = bipartite.Coverage{Left: make([]bool, d.n), Right: make([]bool, d.n), ForLeft: make([]bool, len(d.to)), ForRight: make([]bool, len(d.to))}
	for e := range p.uncovered {
		p.uncovered[e] = true
		p.row[d.from[e]]++
		p.col[d.to[e]]++
	}
	p.left = p.degree()
	return p
}

// scale is the factor that turns demands into integers for the matching: the largest takes
// 30 bits, which is as exact as measured traffic and leaves room for sums.
func scale(d *Demand) float64 {
	if len(d.amount) == 0 {
		return 0
	}
	_, exp := math.Frexp(slices.Max(d.amount))
	return math.Ldexp(1, min(30-exp, 1000))
}

// degree is the number of permutations that are still needed.
func (p *peeler) degree() int { return max(slices.Max(p.row), slices.Max(p.col)) }

// next returns the entries of the next permutation, one per row or −1, and its first
// weight: the least remaining demand of the entries that it is the first to cover, or the
// quantile share of these. (The minimum over all entries of P, as in line 5, is 0 as soon as
// P contains a zero of D.)
func (p *peeler) next(ctx context.Context) (pick []int32, α float64, err error) {
	p.demand(p.levels)
	for e, x := range p.rest {
		p.weight[e] = int64(max(0, x) * p.scale)
	}
	pick, err = p.weigher.Cover(ctx, p.d.n, p.d.start, p.d.to, p.weight, p.critical)
	if err != nil && ctx.Err() == nil && len(p.levels) > 0 {

		p.demand(nil) // levels may contradict each other
		pick, err = p.weigher.Cover(ctx, p.d.n, p.d.start, p.d.to, p.weight, p.critical)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, 0, err // ctx has ended: a matching covers all vertices of largest degree (König)
	}
	left := p.left
	p.done++
	p.left--
	if p.remaining(pick, true); len(p.first) == 0 {
		p.remaining(pick, false) // all entries are covered, but some have a remainder
	}
	if len(p.first) == 0 {
		return pick, 0, nil
	}
	slices.Sort(p.first)
	α = max(0, p.first[int(p.share*float64(len(p.first)))])
	for i, e := range pick {
		if e < 0 {
			continue
		}
		p.rest[e] -= α
		j := p.d.to[e]
		if p.uncovered[e] && (p.rest[e] < p.least || p.row[i] == left || p.col[j] == left) {
			p.uncovered[e] = false
			p.row[i]--
			p.col[j]--
		}
	}
	return pick, α, nil
}

// remaining lists the remaining demand of the entries picked: of the uncovered ones, or of
// all with a remainder.
func (p *peeler) remaining(pick []int32, uncovered bool) {
	p.first = p.first[:0]
	for _, e := range pick {
		if e >= 0 && (uncovered && p.uncovered[e] || !uncovered && p.rest[e] > 0) {
			p.first = append(p.first, p.rest[e])
		}
	}
}

// demand sets the lines that the next permutation must cover: those with the most uncovered
// entries, and those with as many entries of a level as permutations are left for it, by
// an entry of that level.
func (p *peeler) demand(levels []level) {
	row, col := make([]float64, p.d.n), make([]float64, p.d.n) // an entry must exceed these
	for i := range p.row {
		row[i], col[i] = -math.MaxFloat64, -math.MaxFloat64
		p.critical.Left[i] = p.row[i] == p.left
		p.critical.Right[i] = p.col[i] == p.left
	}
	for _, l := range slices.Backward(levels) {
		left := l.first - p.done
		if left <= 0 {
			break
		}
		inRow, inCol := make([]int, p.d.n), make([]int, p.d.n)
		for e, rest := range p.rest {
			n := l.permutations(rest)
			inRow[p.d.from[e]] += n
			inCol[p.d.to[e]] += n
		}
		for i := range row {
			if inRow[i] >= left {
				row[i] = l.above
			}
			if inCol[i] >= left {
				col[i] = l.above
			}
		}
	}
	for e, rest := range p.rest {
		i, j := p.d.from[e], p.d.to[e]
		p.critical.ForLeft[e] = (p.uncovered[e] || !p.critical.Left[i]) && rest > row[i]
		p.critical.ForRight[e] = (p.uncovered[e] || !p.critical.Right[j]) && rest > col[j]
	}
	for i := range row {
		p.critical.Left[i] = p.critical.Left[i] || row[i] >= 0
		p.critical.Right[i] = p.critical.Right[i] || col[i] >= 0
	}
}
