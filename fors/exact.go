package fors

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// PlanExact plans the complete exchange in as few phases as the tree allows, for any leaf
// populations and any pattern of living lanes: lanes first, phases second, servers last.
// Each step but the first is an edge colouring of a regular bipartite multigraph, which
// cannot fail (König).
//
// Theorem. Let leaf A have n_A servers. Φ ≥ P−1 phases suffice if and only if integers
// y[A][B][k] ≥ 0 exist, on lanes k up at both leaves, with Σ_k y = n_A·n_B, Σ_B y ≤ Φ and
// Σ_A y ≤ Φ. Necessity is counting. For sufficiency, the spread finds them; phases, senders
// and receivers make the plan.
//
// Pairs without a usable common lane are left out and listed. The number of phases is the
// lower bound of ComputeBounds unless no spread was found for it: then the true bound is
// higher, or the search was too short. With several exchanges, each leaf in one of them, the
// same holds for d[A][B] = n_A·n_B within an exchange and 0 between them. PlanExact fails with
// ErrNotApplicable if a leaf is in several. It fails if the tree is inconsistent, and if
// a living lane is closed to a server of its leaf, because the leaf's senders would not be
// interchangeable. Soon after ctx ends it fails with ctx.Err().
func PlanExact(ctx context.Context, t *Tree) (*Plan, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	if t.Mixed() {
		return nil, ErrNotApplicable
	}
	return planExact(ctx, t, ComputeBounds(t), runtime.GOMAXPROCS(0))
}

func planExact(ctx context.Context, t *Tree, b Bounds, workers int) (*Plan, error) {
	if err := t.checkOpen(); err != nil {
		return nil, err
	}
	n := newNet(t)
	y, phases, bound, err := n.spread(ctx, b.LowerBound)
	if err != nil {
		return nil, err
	}
	if bound > b.LowerBound {
		b.LowerBound, b.Certificate = bound, ByLP
	}
	plan, err := n.timetable(ctx, t.Servers(), phases, y, workers)
	if err != nil {
		return nil, err
	}
	plan.dropEmpty()
	plan.Bounds = b
	plan.Unreachable = n.unreachable()
	return plan, nil
}

// checkOpen returns an error if a living lane is closed to a server of its leaf.
func (t *Tree) checkOpen() error {
	if t.Closed == nil {
		return nil
	}
	d := Server(0)
	for leaf, slots := range t.Slots {
		for range slots {
			for k, up := range t.Up[leaf] {
				if up && t.Closed(d, Lane(k)) {
					return fmt.Errorf("plan exactly: lane %d is closed to server %d of leaf %d; give it an LID for each lane", k, d, leaf)
				}
			}
			d++
		}
	}
	return nil
}

// net is a tree without its leaves that have no servers.
type net struct {
	leaves, lanes int
	size          []int    // [leaf] n_A
	base          []Server // [leaf] its first server
	units         []int    // [leaf] senders whose transfers the spread counts: n_A, or its groups (groups.go)
	up            []bool   // [leaf·lanes + lane]
	exchange      []int    // [leaf] that of its servers; nil if there is one of all
	common        []int    // [A·leaves + B] lanes up at both, 0 for A = B and in different exchanges
	remote        []int    // [leaf] servers of other leaves that it exchanges with
}

func newNet(t *Tree) *net {
	n := &net{lanes: t.Lanes}
	at := Server(0)
	for leaf, slots := range t.Slots {
		if len(slots) > 0 {
			n.size, n.base = append(n.size, len(slots)), append(n.base, at)
			if t.Exchange != nil {
				n.exchange = append(n.exchange, t.Exchange[at])
			}
			n.up = append(n.up, t.Up[leaf]...)
		}
		at += Server(len(slots))
	}
	n.leaves, n.units = len(n.size), n.size
	n.common = make([]int, n.leaves*n.leaves)
	n.remote = make([]int, n.leaves)
	for A := range n.leaves {
		for B := range n.leaves {
			if A == B || !n.sameExchange(A, B) {
				continue
			}
			if c := commonLanes(n.lanesOf(A), n.lanesOf(B)); c > 0 {
				n.common[A*n.leaves+B] = c
				n.remote[A] += n.size[B]
			}
		}
	}
	return n
}

// lanesOf returns the lanes that are up at a leaf.
func (n *net) lanesOf(A int) []bool { return n.up[A*n.lanes : (A+1)*n.lanes] }

// sameExchange reports whether two leaves are in the same exchange.
func (n *net) sameExchange(A, B int) bool { return n.exchange == nil || n.exchange[A] == n.exchange[B] }

// parties returns the leaves of each exchange, in order of their first leaves.
func (n *net) parties() (parties [][]int) {
	for A := range n.leaves {
		i := slices.IndexFunc(parties, func(p []int) bool { return n.sameExchange(p[0], A) })
		if i < 0 {
			i, parties = len(parties), append(parties, nil)
		}
		parties[i] = append(parties[i], A)
	}
	return parties
}

// joined reports whether the servers of A send to those of B.
func (n *net) joined(A, B int) bool { return A == B || n.common[A*n.leaves+B] > 0 }

// out returns the number of inter-leaf transfers of leaf A, which receives as many if
// senders are servers.
func (n *net) out(A int) int { return n.units[A] * n.remote[A] }

// unreachable lists the pairs of servers of one exchange that no lane joins, in order.
func (n *net) unreachable() []Pair {
	var pairs []Pair
	for A := range n.leaves {
		for s := n.base[A]; s < n.base[A]+Server(n.size[A]); s++ {
			for B := range n.leaves {
				if n.joined(A, B) || !n.sameExchange(A, B) {
					continue
				}
				for d := n.base[B]; d < n.base[B]+Server(n.size[B]); d++ {
					pairs = append(pairs, Pair{s, d})
				}
			}
		}
	}
	return pairs
}

// commonLanes counts the lanes that are up at two leaves.
func commonLanes(a, b []bool) int {
	n := 0
	for k, up := range a {
		if up && b[k] {
			n++
		}
	}
	return n
}
