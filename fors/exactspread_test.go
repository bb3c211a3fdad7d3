package fors

import (
	"math/rand/v2"
	"testing"
)

// TestSearchEnds gives the search for a spread no work, little and more: it ends
// with one in any case, with fewer phases the more it may do.
func TestSearchEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 9))
	over := 0
	for range 100 {
		tree := randomTree(rng)
		n, least := newNet(tree), ComputeBounds(tree).LowerBound
		before := 0
		for _, work := range []int{-1, 2000, searchWork} {
			y, phases, bound, err := n.search(bg, least, work)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkSpread(tree, y, phases); err != "" {
				t.Fatalf("work %d: %s: %v", work, err, tree)
			}
			if bound < least || bound > phases {
				t.Fatalf("work %d: bound %d for %d phases, least %d: %v", work, bound, phases, least, tree)
			}
			if work < 0 {
				over += phases - bound
			} else if phases > before {
				t.Errorf("work %d: %d phases, and %d with less work: %v", work, phases, before, tree)
			}
			before = phases
		}
	}
	if over == 0 {
		t.Error("no fabric needs a search, and the test is of no use")
	}
}

// checkSpread describes the first fault in a spread of a tree whose leaves all have servers,
// by the theorem's definition. It returns "" for a correct spread.
func checkSpread(t *Tree, y []int32, phases int) string {
	L, K := len(t.Slots), t.Lanes
	out, in := make([]int, L*K), make([]int, L*K)
	for A := range L {
		for B := range L {
			sum, common := 0, 0
			for k := range K {
				x := int(y[(A*L+B)*K+k])
				sum += x
				out[A*K+k] += x
				in[B*K+k] += x
				if t.Up[A][k] && t.Up[B][k] {
					common++
				} else if x != 0 {
					return "transfers on a lane that is down"
				}
			}
			want := len(t.Slots[A]) * len(t.Slots[B])
			if A == B || common == 0 {
				want = 0
			}
			if sum != want {
				return "transfers of two leaves are missing or too many"
			}
		}
	}
	for i := range out {
		if max(out[i], in[i]) > phases {
			return "a link carries more than one transfer a phase"
		}
	}
	return ""
}
