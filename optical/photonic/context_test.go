package photonic

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/asked"
)

var bg = context.Background()

// TestContext ends the context of plans, baselines and reports early and late: they
// fail with its error, ask hardly more, and are the same when made again.
func TestContext(t *testing.T) {
	sizes := make([]int64, 8*8)
	for i := range sizes {
		if i/8 != i%8 {
			sizes[i] = int64(1 + i*i%97)
		}
	}
	for _, k := range []int{1, 2, 3} {
		in := one(8, k, 5)
		endEarly(t, in, []Method{Paper, Greedy, Carry, Auto}, 5)
		in.Sizes = sizes
		endEarly(t, in, []Method{Paper, Greedy, Carry, Auto}, 30)
	}
}

// endEarly ends planning by all methods, which ask some times at least.
func endEarly(t *testing.T, in *Instance, methods []Method, fewest int) {
	t.Helper()
	works := map[string]func(context.Context) (any, error){
		"baselines": func(ctx context.Context) (any, error) { return Baselines(ctx, in) },
	}
	for _, m := range methods {
		works[string(m)] = func(ctx context.Context) (any, error) {
			return Make(ctx, in, Options{Method: m, Relabel: true})
		}
	}
	for name, work := range works {
		all := &asked.Context{Context: t.Context(), Most: 1 << 40}
		want, err := work(all)
		if err != nil {
			t.Fatal(err)
		}
		if name != "baselines" && all.Asked() < fewest {
			t.Errorf("%s, degree %d: asks %d times, want at least %d", name, in.Degree, all.Asked(), fewest)
		}
		for _, most := range slices.Compact([]int{0, 1, all.Asked() / 3, all.Asked() / 2, all.Asked() - 1}) {
			ctx := &asked.Context{Context: t.Context(), Most: most}
			if _, err := work(ctx); !errors.Is(err, asked.ErrEnough) || ctx.Asked() > most+3 {
				t.Errorf("%s, degree %d: ended at %d of %d, it asks %d times and says %v", name, in.Degree, most, all.Asked(), ctx.Asked(), err)
			}
		}
		again, err := work(t.Context())
		if d := cmp.Diff(want, again); err != nil || d != "" {
			t.Errorf("%s, degree %d, made again: %v %s", name, in.Degree, err, d)
		}
	}
}
