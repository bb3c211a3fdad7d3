//go:build lpsolve

package ilp

import (
	"fmt"
	"math"
	"slices"

	"github.com/forsd/forsd/pods"
)

// podBound returns the least number of phases in which the transfers of the complete
// exchange can pass all cables if they may be split. For cells of identical leaves a, b it
// seeks the least Φ with y[a][b][j] ≥ 0 on the planes that join them, Σ_j y the transfers
// from a to b, and z[p][q][k] ≥ 0 for pods p ≠ q on lanes that are live at both, Σ_k z over
// the lanes of a plane at least Σ y, such that no cable carries more than Φ.
func podBound(t *pods.Tree) (phases int, err error) {
	q := newPodNet(t)
	Φ, err := least(q.program())
	if err != nil {
		return 0, fmt.Errorf("bound the phases of %d cells of leaves: %w", len(q.cells), err)
	}
	return int(math.Ceil(Φ * (1 - 2*slack))), nil
}

// podNet is the exchange of a tree of three levels in cells.
type podNet struct {
	*pods.Tree
	cells []podCell
	flows []podFlow
	cols  int
}

// podCell is a set of leaves of a pod with the same planes and as many servers.
type podCell struct {
	pod, leaves, servers int
	up                   []bool
}

// podFlow is the transfers from a cell to another, or among the leaves of one.
type podFlow struct {
	from, to, transfers int
	planes, cols        []int // that join them; the column of each
}

func newPodNet(t *pods.Tree) *podNet {
	q := &podNet{Tree: t, cols: 1}
	for i := range t.Leaves {
		l := &t.Leaves[i]
		at := slices.IndexFunc(q.cells, func(c podCell) bool {
			return c.pod == l.Pod && c.servers == len(l.Slots) && slices.Equal(c.up, l.Up)
		})
		if at < 0 {
			at = len(q.cells)
			q.cells = append(q.cells, podCell{pod: l.Pod, servers: len(l.Slots), up: l.Up})
		}
		q.cells[at].leaves++
	}
	for a := range q.cells {
		for b := range q.cells {
			A, B := &q.cells[a], &q.cells[b]
			f := podFlow{from: a, to: b, transfers: A.leaves * A.servers * B.leaves * B.servers}
			if a == b {
				f.transfers = A.leaves * (A.leaves - 1) * A.servers * A.servers
			}
			for j := range t.Planes() {
				if A.up[j] && B.up[j] && (A.pod == B.pod || len(q.lanes(A.pod, B.pod, j)) > 0) {
					f.planes = append(f.planes, j)
				}
			}
			if f.transfers == 0 || len(f.planes) == 0 {
				continue
			}
			for range f.planes {
				f.cols = append(f.cols, q.cols)
				q.cols++
			}
			q.flows = append(q.flows, f)
		}
	}
	return q
}

// lanes lists the lanes of a plane that are live at two pods.
func (q *podNet) lanes(a, b, plane int) (out []int) {
	for k := q.First[plane]; k < q.First[plane+1]; k++ {
		if q.Up[a*q.Lanes()+k] && q.Up[b*q.Lanes()+k] {
			out = append(out, k)
		}
	}
	return out
}

// The capacity rows come first: of cells out and in by plane, of pods out and in by lane.
func (q *podNet) leafRow(side, cell, plane int) int {
	return (side*len(q.cells)+cell)*q.Planes() + plane
}

func (q *podNet) topRow(side, pod, lane int) int {
	return 2*len(q.cells)*q.Planes() + (side*q.Pods+pod)*q.Lanes() + lane
}

func (q *podNet) capacities() int { return 2*len(q.cells)*q.Planes() + 2*q.Pods*q.Lanes() }

// program states the programme with Φ as column 0.
func (q *podNet) program() *program {
	p := &program{rows: make([]row, q.capacities())}
	for i := range p.rows {
		p.rows[i] = row{cols: []int{0}, coef: []float64{-1}, sense: atMost}
		if cell := i / q.Planes() % len(q.cells); i < 2*len(q.cells)*q.Planes() {
			p.rows[i].coef[0] = -float64(q.cells[cell].leaves)
		}
	}
	between := make([][]int, q.Pods*q.Pods*q.Planes()) // columns
	for _, f := range q.flows {
		for i, j := range f.planes {
			p.rows[q.leafRow(0, f.from, j)].add(f.cols[i], 1)
			p.rows[q.leafRow(1, f.to, j)].add(f.cols[i], 1)
			if from, to := q.cells[f.from].pod, q.cells[f.to].pod; from != to {
				at := (from*q.Pods+to)*q.Planes() + j
				between[at] = append(between[at], f.cols[i])
			}
		}
		p.rows = append(p.rows, row{cols: f.cols, sense: atLeast, rhs: float64(f.transfers) * (1 + slack*share(len(p.rows)))})
	}
	cols := q.cols
	for at, from := range between {
		if len(from) == 0 {
			continue
		}
		a, b, j := at/q.Planes()/q.Pods, at/q.Planes()%q.Pods, at%q.Planes()
		passes := row{sense: atMost}
		for _, col := range from {
			passes.add(col, 1)
		}
		for _, k := range q.lanes(a, b, j) {
			p.rows[q.topRow(0, a, k)].add(cols, 1)
			p.rows[q.topRow(1, b, k)].add(cols, 1)
			passes.add(cols, -1)
			cols++
		}
		p.rows = append(p.rows, passes)
	}
	p.upper = make([]float64, cols)
	for i := range p.upper {
		p.upper[i] = math.Inf(1)
	}
	return p
}

// slack is the largest perturbation of the demands for lp_solve. Without it, the
// programme is so degenerate that lp_solve stalls: on FT(2;20,18) with 40 dead links
// it does not finish in 30 s, and with the slack it takes 0.06 s.
const slack = 1.0 / (1 << 20)

func (r *row) add(col, coef int) {
	r.cols, r.coef = append(r.cols, col), append(r.coef, float64(coef))
}
