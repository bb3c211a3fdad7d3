//go:build lpsolve

package ilp

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/forsd/forsd/fors"
)

// TestNaiveModel runs lp_solve on the paper's programme (section 5.2) as published, with
// a binary variable for each transfer and lane, for one phase of 3F SW0,5,11 on
// FT(2;20,18): 306 transfers, 6120 variables. On a 2-core virtual machine lp_solve does
// not finish within the minute of the long version; if it does, its result must be a
// routing.
func TestNaiveModel(t *testing.T) {
	tree := cut(ft(20, 18, 20), 3, 0, 5, 11)
	pairs := remote(t, tree)[100]
	p := naive(tree, pairs)
	if len(pairs) != 306 || len(p.upper) != 6120 {
		t.Fatalf("%d transfers, %d variables; want 306, 6120", len(pairs), len(p.upper))
	}
	if os.Getenv("FORS_LONG") == "" {
		t.Log("not solved: with FORS_LONG=1 lp_solve gets a minute for it")
		return
	}
	start := time.Now()
	s, err := run(context.Background(), p, time.Minute)
	if errors.Is(err, ErrTimeLimit) {
		t.Log(err)
		return
	}
	if err != nil || s.outcome != solved {
		t.Fatalf("outcome %d, %v", s.outcome, err)
	}
	t.Logf("solved in %v", time.Since(start))
	lanes := make([]fors.Lane, len(pairs))
	for i := range lanes {
		for k := range tree.Lanes {
			if s.values[i*tree.Lanes+k] > 0.5 {
				lanes[i] = fors.Lane(k)
			}
		}
	}
	if err := checkRoute(tree, pairs, lanes); err != nil {
		t.Error(err)
	}
}

// naive is section 5.2's programme for a phase: v(s, d, sp) at transfer·lanes + lane, 0
// if the lane is down at either end.
func naive(t *fors.Tree, pairs []fors.Pair) *program {
	leaf := leafOf(t)
	p := &program{integer: true}
	one := make([]row, len(pairs))            // of the lanes of a transfer
	links := make([]row, 2*len(t.Up)*t.Lanes) // at most one transfer out of and into each leaf by a lane
	for i, pair := range pairs {
		A, B := leaf[pair.Src], leaf[pair.Dst]
		one[i] = row{sense: equal, rhs: 1}
		for k := range t.Lanes {
			col, upper := len(p.upper), 0.0
			if t.Up[A][k] && t.Up[B][k] {
				upper = 1
			}
			p.upper = append(p.upper, upper)
			one[i].cols = append(one[i].cols, col)
			for _, link := range []int{A*t.Lanes + k, (len(t.Up)+B)*t.Lanes + k} {
				links[link].cols, links[link].sense, links[link].rhs = append(links[link].cols, col), atMost, 1
			}
		}
	}
	p.rows = one
	for _, link := range links {
		if len(link.cols) > 0 {
			p.rows = append(p.rows, link)
		}
	}
	return p
}
