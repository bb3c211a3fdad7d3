package ocs

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// less is the paper's baseline, in the spirit of LESS (Liu, Xu and Singh, UCC
// 2019): the entries are divided between the switches, unsplit, so that the
// sub-matrices are as sparse as possible; each entry, the largest first, goes to the
// switch on which the fuller of its row and its column has least. Then each switch's
// matrix is decomposed separately.
func less(ctx context.Context, d *Demand, o Options) (*cover, *plan, error) {
	all, p := newCover(d, 0), newPlan(o.Switches, o.Delta)
	for h, sub := range split(d, o.Switches) {
		c, err := decompose(ctx, sub)
		if err != nil {
			return nil, nil, err
		}
		for _, i := range longestFirst(c.weight) {
			p.put(h, len(all.weight), c.weight[i])
			all.addColumns(c.column[i], c.weight[i])
		}
	}
	return all, p, nil
}

// split divides the entries of a demand between s switches.
func split(d *Demand, s int) []*Demand {
	order := make([]int32, len(d.to))
	for e := range order {
		order[e] = int32(e)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(d.amount[b], d.amount[a]) })
	row, col := make([][]float64, s), make([][]float64, s)
	for h := range s {
		row[h], col[h] = make([]float64, d.n), make([]float64, d.n)
	}
	owner := make([]int, len(d.to))
	for _, e := range order {
		i, j := d.from[e], d.to[e]
		least, rest := math.Inf(1), math.Inf(1)
		for h := range s {
			fuller, other := max(row[h][i], col[h][j]), min(row[h][i], col[h][j])
			if fuller < least || fuller == least && other < rest {
				least, rest, owner[e] = fuller, other, h
			}
		}
		row[owner[e]][i] += d.amount[e]
		col[owner[e]][j] += d.amount[e]
	}
	subs := make([]*Demand, s)
	for h := range subs {
		wanted := make([]bool, len(owner))
		for e := range owner {
			wanted[e] = owner[e] == h
		}
		subs[h] = d.only(wanted)
	}
	return subs
}
