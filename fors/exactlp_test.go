package fors

import (
	"math"
	"math/rand/v2"
	"testing"
)

// lpBound is a lower bound on the phases of an exchange from the joint linear
// programme over lanes. Any weights w ≥ 0 on the links with Σ w = 1 prove one:
// Φ ≥ Σ_{A<B} 2·n_A·n_B·min_k (w[A][k] + w[B][k]) / 2, for a link counts the
// same outward and inward. Good weights come from the simplex method, and the
// bound is evaluated from its definition.
func lpBound(t *Tree) int {
	var p simplex
	links := len(t.Up) * t.Lanes
	w := func(A, k int) int { return A*t.Lanes + k }
	var demand []float64
	for A := range t.Up {
		for B := range A {
			if commonLanes(t.Up[A], t.Up[B]) > 0 {
				demand = append(demand, float64(len(t.Slots[A])*len(t.Slots[B])))
			}
		}
	}
	// Maximise Σ demand·z with z ≤ w[A][k] + w[B][k] and Σ w ≤ 1.
	p.begin(links+len(demand), demand)
	one := make([]float64, links)
	for i := range one {
		one[i] = 1
	}
	p.row(one, -1, 1)
	z := 0
	for A := range t.Up {
		for B := range A {
			if commonLanes(t.Up[A], t.Up[B]) == 0 {
				continue
			}
			for k := range t.Lanes {
				if t.Up[A][k] && t.Up[B][k] {
					row := make([]float64, links)
					row[w(A, k)], row[w(B, k)] = -1, -1
					p.row(row, links+z, 0)
				}
			}
			z++
		}
	}
	x := p.solve()
	total, value := 0.0, 0.0
	for _, weight := range x[:links] {
		total += weight
	}
	z = 0
	for A := range t.Up {
		for B := range A {
			least := math.Inf(1)
			for k := range t.Lanes {
				if t.Up[A][k] && t.Up[B][k] {
					least = min(least, x[w(A, k)]+x[w(B, k)])
				}
			}
			if !math.IsInf(least, 1) {
				value += demand[z] * least
				z++
			}
		}
	}
	if total == 0 {
		return 0
	}
	return int(math.Ceil(value/total - 1e-6))
}

// simplex maximises a linear function of x ≥ 0 under rows · x ≤ b, b ≥ 0. The
// right sides are perturbed, lest it cycles.
type simplex struct {
	columns int
	cost    []float64
	rows    [][]float64 // coefficients, then b
	basis   []int
	rng     *rand.Rand
}

// begin sets the number of variables and the costs of the last of them.
func (p *simplex) begin(columns int, cost []float64) {
	p.columns, p.rng = columns, rand.New(rand.NewPCG(3, 4))
	p.cost = append(make([]float64, columns-len(cost)), cost...)
}

// row adds a constraint: some first coefficients, 1 at one more place unless it
// is −1, and the right side.
func (p *simplex) row(first []float64, at int, b float64) {
	row := append(append([]float64{}, first...), make([]float64, p.columns-len(first)+1)...)
	if at >= 0 {
		row[at] = 1
	}
	row[p.columns] = b + 1e-7*(1+p.rng.Float64())
	p.rows = append(p.rows, row)
}

// solve returns the best x found. Slack variables are numbered from columns on;
// a column of the tableau holds whichever variable is not in the basis.
func (p *simplex) solve() []float64 {
	out := make([]int, p.columns)
	for j := range out {
		out[j] = j
	}
	for i := range p.rows {
		p.basis = append(p.basis, p.columns+i)
	}
	cost := append(append([]float64{}, p.cost...), 0)
	for range 20000 {
		enter := 0
		for j := range p.columns {
			if cost[j] > cost[enter] {
				enter = j
			}
		}
		leave := -1
		for i, row := range p.rows {
			if row[enter] > 1e-9 && (leave < 0 || row[p.columns]/row[enter] < p.rows[leave][p.columns]/p.rows[leave][enter]) {
				leave = i
			}
		}
		if cost[enter] <= 1e-9 || leave < 0 {
			break
		}
		p.pivot(leave, enter, cost)
		p.basis[leave], out[enter] = out[enter], p.basis[leave]
	}
	x := make([]float64, p.columns)
	for i, v := range p.basis {
		if v < p.columns {
			x[v] = max(0, p.rows[i][p.columns])
		}
	}
	return x
}

func (p *simplex) pivot(leave, enter int, cost []float64) {
	row := p.rows[leave]
	by := 1 / row[enter]
	row[enter] = 1
	for j := range row {
		row[j] *= by
	}
	for i, other := range append(p.rows, cost) {
		if i == leave || other[enter] == 0 {
			continue
		}
		x := other[enter]
		other[enter] = 0
		for j := range other {
			other[j] -= x * row[j]
		}
	}
}

// TestLPBound has a fabric whose leaves allow 11 phases and whose lanes together
// need 14: four leaves of three servers, up-masks 28, 26, 19, 7 of five lanes.
func TestLPBound(t *testing.T) {
	tree := evenTree(3, 4, 5)
	for leaf, mask := range []int{28, 26, 19, 7} {
		for k := range 5 {
			tree.Up[leaf][k] = mask>>k&1 != 0
		}
	}
	if b := lpBound(tree); b != 14 {
		t.Errorf("bound by the linear programme %d, want 14 (13.5)", b)
	}
	p, err := PlanExact(bg, tree)
	if err != nil {
		t.Fatal(err)
	}
	mustCheck(t, tree, p)
	if p.Phases != 14 || p.LowerBound != 14 || p.Certificate != ByLP {
		t.Errorf("%d phases, bound %d by %s; want 14, 14 by lp", p.Phases, p.LowerBound, p.Certificate)
	}
}
