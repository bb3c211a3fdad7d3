package ocs

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"

	"github.com/forsd/forsd/bipartite"
)

// colourer covers a demand by permutations whose weights are given. Let these fall. An
// entry may then have one of the first so many, its level, or parts of it may have several.
// That is an edge colouring with a list of colours for each edge, which begins with the
// first for all.
//
// A line, that is a row or a column, gets its parts where they belong if for each j at most
// as many of them are of level j or less as permutations are left among the first j. The
// difference is its slack at j. Where it is negative, some permutation must weigh more, by
// the gap between the weights j and j + 1 at least. So the sum over j of that gap, less
// for more slack, says how urgent it is for a line to get rid of a part of some level.
// One permutation after the other is a matching of the most urgent.
type colourer struct {
	d       *Demand
	sorted  [][]float64 // of each line, the largest first
	degree  int
	weigher bipartite.Weigher
	weights []float64 // the largest first
	parts   []part
	within  [][]int32   // [row, then column][level] parts of that level or less
	relief  [][]float64 // [row, then column][level] by what a part of that level is urgent
	gap     []float64   // [level] to the next weight, of the mean one
	urgency []float64   // [count of weights + slack]
}

// part is what one permutation is to carry of an entry.
type part struct {
	entry  int32
	level  int32
	taken  bool
	amount float64
}

const (
	evenly   = 0.3 // what all gaps have in addition, of the mean weight
	urgent   = 3.0 // by what factor slack of one less is more urgent
	late     = 100 // and by what factor slack that is negative
	latest   = 6   // slack beyond which that does not grow
	fineness = 128 // of urgency, in whole numbers
)

func newColourer(d *Demand) *colourer {
	return &colourer{d: d, sorted: d.sorted(), degree: d.Degree(), within: make([][]int32, 2*d.n), relief: make([][]float64, 2*d.n)}
}

// colour covers the demand by as many permutations as there are weights, which are not
// fewer than the degree. Their weights may become others, and 0. It returns nil where ctx
// ends.
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

// level is how many of the permutations weigh so much.
func (k *colourer) level(amount float64) int32 {
	amount *= 1 - 1e-12
	return int32(sort.Search(len(k.weights), func(r int) bool { return k.weights[r] < amount }))
}

// begin makes each entry a part.
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

// of is how urgent some slack at a level is.
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

// count counts a part in its lines, or takes it out of them.
func (k *colourer) count(p part, by int32) {
	row, column := k.lines(p)
	for j := int(p.level); j < len(k.within[row]); j++ {
		k.within[row][j] += by
		k.within[column][j] += by
	}
}

// sort puts the parts into the order of their rows.
func (k *colourer) sort() {
	slices.SortStableFunc(k.parts, func(a, b part) int { return cmp.Compare(k.d.from[a.entry], k.d.from[b.entry]) })
}

// edges is the graph of rows and columns whose edges are parts, which are in the order of
// their rows: those of a weight that is not negative. index is which part an edge is.
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

// division is a part as two or three, by their levels; all but the last are as large as
// the weights of their levels. The gain is in urgency.
type division struct {
	gain   float64
	levels [3]int32
	count  int
}

// splitParts splits parts as long as lines have more permutations than parts: at a time one
// of a line at most, so that what splits gain adds up, and of all such choices one that
// gains most. In the end parts are in the order of their rows.
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

// split makes a part two or three.
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

// division is the best way to split a part. Three are tried only where both lines have too
// many parts.
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

// change is by what a line becomes more urgent where a part of some level is split.
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

// next picks the entries of permutation r, counted from 0: one a row, −1 for none.
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

// effort is what a colouring by so many permutations takes, in levels of divisions.
func (k *colourer) effort(count int) int { return len(k.d.to) * count * count }

// mostColoured is up to what effort, more where entries may be split, a cover is coloured anew.
const mostColoured = 1 << 26

// nearer are weights that lighten tries: by a share of what each is more than the least that
// it can be, and of what all are on average.
var nearer = []struct{ own, even float64 }{{1, 0}, {0, 1}, {0.6, 0}}

// worthAnother is the share of all weights for which lighten begins again.
const worthAnother = 3e-3

// lighten seeks covers of as many permutations that weigh less, by weights nearer to the
// least that they can be, until that is worth little.
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

// floors are the least that the weights of so many permutations can be, each by its rank.
func (k *colourer) floors(weights []float64) []float64 {
	least := leastWeights(k.sorted, len(weights))
	out := make([]float64, len(weights))
	for r, i := range longestFirst(weights) {
		out[i] = min(least[r], weights[i])
	}
	return out
}
