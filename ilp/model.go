package ilp

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/forsd/forsd/fors"
)

// model is the paper's model of a phase in groups and classes: column (g, c) counts
// the transfers of group g on lanes of class c. An edge colouring of each class then
// gives the paper's v(s, d, sp).
//
// The class that is open to every group, if any, has no columns. The transfers that
// the other classes leave fit on it if and only if no end keeps more of them than it
// has lanes (König), so an end must put its excess of transfers over those lanes
// elsewhere. A group without an excess at either end stays on that class.
type model struct {
	program
	group, class []int // [column]
	rest         int   // index of the class without columns, or −1
}

func (ph *phase) model() *model {
	m := &model{rest: -1}
	m.integer = true
	if last := len(ph.classes) - 1; last >= 0 && ph.classes[last].all {
		m.rest = last
	}
	excess := m.excess(ph)
	byGroup, byEnd := make([][]int, len(ph.groups)), make([][]int, len(ph.ends))
	for c, class := range ph.classes {
		if c == m.rest {
			continue
		}
		inClass := make([][]int, len(ph.ends))
		for g, open := range class.open {
			from, to := ph.groups[g].from, ph.leaves+ph.groups[g].to
			if !open || excess[from] == 0 && excess[to] == 0 {
				continue
			}
			col := len(m.upper)
			m.group, m.class = append(m.group, g), append(m.class, c)
			m.upper = append(m.upper, float64(min(len(ph.groups[g].transfers), len(class.lanes))))
			byGroup[g] = append(byGroup[g], col)
			for _, end := range []int{from, to} {
				byEnd[end], inClass[end] = append(byEnd[end], col), append(inClass[end], col)
			}
		}
		for _, cols := range inClass {
			if m.most(cols) > len(class.lanes) {
				m.sum(cols, atMost, len(class.lanes))
			}
		}
	}
	m.demand(ph, excess, byGroup, byEnd)
	return m
}

// excess returns, for each end, its transfers in excess of the lanes of the class
// without columns.
func (m *model) excess(ph *phase) []int {
	lanes := 0
	if m.rest >= 0 {
		lanes = len(ph.classes[m.rest].lanes)
	}
	excess := make([]int, len(ph.ends))
	for end := range ph.ends {
		excess[end] = max(0, ph.degree(end)-lanes)
	}
	return excess
}

// most is the largest sum that columns can have by their bounds.
func (m *model) most(cols []int) int {
	n := 0
	for _, col := range cols {
		n += int(m.upper[col])
	}
	return n
}

// demand adds the rows that route every transfer.
func (m *model) demand(ph *phase, excess []int, byGroup, byEnd [][]int) {
	for g, cols := range byGroup {
		n := len(ph.groups[g].transfers)
		if m.rest < 0 {
			m.sum(cols, equal, n)
		} else if m.most(cols) > n {
			m.sum(cols, atMost, n)
		}
	}
	if m.rest < 0 {
		return
	}
	for end, cols := range byEnd {
		if excess[end] > 0 {
			m.sum(cols, atLeast, excess[end])
		}
	}
}

// solve routes the phase by lp_solve. It returns no lanes and no error if the model has
// no solution.
func (ph *phase) solve(ctx context.Context, limit time.Duration) ([][]fors.Lane, error) {
	m := ph.model()
	if m.empty {
		return nil, nil
	}
	count := make([][]int, len(ph.classes)) // [class][group]
	for c := range count {
		count[c] = make([]int, len(ph.groups))
	}
	rest := make([]int, len(ph.groups))
	for g := range rest {
		rest[g] = len(ph.groups[g].transfers)
	}
	if len(m.rows) > 0 {
		s, err := run(ctx, &m.program, limit)
		if err != nil || s.outcome == infeasible {
			return nil, err
		}
		for col, y := range s.values {
			n := int(math.Round(y))
			count[m.class[col]][m.group[col]] = max(0, n)
			rest[m.group[col]] -= max(0, n)
		}
	}
	if m.rest >= 0 {
		count[m.rest] = rest
	}
	byGroup := make([][]fors.Lane, len(ph.groups))
	for c, class := range ph.classes {
		if !ph.expand(class, func(g int) int { return count[c][g] }, byGroup) {
			return nil, fmt.Errorf("lp_solve's solution puts more transfers of a leaf on lanes %v than there are of them", class.lanes)
		}
	}
	for g := range byGroup {
		if want := len(ph.groups[g].transfers); len(byGroup[g]) != want {
			return nil, fmt.Errorf("lp_solve's solution routes %d of %d transfers from leaf %d to leaf %d",
				len(byGroup[g]), want, ph.groups[g].from, ph.groups[g].to)
		}
	}
	return byGroup, nil
}
