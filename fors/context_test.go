package fors

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/asked"
)

// TestContext ends the contexts of all engines early, late and in between. Each
// fails soon and with the context's error, and plans the same when asked again.
func TestContext(t *testing.T) {
	healthy, hurt := fullTree(8, 8), randomFailures(fullTree(8, 8), 9, 1)
	dear := evenTree(3, 4, 5) // see TestLPBound: prices prove its bound
	for leaf, mask := range []int{28, 26, 19, 7} {
		for k := range 5 {
			dear.Up[leaf][k] = mask>>k&1 != 0
		}
	}
	oneLeaf := fullTree(8, 8)
	oneLeaf.cutCables(0, 1, 2)
	pairs, rest := halves(must(PlanExact(bg, healthy)), 20)
	plan := func(p *Plan, err error) (any, error) { return p, err }
	for _, c := range []struct {
		name   string
		fewest int // times that it asks
		work   func(context.Context) (any, error)
	}{
		{"shift", 60, func(ctx context.Context) (any, error) { return plan(PlanShift(ctx, healthy)) }},
		{"algorithm", 60, func(ctx context.Context) (any, error) { return plan(PlanAlgorithm(ctx, oneLeaf)) }},
		{"rotation", 60, func(ctx context.Context) (any, error) { return plan(PlanRotation(ctx, hurt)) }},
		{"conservative", 60, func(ctx context.Context) (any, error) { return plan(PlanConservative(ctx, hurt)) }},
		{"exact", 20, func(ctx context.Context) (any, error) { return plan(PlanExact(ctx, hurt)) }},
		{"exact, by prices", 20, func(ctx context.Context) (any, error) { return plan(PlanExact(ctx, dear)) }},
		{"make", 60, func(ctx context.Context) (any, error) { return plan(Make(ctx, oneLeaf)) }},
		{"groups", 20, func(ctx context.Context) (any, error) { return PlanGroups(ctx, hurt, 2) }},
		{"groups of one", 20, func(ctx context.Context) (any, error) { return PlanGroups(ctx, hurt, 8) }},
		{"remaining", 40, func(ctx context.Context) (any, error) { return Remaining(ctx, hurt, pairs, rest) }},
		{"pairs", 40, func(ctx context.Context) (any, error) { return Remaining(ctx, hurt, pairs, nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := c.work(bg)
			if err != nil {
				t.Fatal(err)
			}
			all := &asked.Context{Context: bg, Most: 1 << 40}
			got, err := c.work(all)
			if err != nil || all.Asked() < c.fewest {
				t.Errorf("asks %d times, want at least %d: %v", all.Asked(), c.fewest, err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("plans differ by the context: %s", d)
			}
			rng := rand.New(rand.NewPCG(1, 0))
			for i := range 60 {
				most := min(i, all.Asked()-1)
				if i >= 20 {
					most = rng.IntN(all.Asked())
				}
				ctx := &asked.Context{Context: bg, Most: most}
				// Workers ask once more each, and errors on their way out are looked at.
				if _, err := c.work(ctx); !errors.Is(err, asked.ErrEnough) || ctx.Asked() > most+100 {
					t.Fatalf("ended after %d of %d, asks %d times and says %v", most, all.Asked(), ctx.Asked(), err)
				}
			}
		})
	}
}
