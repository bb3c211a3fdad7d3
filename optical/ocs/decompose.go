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
	return decomposeBy(ctx, d, variant{})
}

// variant is a way to decompose: by levels, or as published where it is zero.
type variant struct {
	share float64 // of the entries that a permutation is the first to cover: these may be larger than its weight
	split float64 // of the median entry: what is left of an entry, if it is more, counts as an entry; 0 for never
	extra int     // permutations beyond the degree, for what sums leave and for peaks
}

// variants are those by which Best decomposes demands beside the published one. Where
// lines differ in their numbers of entries, or entries are sums of two flows, the least
// entry of a permutation says nothing of the others, and one beyond a share of them
// does; what larger entries have left is for the permutations that follow. What a sum has
// left must count as an entry, or none of them has room for it.
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
	levels    []level
	done      int       // permutations made
	left      int       // permutations to be made
	share     float64   // see variant
	least     float64   // what is left of an entry that is so large is one of its own
	first     []float64 // scratch of remaining
}

// level is some entries that so many permutations are to cover.
type level struct {
	first       int
	above, unit float64 // unit is the median of the entries above
}

// permutations is how many of the first ones an entry needs of which so much is left.
func (l *level) permutations(rest float64) int {
	if rest <= l.above {
		return 0
	}
	return max(1, int(math.Ceil((rest-l.above)/l.unit)))
}

// step is by what factor levels differ at least.
const step = 1.25

// levels says which entries belong into the first permutations. Let w_r be the largest
// of all lines' r-th largest entries. No line has more than r entries above w_{r+1}, so
// that the first r permutations may have them all; then the weights of the others need
// be no more than w_{r+1}. Where a line lacks an entry, matchings of the largest demand
// alone do not see to it: the entries that they take there are missing later, and one
// permutation more is heavy. There is a level wherever w falls by a step, a factor.
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
// to cover, but for a share. (Over all entries of P, as line 5 has it, the minimum is 0 as soon as P
// passes a zero of D.)
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
		p.remaining(pick, false) // all is covered, and some entries have more
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

// remaining lists what is left of the entries picked: of those that no permutation has
// covered yet, or of all that have something left.
func (p *peeler) remaining(pick []int32, uncovered bool) {
	p.first = p.first[:0]
	for _, e := range pick {
		if e >= 0 && (uncovered && p.uncovered[e] || !uncovered && p.rest[e] > 0) {
			p.first = append(p.first, p.rest[e])
		}
	}
}

// demand sets what the next permutation must cover: the lines with most entries that
// no permutation has covered yet, and those with as many of a level as there are
// permutations left for it, by such an entry.
func (p *peeler) demand(levels []level) {
	row, col := make([]float64, p.d.n), make([]float64, p.d.n) // what an entry must be above
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
