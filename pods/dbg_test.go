package pods

import (
	"context"
	"math/rand/v2"
	"testing"
)

func TestDbg(t *testing.T) {
	for _, k := range []int{4, 6} {
		rng := rand.New(rand.NewPCG(uint64(k), 4))
		for i := range 20 {
			tree := kAry(k)
			d := 1 + rng.IntN(2*k)
			hurt(tree, rng, d/2+1, d/2+1, 0, 0)
			b := ComputeBounds(tree)
			x := newInstance(tree, 1, 1)
			l := x.leastBlocks(b)
			for n := l; ; n++ {
				x.blocks = int32(n)
				x.setCells()
				_, err := x.inBlocks(context.Background())
				if err == nil {
					t.Log(k, i, d, "bound", b, "least", l, "found", n, x.partial)
					break
				}
				t.Log(n, err)
			}
		}
	}
}
