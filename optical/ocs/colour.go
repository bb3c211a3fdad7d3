package ocs

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"

	"github.com/forsd/forsd/bipartite"
)

// colourer covers a demand by permutations of given weights, in falling order. The level of
// an entry is the number of permutations, counted from the first, that are heavy enough to
// carry it; an entry may also be split into parts with levels of their own. This is a list
// edge colouring in which the list of each edge is a prefix of the colours.
//
// All parts of a line (a row or a column) fit if, for each j, at most as many of them have
// level j or less as there are permutations left among the first j. The difference is the
// slack at j. If it is negative, some permutation must become heavier, at least by the gap
// between the weights j and j + 1. The urgency of a part is thus the sum of these gaps over
// j, each weighted the more the smaller the slack. Each permutation is a matching of
// maximum urgency.
type colourer struct {
	d       *Demand
	sorted  [][]float64 // [line] its entries, the largest first
	degree  int
	weigher bipartite.Weigher
	weights []float64 // the largest first
	parts   []part
	within  [][]int32   // [row, then column][level] parts of that level or less
	relief  [][]float64 // [row, then column][level] urgency of a part of that level
	gap     []float64   // [level] to the next weight, relative to the mean
	urgency []float64   // [count of weights + slack]
}

// part is the part of an entry that one permutation carries.
type part struct {
	entry  int32
	level  int32
	taken  bool
	amount float64
}

const (
	evenly   = 0.3 // added to each gap, relative to the mean weight
	urgent   = 3.0 // factor of urgency per unit of slack less
	late     = 100 // additional factor for negative slack
	latest   = 6   // slack below −latest does not raise urgency
	fineness = 128 // units of urgency as an integer
)

func newColourer(d *Demand) *colourer {
	return &colourer{d: d, sorted: d.sorted(), degree: d.Degree(), within: make([][]int32, 2*d.n), relief: make([][]float64, 2*d.n)}
}

// colour covers the demand by as many permutations as there are weights, at least the
// degree. The weights of the cover may differ from those given and may be 0. It returns
// nil if ctx ends.
func (k *colourer) colour(ctx context.Context, weights []float64) *cover {
	order := longestFirst(weights)
	k.weights = k.weights[:0]
	for _, i := range order {
		k.weights = append(k.weights, weights[i])
	}
	k.begin()
	if k.splitParts(ctx) != nil {
		return nil
	}
	c := newCover(k.d, len(weights))
	for r, α := range k.weights {
		pick, err := k.next(ctx, r)
		if err != nil {
			return nil
		}
		c.add(pick, α)
	}
	c.refine()
	return c
}

// level is the number of permutations that weigh at least amount.
func (k *colourer) level(amount float64) int32 {
	amount *= 1 - 1e-12
	return int32(sort.Search(len(k.weights), func(r int) bool { return k.weights[r] < amount }))
}

// begin makes each entry one part.
func (k *colourer) begin() {
	count := len(k.weights)
	mean := cmp.Or(sum(k.weights), 1) / float64(count)
	k.gap = append(k.gap[:0], k.weights[0]/mean+evenly)
	for j, α := range k.weights {
		next := 0.0
		if j+1 < count {
			next = k.weights[j+1]
		}
		k.gap = append(k.gap, (α-next)/mean+evenly)
	}
	k.urgency = k.urgency[:0]
	for slack := -count; slack <= count; slack++ {
		u := math.Pow(urgent, float64(min(-slack, latest)))
		if slack < 0 {
			u *= late
		}
		k.urgency = append(k.urgency, u)
	}
	for v := range k.within {
		k.within[v], k.relief[v] = make([]int32, count+1), make([]float64, count+1)
	}
	k.parts = k.parts[:0]
	for e, amount := range k.d.amount {
		k.add(part{entry: int32(e), level: k.level(amount), amount: amount})
	}
}

// of is the urgency of a slack at a level.
func (k *colourer) of(level, slack int32) float64 {
	return k.gap[level] * k.urgency[len(k.weights)+int(slack)]
}

// lines are the row and the column of a part.
func (k *colourer) lines(p part) (row, column int) {
	return int(k.d.from[p.entry]), k.d.n + int(k.d.to[p.entry])
}

func (k *colourer) add(p part) {
	k.count(p, 1)
	k.parts = append(k.parts, p)
}

// count adds a part to the counts of its lines, or removes it.
func (k *colourer) count(p part, by int32) {
	row, column := k.lines(p)
	for j := int(p.level); j < len(k.within[row]); j++ {
		k.within[row][j] += by
		k.within[column][j] += by
	}
}

// sort sorts the parts by row.
func (k *colourer) sort() {
	slices.SortStableFunc(k.parts, func(a, b part) int { return cmp.Compare(k.d.from[a.entry], k.d.from[b.entry]) })
}

// edges returns the bipartite graph of rows and columns with an edge for each part of
// nonnegative weight; the parts are sorted by row. index is the part of each edge.
func (k *colourer) edges(weigh func(i int) int64) (start, to, index []int32, weight []int64) {
	start = make([]int32, k.d.n+1)
	for i, p := range k.parts {
		w := weigh(i)
		if w < 0 {
			continue
		}
		row, column := k.lines(p)
		start[row+1]++
		to, index, weight = append(to, int32(column-k.d.n)), append(index, int32(i)), append(weight, w)
	}
	for i := range k.d.n {
		start[i+1] += start[i]
	}
	return start, to, index, weight
}

// division splits a part into two or three of given levels; all but the last have exactly
// the weight of their level. The gain is in urgency.
type division struct {
	gain   float64
	levels [3]int32
	count  int
}

// splitParts splits parts while lines have fewer parts than there are permutations. Each
// round splits at most one part per line, so that gains add up, and chooses the set of
// splits with the largest gain by a matching. At the end the parts are sorted by row.
func (k *colourer) splitParts(ctx context.Context) error {
	for {
		k.sort()
		how := make([]division, len(k.parts))
		start, to, index, gain := k.edges(func(i int) int64 {
			how[i] = k.division(k.parts[i])
			if g := int64(fineness * how[i].gain); g > 0 {
				return g
			}
			return -1
		})
		if len(to) == 0 {
			return ctx.Err()
		}
		matched, err := k.weigher.Match(ctx, k.d.n, start, to, gain)
		if err != nil {
			return err
		}
		for _, e := range matched {
			if e >= 0 {
				k.split(int(index[e]), how[index[e]])
			}
		}
	}
}

// split replaces part i by the parts of a division.
func (k *colourer) split(i int, how division) {
	p := k.parts[i]
	k.count(p, -1)
	rest := p.amount
	for m, level := range how.levels[:how.count] {
		p.level, p.amount = level, rest
		if m < how.count-1 {
			p.amount = k.weights[level-1]
		}
		rest -= p.amount
		if m > 0 {
			k.add(p)
			continue
		}
		k.parts[i] = p
		k.count(p, 1)
	}
}

// division returns the best way to split a part. It tries three parts only if both lines
// have too many.
func (k *colourer) division(p part) (best division) {
	count := int32(len(k.weights))
	row, column := k.lines(p)
	spare := count - max(k.within[row][count], k.within[column][count])
	if spare < 1 {
		return best
	}
	try := func(levels ...int32) {
		if gain := -k.change(row, p.level, levels) - k.change(column, p.level, levels); gain > best.gain {
			best = division{gain: gain, count: len(levels)}
			copy(best.levels[:], levels)
		}
	}
	crowded := false
	for j := p.level; j <= count && !crowded; j++ {
		crowded = k.within[row][j] > j && k.within[column][j] > j
	}
	for a := int32(1); a <= count; a++ {
		rest := p.amount - k.weights[a-1]
		if rest <= 0 {
			continue
		}
		if last := k.level(rest); last > 1 && last >= a {
			try(a, last)
		}
		for b := a + 1; b <= count && crowded && spare > 1; b++ {
			if rest := rest - k.weights[b-1]; rest > 0 {
				if last := k.level(rest); last > 2 && last >= b {
					try(a, b, last)
				}
			}
		}
	}
	return best
}

// change is the increase in urgency of line v if a part of some level is split.
func (k *colourer) change(v int, level int32, levels []int32) (change float64) {
	for j := min(level, levels[0]); int(j) <= len(k.weights); j++ {
		now := k.within[v][j]
		then := now
		if level <= j {
			then--
		}
		for _, l := range levels {
			if l <= j {
				then++
			}
		}
		if then != now {
			change += k.of(j, max(j-then, -int32(len(k.weights)))) - k.of(j, j-now)
		}
	}
	return change
}

// next picks the entries of permutation r, counted from 0: one per row, or −1.
func (k *colourer) next(ctx context.Context, r int) ([]int32, error) {
	n, count := k.d.n, len(k.weights)
	var c bipartite.Coverage
	for v, within := range k.within {
		sum := 0.0
		for j := count; j >= 0; j-- {
			sum += k.of(int32(j), int32(max(0, j-r))-within[j])
			k.relief[v][j] = sum
		}
		full := int(within[count]) == count-r
		if v < n {
			c.Left = append(c.Left, full)
		} else {
			c.Right = append(c.Right, full)
		}
	}
	start, to, index, weight := k.edges(func(i int) int64 {
		p := k.parts[i]
		if p.taken {
			return -1
		}
		row, column := k.lines(p)
		return int64(fineness * (k.relief[row][p.level] + k.relief[column][p.level]))
	})
	c.ForLeft = slices.Repeat([]bool{true}, len(to))
	c.ForRight = c.ForLeft
	matched, err := k.weigher.Cover(ctx, n, start, to, weight, c)
	if err != nil {
		return nil, err
	}
	pick := slices.Repeat([]int32{-1}, n)
	for i, e := range matched {
		if e >= 0 {
			p := &k.parts[index[e]]
			p.taken = true
			pick[i] = p.entry
			k.count(*p, -1)
		}
	}
	return pick, nil
}

// effort estimates the work of a colouring by count permutations.
func (k *colourer) effort(count int) int { return len(k.d.to) * count * count }

// mostColoured is the largest effort·(count−degree+1) for which lighten recolours a cover.
const mostColoured = 1 << 26

// nearer lists the weights that lighten tries: the least possible ones plus a share of each
// weight's own excess over its least, and a share of the mean excess.
var nearer = []struct{ own, even float64 }{{1, 0}, {0, 1}, {0.6, 0}}

// worthAnother is the relative gain from which lighten starts again.
const worthAnother = 3e-3

// lighten looks for lighter covers of as many permutations, with weights closer to the
// least possible, until the gain is small.
func (k *colourer) lighten(ctx context.Context, c *cover) *cover {
	if count := len(c.weight); k.effort(count)*(count-k.degree+1) > mostColoured {
		return c
	}
	for at := 0; at < len(nearer); at++ {
		was, weights := sum(c.weight), k.floors(c.weight)
		more := (was - sum(weights)) / float64(len(weights))
		for i, α := range c.weight {
			weights[i] += nearer[at].own*(α-weights[i]) + nearer[at].even*more
		}
		to := k.colour(ctx, weights)
		if to == nil {
			break
		}
		to.prune()
		if now := sum(to.weight); now < was {
			c = to
			if now < was*(1-worthAnother) {
				at = -1
			}
		}
	}
	return c
}

// floors returns the least possible weight for the rank of each of the weights.
func (k *colourer) floors(weights []float64) []float64 {
	least := leastWeights(k.sorted, len(weights))
	out := make([]float64, len(weights))
	for r, i := range longestFirst(weights) {
		out[i] = min(least[r], weights[i])
	}
	return out
}
