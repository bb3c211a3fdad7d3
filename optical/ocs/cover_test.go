package ocs

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"
)

var bg = context.Background()

// TestExchange checks the exchanger after each pair: rows and columns agree, carried is
// correct, all demand is carried, and the sum of the weights never rises.
func TestExchange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDemand(t)
		c, err := decompose(bg, d)
		if err != nil {
			t.Fatal(err)
		}
		x := newExchanger(c, 7)
		δ := rapid.Float64Range(0, 1).Draw(t, "delta") * x.dust * 1e12
		for range 50 {
			k := len(x.weight)
			if k < 2 {
				return
			}
			before, cost := sum(x.weight), sum(x.weight)+δ*float64(k)
			if rapid.IntRange(0, 9).Draw(t, "step") == 0 {
				x.overflow(δ)
				if after := sum(x.weight) + δ*float64(len(x.weight)); after > cost*(1+1e-9) {
					t.Fatalf("another permutation, and weights and delays sum to %v, before %v", after, cost)
				}
			} else {
				a := rapid.IntRange(0, k-2).Draw(t, "a")
				x.pair(a, rapid.IntRange(a+1, k-1).Draw(t, "b"))
				if after := sum(x.weight); after > before*(1+1e-9) {
					t.Fatalf("the weights sum to %v, before %v", after, before)
				}
			}
			checkExchanger(t, x)
		}
	})
}

func checkExchanger(t *rapid.T, x *exchanger) {
	carried := make([]float64, len(x.d.to))
	for i := range x.weight {
		inRows, inCols := 0, 0
		for r, e := range x.row[i] {
			if e < 0 {
				continue
			}
			inRows++
			carried[e] += x.weight[i]
			if int(x.d.from[e]) != r || x.col[i][x.d.to[e]] != e {
				t.Fatalf("permutation %d: entry %d stands in row %d and not in its column", i, e, r)
			}
		}
		for _, e := range x.col[i] {
			if e >= 0 {
				inCols++
			}
		}
		if inRows != inCols {
			t.Fatalf("permutation %d has %d entries by rows and %d by columns", i, inRows, inCols)
		}
	}
	for e, want := range x.d.amount {
		if carried[e] < want*(1-1e-9) || math.Abs(carried[e]-x.carried[e]) > 1e-9*max(want, carried[e]) {
			t.Fatalf("entry %d: %v of %v is carried, said to be %v", e, carried[e], want, x.carried[e])
		}
	}
}

// TestRefineLP proves the weights of the linear programme optimal: its dual has a
// solution of the same value.
func TestRefineLP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDemand(t)
		c, err := decompose(bg, d)
		if err != nil {
			t.Fatal(err)
		}
		greedy := sum(c.weight)
		entries := c.entry
		tab := newTableau(c)
		if err := tab.solve(bg); err != nil {
			t.Fatal(err)
		}
		if err := c.refineLP(bg); err != nil {
			t.Fatal(err)
		}
		got := sum(c.weight)
		if got > greedy*(1+1e-9) {
			t.Fatalf("the weights sum to %v, greedy ones to %v", got, greedy)
		}
		y := make([]float64, len(tab.cost))
		for i, row := range tab.rows {
			y[tab.basis[i]] = row[len(row)-1]
		}
		value := 0.0
		for e, x := range d.amount {
			if y[e] < -1e-9 {
				t.Fatalf("y is %v for entry %d", y[e], e)
			}
			value += x * y[e]
		}
		for i := range entries {
			used := 0.0
			for _, e := range entries[i] {
				if e >= 0 {
					used += y[e]
				}
			}
			if used > 1+1e-9 {
				t.Fatalf("permutation %d: y sums to %v", i, used)
			}
		}
		if math.Abs(value-got) > 1e-7*got {
			t.Fatalf("the weights sum to %v, the dual's value is %v", got, value)
		}
	})
}

// TestTheorem2IsAtLeastTheorem1 checks the remark after the paper's theorem 2: it is above
// theorem 1 if the entries differ.
func TestTheorem2IsAtLeastTheorem1(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.IntRange(2, 6).Draw(t, "switches")
		x := make([]float64, s)
		most := 10.0
		for i := range x {
			most = rapid.Float64Range(0.01, most).Draw(t, "entry")
			x[i] = most
		}
		δ := rapid.Float64Range(0, 3).Draw(t, "delta")
		one, two := theorem1(x, s, δ), theorem2(x, s, δ)
		if two < one*(1-1e-12) || δ > 1e-6 && x[0] > x[s-1]+1e-6 && two <= one {
			t.Fatalf("theorem 2 gives %v, theorem 1 %v", two, one)
		}
		if b := sharp([][]float64{x}, s, δ, one); b < two*(1-1e-8) {
			t.Fatalf("counting configurations gives %v, theorem 2 %v", b, two)
		}
	})
}
