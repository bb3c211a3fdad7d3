package ocs

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/asked"
)

// TestContext ends the context of every method early, late and in between: each fails
// soon with the context's error, and makes the same schedule if run again.
func TestContext(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	const n = 12
	entries := make([]float64, n*n)
	for i := range entries {
		if i/n != i%n && rng.IntN(3) > 0 {
			entries[i] = rng.Float64()
		}
	}
	d, err := NewDemand(n, entries)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{
		{Method: Fast}, {Method: Fast, LP: true}, {Method: Eclipse}, {Method: Eclipse, Levels: 4}, {Method: Best, Steps: 2000},
	} {
		o.Switches, o.Delta = 3, 0.02
		all := &asked.Context{Context: bg, Most: 1 << 40}
		want, err := Make(all, d, o)
		if err != nil || all.Asked() < 10 {
			t.Fatalf("%s asks %d times: %v", o.Method, all.Asked(), err)
		}
		for i := range 40 {
			most := min(i, all.Asked()-1)
			if i >= 15 {
				most = rng.IntN(all.Asked())
			}
			ctx := &asked.Context{Context: bg, Most: most}
			if _, err := Make(ctx, d, o); !errors.Is(err, asked.ErrEnough) || ctx.Asked() > most+12 {
				t.Fatalf("%s, ended after %d of %d, asks %d times and says %v", o.Method, most, all.Asked(), ctx.Asked(), err)
			}
		}
		again, err := Make(context.Background(), d, o)
		if diff := cmp.Diff(want, again); err != nil || diff != "" {
			t.Errorf("%s, made again: %v %s", o.Method, err, diff)
		}
	}
}
