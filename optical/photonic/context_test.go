package photonic

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/asked"
)

var bg = context.Background()

// TestContext ends the context of plans, baselines and reports early and late: they
// fail with its error, stop soon, and give the same result when run again.
func TestContext(t *testing.T) {
	sizes := make([]int64, 8*8)
	for i := range sizes {
		if i/8 != i%8 {
			sizes[i] = int64(1 + i*i%97)
		}
	}
	for _, k := range []int{1, 2, 3} {
		in := one(8, k, 5)
		endEarly(t, in, 5)
		in.Sizes = sizes
		endEarly(t, in, 30)
	}
}

// endEarly ends planning, which must poll the context a number of times.
func endEarly(t *testing.T, in *Instance, fewest int) {
	t.Helper()
	works := map[string]func(context.Context) (any, error){
		"baselines": func(ctx context.Context) (any, error) { return Baselines(ctx, in) },
		"plan": func(ctx context.Context) (any, error) {
			return Make(ctx, in, Options{Relabel: true})
		},
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

// TestBestSoFar ends planning early and late: the plan so far is valid and costs no less
// than that of a complete search. Halfway there is a plan.
func TestBestSoFar(t *testing.T) {
	sizes := make([]int64, 8*8)
	for i := range sizes {
		if i/8 != i%8 {
			sizes[i] = int64(1 + i*i%97)
		}
	}
	for i, in := range []*Instance{one(8, 1, 5), one(8, 2, 5), one(8, 1, 5), one(8, 2, 5)} {
		if i >= 2 {
			in.Sizes = sizes
		}
		o := Options{Relabel: true}
		all := &asked.Context{Context: bg, Most: 1 << 40}
		final, err := Make(all, in, o)
		if err != nil {
			t.Fatal(err)
		}
		for part := range 6 {
			ctx := &asked.Context{Context: bg, Most: all.Asked() * part / 6}
			p, err := Make(ctx, in, o)
			switch {
			case !errors.Is(err, asked.ErrEnough):
				t.Errorf("instance %d, %d of 6: %v", i, part, err)
			case p == nil && part > 3:
				t.Errorf("instance %d, %d of 6: no plan", i, part)
			case p != nil && p.Cost < final.Cost:
				t.Errorf("instance %d, %d of 6: cost %d, and %d in the end", i, part, p.Cost, final.Cost)
			case p != nil:
				if _, err := Replay(bg, in, p); err != nil {
					t.Error(err)
				}
			}
		}
		late, cancel := context.WithDeadline(bg, time.Now())
		if p, err := Make(late, in, o); p != nil && err != nil {
			t.Errorf("instance %d: a deadline is said to be a failure: %v", i, err)
		}
		cancel()
	}
}

// TestLongerIsNeverCostlier ends planning later and later: no plan costs more than an
// earlier one, and once there is a plan there always is.
func TestLongerIsNeverCostlier(t *testing.T) {
	sizes := make([]int64, 8*8)
	for i := range sizes {
		if i/8 != i%8 {
			sizes[i] = int64(1 + i*i%97*(1+i%5*40))
		}
	}
	for i, in := range []*Instance{one(9, 1, 5), one(9, 2, 5), one(8, 1, 0.5), one(8, 2, 0.5), one(8, 3, 50)} {
		if i >= 2 {
			in.Sizes = sizes
		}
		o := Options{Relabel: true}
		all := &asked.Context{Context: bg, Most: 1 << 40}
		if _, err := Make(all, in, o); err != nil {
			t.Fatal(err)
		}
		last := Time(0)
		step := max(1, all.Asked()/150)
		for most := 0; most <= all.Asked(); most += step {
			p, _ := Make(&asked.Context{Context: bg, Most: most}, in, o)
			if p == nil && last > 0 || p != nil && last > 0 && p.Cost > last {
				t.Errorf("instance %d, ended after %d of %d: plan %v, after a cost of %v", i, most, all.Asked(), p != nil, last)
			}
			if p != nil {
				last = p.Cost
			}
		}
	}
}
