package ocs

import (
	"context"
	"math"
	"slices"
)

// cover is a set of weighted permutations, each with the entries that it carries.
type cover struct {
	d      *Demand
	weight []float64 // [permutation] α
	column [][]int32 // [permutation][rack] the receiving rack
	entry  [][]int32 // [permutation][rack] the entry of that pair, −1 where D is 0
}

// newCover makes room for k permutations; more may follow.
func newCover(d *Demand, k int) *cover {
	return &cover{d: d, weight: make([]float64, 0, k), column: make([][]int32, 0, k), entry: make([][]int32, 0, k)}
}

// add appends the permutation that carries the entries picked, one per row or −1.
// The rows without an entry take the remaining columns, in order.
func (c *cover) add(pick []int32, weight float64) {
	n := c.d.n
	room := make([]int32, 2*n)
	column, entry := room[:n:n], room[n:]
	taken := make([]bool, n)
	for _, e := range pick {
		if e >= 0 {
			taken[c.d.to[e]] = true
		}
	}
	next := int32(0)
	for i, e := range pick {
		if e >= 0 {
			column[i], entry[i] = c.d.to[e], e
			continue
		}
		for taken[next] {
			next++
		}
		column[i], entry[i] = next, c.d.entry(i, next)
		next++
	}
	c.weight, c.column, c.entry = append(c.weight, weight), append(c.column, column), append(c.entry, entry)
}

// addColumns appends a permutation given by its columns.
func (c *cover) addColumns(column []int32, weight float64) {
	entry := make([]int32, len(column))
	for i, j := range column {
		entry[i] = c.d.entry(i, j)
	}
	c.weight, c.column, c.entry = append(c.weight, weight), append(c.column, column), append(c.entry, entry)
}

// onto covers another demand with the same number of racks by these permutations, and
// adds others for entries that are in none of them.
func (c *cover) onto(ctx context.Context, d *Demand) (*cover, error) {
	out := newCover(d, len(c.weight))
	uncovered := slices.Repeat([]bool{true}, len(d.to))
	for i, column := range c.column {
		out.addColumns(column, c.weight[i])
		for _, e := range out.entry[i] {
			if e >= 0 {
				uncovered[e] = false
			}
		}
	}
	more, err := decompose(ctx, d.only(uncovered))
	if err != nil {
		return nil, err
	}
	for i, column := range more.column {
		out.addColumns(column, more.weight[i])
	}
	out.refine()
	return out, nil
}

// carried returns how much of each entry the permutations carry, which may exceed the
// demand.
func (c *cover) carried() []float64 {
	sums := make([]float64, len(c.d.to))
	for i, entries := range c.entry {
		for _, e := range entries {
			if e >= 0 {
				sums[e] += c.weight[i]
			}
		}
	}
	return sums
}

// covers reports whether the permutations carry all demand.
func (c *cover) covers() bool {
	for e, x := range c.carried() {
		if x < c.d.amount[e]*(1-tolerance) {
			return false
		}
	}
	return true
}

// refine raises the weights one after the other until the permutations cover D
// (Alg. 2). It lowers a weight that exceeds the need of its entries.
func (c *cover) refine() {
	carried := c.carried()
	for i, entries := range c.entry {
		short := math.Inf(-1)
		for _, e := range entries {
			if e >= 0 {
				short = max(short, c.d.amount[e]-carried[e])
			}
		}

		short = max(short, -c.weight[i])
		c.weight[i] += short
		for _, e := range entries {
			if e >= 0 {
				carried[e] += short
			}
		}
	}
}

// worth is the total load of a plan that splits no permutation.
func (c *cover) worth(δ float64) float64 { return sum(c.weight) + δ*float64(len(c.weight)) }

// prune removes the permutations without weight.
func (c *cover) prune() {
	kept := 0
	for i, α := range c.weight {
		if α > 0 {
			c.weight[kept], c.column[kept], c.entry[kept] = α, c.column[i], c.entry[i]
			kept++
		}
	}
	c.weight, c.column, c.entry = c.weight[:kept], c.column[:kept], c.entry[:kept]
}
