package pods

import (
	"context"
	"math/rand/v2"
	"testing"
)

// TestHalved plans trees of leaves with more planes than servers, in cells of odd and even numbers of
// leaves.
func TestHalved(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for i := range draws(2, 20) {
		tree := regular(10, 16, 8, 16, 6)
		for a := range tree.Leaves {
			tree.Leaves[a].Slots = tree.Leaves[a].Slots[:6-rng.IntN(8)/6]
		}
		hurt(tree, rng, 1+rng.IntN(4), rng.IntN(4), 0, 0)
		p := planned(t, tree, WholeLeaves)
		if p.Engine != Pods || p.Blocks > len(tree.Leaves)+1 {
			t.Errorf("draw %d: engine %s, %d blocks for %d leaves, bound %d", i, p.Engine, p.Blocks, len(tree.Leaves), p.LowerBound)
		}
	}
}

// TestHalve splits random units, and counts the halves of planes, blocks and keys.
func TestHalve(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	for i := range draws(200, 5000) {
		tree := regular(3, 4, 5, 4, 3)
		x := newInstance(tree, 3, 1)
		x.blocks = int32(2 + rng.IntN(6))
		w := &seater{instance: x, u: &units{}}
		var all []int32
		for range rng.IntN(200) {
			w.u.add(int32(rng.IntN(int(x.blocks))), int16(rng.IntN(tree.Lanes()+tree.Planes())), int16(rng.IntN(3)), int16(rng.IntN(3)))
			all = append(all, int32(len(all)))
		}
		end := w.halve(all, inward)
		count := map[[3]int32][2]int{} // of planes of blocks, blocks, planes of keys, keys
		for at, u := range all {
			block, plane, key := w.u.block[u], w.plane(u), w.key(u, inward, false)
			for _, set := range [][3]int32{{0, block, plane}, {1, block, 0}, {2, key, plane}, {3, key, 0}} {
				n := count[set]
				if at < end {
					n[0]++
				} else {
					n[1]++
				}
				count[set] = n
			}
		}
		for set, n := range count {
			if n[0]-n[1] > 1 || n[1]-n[0] > 1 {
				t.Fatalf("draw %d: of set %v %d go to one half and %d to the other", i, set, n[0], n[1])
			}
		}
	}
}

// BenchmarkHalved plans a tree whose leaves have more planes than servers.
func BenchmarkHalved(b *testing.B) {
	tree := regular(10, 16, 8, 16, 6)
	tree.Leaves[0].Up[0] = false
	for b.Loop() {
		if _, err := MakeBlocks(context.Background(), tree, WholeLeaves); err != nil {
			b.Fatal(err)
		}
	}
}
