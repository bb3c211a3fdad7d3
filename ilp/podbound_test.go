//go:build lpsolve

package ilp

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/pods"
)

// regularPods is a tree with p pods of L leaves with n servers, M planes, U lanes a plane.
func regularPods(p, L, M, U, n int) *pods.Tree {
	t := &pods.Tree{Pods: p, Up: slicesOf(p * M * U)}
	for j := range M + 1 {
		t.First = append(t.First, j*U)
	}
	for l := range p * L {
		leaf := pods.Leaf{Pod: l / L, Up: slicesOf(M)}
		for a := range n {
			leaf.Slots = append(leaf.Slots, a)
		}
		t.Leaves = append(t.Leaves, leaf)
	}
	return t
}

func slicesOf(n int) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = true
	}
	return out
}

// TestPodBound compares the joint programme with the bounds of leaves and pods, which it
// includes, and with plans, which it never exceeds. In some trees with failures of both
// kinds it exceeds the former.
func TestPodBound(t *testing.T) {
	draws, above := 15, 0
	if os.Getenv("FORS_LONG") != "" {
		draws = 100
	}
	for _, k := range []int{4, 6} {
		rng := rand.New(rand.NewPCG(uint64(k), 8))
		for i := range draws + 5 {
			tree := regularPods(k, k/2, k/2, k/2, k/2)
			for range 1 + rng.IntN(2*k) {
				tree.Leaves[rng.IntN(len(tree.Leaves))].Up[rng.IntN(tree.Planes())] = false
			}
			for range 1 + rng.IntN(2*k) {
				tree.Up[rng.IntN(len(tree.Up))] = false
			}
			got, err := podBound(tree)
			if err != nil {
				t.Fatal(err)
			}
			b := pods.ComputeBounds(tree)
			if b.Certificate != fors.ByServers && got < b.LowerBound {
				t.Errorf("k=%d, draw %d: the programme proves %d, %s alone %d", k, i, got, b.Certificate, b.LowerBound)
			}
			if proved := pods.PriceBound(context.Background(), tree, 1); proved > got || 200*proved < 199*got {
				t.Errorf("k=%d, draw %d: prices prove %d, the programme %d", k, i, proved, got)
			}
			if got <= b.LowerBound {
				continue
			}
			above++
			p, err := pods.Make(context.Background(), tree, pods.Singles)
			if err != nil || p.Phases() < got {
				t.Errorf("k=%d, draw %d: the programme proves %d, a plan has %d: %v", k, i, got, p.Phases(), err)
			}
		}
	}
	if above == 0 {
		t.Error("the programme is above leaves and pods in no draw")
	}
}

// TestPodSpreads checks the bound of small trees against its definition: the least Φ for
// which a spread of integers exists, or N−1, for patterns of up to three dead cables, all
// of them with FORS_LONG=1.
func TestPodSpreads(t *testing.T) {
	step := 61
	if os.Getenv("FORS_LONG") != "" {
		step = 1
	}
	for _, shape := range [][5]int{{2, 2, 2, 2, 2}, {4, 2, 2, 2, 2}} {
		whole := regularPods(shape[0], shape[1], shape[2], shape[3], shape[4])
		leafCables := len(whole.Leaves) * whole.Planes()
		n, at := leafCables+len(whole.Up), 0
		for x := range n * n * n {
			dead := []int{x / n / n, x / n % n, x % n}
			if dead[0] > dead[1] || dead[1] > dead[2] || dead[0] == dead[1] && dead[1] != dead[2] {
				continue
			}
			if at++; at%step != 0 {
				continue
			}
			tree := regularPods(shape[0], shape[1], shape[2], shape[3], shape[4])
			for _, i := range dead {
				if i < leafCables {
					tree.Leaves[i/whole.Planes()].Up[i%whole.Planes()] = false
				} else {
					tree.Up[i-leafCables] = false
				}
			}
			p := newPodNet(tree).program()
			p.integer = true
			for i := range p.rows {
				p.rows[i].rhs = float64(int(p.rows[i].rhs)) // without slack: transfers are whole
			}
			Φ, err := least(p)
			if err != nil {
				t.Fatalf("%v, dead %v: %v", shape, dead, err)
			}
			b := pods.ComputeBounds(tree)
			spread := int(Φ + 0.5)
			if spread > b.LowerBound || b.Certificate != fors.ByServers && spread != b.LowerBound {
				t.Errorf("%v, dead %v: a spread needs %d phases, the bound by %s is %d", shape, dead, spread, b.Certificate, b.LowerBound)
			}
		}
	}
}
