package bipartite

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forsd/forsd/testbed/asked"
)

// TestStop ends both kinds of work at each poll of the context, and then runs them
// again: the scratch memory left is as good as fresh.
func TestStop(t *testing.T) {
	const n = 9
	rng := rand.New(rand.NewPCG(1, 0))
	x := make([]int64, n*n)
	for at := range x {
		x[at] = rng.Int64N(1000)
	}
	stages := func(ctx context.Context, d *Decomposer) ([]int32, error) {
		_, match, err := d.Decompose(ctx, n, x)
		return match, err
	}
	padded, degree := Pad(n, x, 0)
	arcs := ArcsOf(n, padded, nil)
	colours := func(ctx context.Context, c *Colourer) ([]int32, error) {
		match := make([]int32, n*int(degree))
		return match, c.Arcs(ctx, n, int(degree), arcs, match)
	}
	var d Decomposer
	stopped(t, "Decompose", func(ctx context.Context) ([]int32, error) { return stages(ctx, &d) })
	for _, workers := range []int{1, 3} {
		c := Colourer{Workers: workers}
		stopped(t, "Arcs", func(ctx context.Context) ([]int32, error) { return colours(ctx, &c) })
	}
}

// stopped stops work at its 1st, 2nd, … poll.
func stopped(t *testing.T, name string, work func(context.Context) ([]int32, error)) {
	t.Helper()
	fresh, err := work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fresh = slices.Clone(fresh)
	for most := 0; ; most++ {
		ctx := &asked.Context{Context: t.Context(), Most: most}
		again, err := work(ctx)
		if err == nil {
			if ctx.Asked() > most || most < 5 || !slices.Equal(again, fresh) {
				t.Errorf("%s asks %d times, and was stopped at %d; its result is the same: %v", name, ctx.Asked(), most, slices.Equal(again, fresh))
			}
			return
		}
		if !errors.Is(err, asked.ErrEnough) || ctx.Asked() <= most {
			t.Fatalf("%s, stopped after %d: %v", name, most, err)
		}
	}
}
