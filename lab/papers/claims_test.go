package papers

import (
	"fmt"
	"math/big"
	"slices"
	"testing"
)

// TestSearchSpace evaluates section 2.3's size of the search space, Σ (n!)^d·d^(n(n−1)) for
// n = 8. The paper states 4.1·10⁷⁹.
func TestSearchSpace(t *testing.T) {
	sum, topologies := new(big.Int), new(big.Int).MulRange(1, 8)
	for d := int64(1); d < 8; d++ {
		x := new(big.Int).Exp(topologies, big.NewInt(d), nil)
		sum.Add(sum, x.Mul(x, new(big.Int).Exp(big.NewInt(d), big.NewInt(8*7), nil)))
	}
	if got := fmt.Sprintf("%.2g", new(big.Float).SetInt(sum)); got != "3.7e+79" {
		t.Errorf("the search space has %s elements, want 3.7e+79", got)
	}
}

// TestFigure9 checks the printed base of Fig. 9: it is the generalised Kautz graph, in which GPUs
// 3 and 6 are joined to themselves, and of the 56 messages 14 go one hop, 22 two and 20 three.
func TestFigure9(t *testing.T) {
	printed := [][]int32{{8, 7}, {6, 5}, {4, 3}, {2, 1}, {8, 7}, {6, 5}, {4, 3}, {2, 1}}
	next := kautzLinks(8, 2)
	for u, to := range printed {
		if next[2*u]+1 != to[0] || next[2*u+1]+1 != to[1] {
			t.Errorf("GPU %d is joined to %d and %d, want %v", u+1, next[2*u]+1, next[2*u+1]+1, to)
		}
	}
	var hops [4]int
	for _, path := range next.shortest(8, 2) {
		hops[len(path)]++
	}
	if hops != [4]int{8, 14, 22, 20} {
		t.Errorf("%v messages of 0, 1, … hops, want 8 (to themselves), 14, 22, 20", hops)
	}
}

// TestFigure10: of the cycles of Figs. 6a and 10a, "none of the rounds can be removed entirely".
// Every round but the last has a message whose only shortest way it is. All of round 7 of
// either go another way, or no further there.
func TestFigure10(t *testing.T) {
	cycles := [2][]int{{1, 3, 4, 7, 2, 8, 5, 6}, {1, 2, 3, 4, 5, 6, 7, 8}}
	hops := func(cycle []int, u, v int) int {
		return (slices.Index(cycle, v) - slices.Index(cycle, u) + 8) % 8
	}
	var shorter [2][8]int // [cycle][round] messages with fewer hops on it than on the other
	for u := 1; u <= 8; u++ {
		for v := 1; v <= 8; v++ {
			if a, b := hops(cycles[0], u, v), hops(cycles[1], u, v); a < b {
				shorter[0][a]++
			} else if b < a {
				shorter[1][b]++
			}
		}
	}
	if want := [2][8]int{{0, 6, 7, 7, 4, 1, 1, 0}, {0, 6, 7, 3, 4, 5, 1, 0}}; shorter != want {
		t.Errorf("%v messages have fewer hops than on the other cycle, want %v", shorter, want)
	}
}

// TestContraction: "the cost will reduce at least by the number of hops in the contracted round"
// (section 4.3). The messages of the round still take one hop: eight GPUs of degree 2 take 9T,
// and 7T after a round of 3 hops is contracted. With twelve, contracting a round of two saves
// nothing.
func TestContraction(t *testing.T) {
	for _, c := range []struct {
		gpus, topologies, hops int // of the contracted round
		before, after          float64
	}{{8, 1, 3, 9, 7}, {12, 4, 2, 9, 9}} {
		before, after := rounds(t, unit(c.gpus, 2, 0), c.topologies), rounds(t, unit(c.gpus, 2, 0), c.topologies+1)
		most := 0
		for _, r := range before.Rounds {
			most = max(most, r.Hops)
		}
		if before.HopSum != c.before || after.HopSum != c.after || most != c.hops {
			t.Errorf("%d GPUs: %v, and %v after a round of %d hops is contracted; want %v, %v, %d", c.gpus, before.HopSum, after.HopSum, most, c.before, c.after, c.hops)
		}
	}
}
