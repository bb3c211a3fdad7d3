package fors

import (
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// These tests hold the statements of docs/planner.md that no other test holds.

// drawServed draws a random tree with at least one server, and a random source.
func drawServed(rt *rapid.T, stream uint64) (*Tree, *rand.Rand) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "tree"), stream))
	tree := randomTree(rng)
	if rapid.Bool().Draw(rt, "thin") {
		populate(tree, rng)
	}
	if tree.Servers() == 0 {
		rt.Skip("no server")
	}
	return tree, rng
}

// TestCap checks that in every phase as many transfers enter a leaf as leave it,
// and at most c_A = ⌈e_A/Φ⌉, e_A being the leaf's inter-leaf transfers.
func TestCap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree, _ := drawServed(rt, 5)
		p, err := PlanExact(bg, tree)
		if err != nil {
			rt.Fatal(err)
		}
		leafOf := leavesOf(tree)
		leaves := len(tree.Slots)
		total := make([]int, leaves) // e_A
		out, in := make([][]int, p.Phases), make([][]int, p.Phases)
		for ph := range p.Phases {
			out[ph], in[ph] = make([]int, leaves), make([]int, leaves)
			to, _ := p.Row(Phase(ph))
			for s, d := range to {
				if d != Idle && leafOf[s] != leafOf[d] {
					out[ph][leafOf[s]]++
					in[ph][leafOf[d]]++
					total[leafOf[s]]++
				}
			}
		}
		for ph := range p.Phases {
			for A := range leaves {
				if c_A := up(total[A], p.Phases); out[ph][A] != in[ph][A] || out[ph][A] > c_A {
					rt.Fatalf("phase %d of %d, leaf %d: %d out, %d in, at most %d wanted: %v", ph, p.Phases, A, out[ph][A], in[ph][A], c_A, tree)
				}
			}
		}
	})
}

// TestTwoLinks proves by counting that the fabric with up-masks 28, 26, 19, 7
// needs 14 phases: 27 transfers leave leaf 1 by lane 1 or enter leaf 2 by lane 4,
// whatever the plan. Each leaf for itself needs 9.
func TestTwoLinks(t *testing.T) {
	masks := []int{28, 26, 19, 7}
	confined := 0
	for A, a := range masks {
		for B, b := range masks {
			usesOne := A != B
			for k := range 5 {
				if a&b>>k&1 != 0 && (A != 1 || k != 1) && (B != 2 || k != 4) {
					usesOne = false
				}
			}
			if usesOne {
				confined += 3 * 3
			}
		}
	}
	if confined != 27 {
		t.Errorf("%d transfers use one of the two links, want 27", confined)
	}
	tree := evenTree(3, 4, 5)
	for leaf, mask := range masks {
		for k := range 5 {
			tree.Up[leaf][k] = mask>>k&1 != 0
		}
	}
	if b := newDemands(tree).leafBound(0); b != 9 {
		t.Errorf("leaf bound %d, want 9", b)
	}
}

// TestWorkedExample reads the plan of the example in docs/planner.md, which must
// be a complete exchange on its fabric, in as many phases as the planner takes.
func TestWorkedExample(t *testing.T) {
	text, err := os.ReadFile("../docs/planner.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- plan of the example -->\n")
	if !found {
		t.Fatal("docs/planner.md has no plan of the example")
	}
	tree := evenTree(2, 3, 2)
	tree.cutCables(0, 1)
	p := NewPlan(Exact, 6, 8)
	transfer := regexp.MustCompile(`(\d)→(\d)(?: \((\d)\))?`)
	for ph := range p.Phases {
		line, after, _ := strings.Cut(rest, "\n")
		rest = after
		if !strings.HasPrefix(line, "    phase "+strconv.Itoa(ph)+" ") {
			t.Fatalf("line %q, want phase %d", line, ph)
		}
		to, lane := p.Row(Phase(ph))
		for _, m := range transfer.FindAllStringSubmatch(line, -1) {
			s := m[1][0] - '0'
			to[s] = Server(m[2][0] - '0')
			if m[3] != "" {
				lane[s] = Lane(m[3][0] - '0')
			}
		}
	}
	p.Bounds = ComputeBounds(tree)
	mustCheck(t, tree, p)
	exact, err := PlanExact(bg, tree)
	if err != nil {
		t.Fatal(err)
	}
	if exact.Phases != p.Phases || p.LowerBound != p.Phases {
		t.Errorf("%d phases planned, bound %d, %d in the document", exact.Phases, p.LowerBound, p.Phases)
	}
}
