package gpu

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/asked"
)

// TestContext ends the context of plans, of stages and of replays at each poll. They poll
// often, fail immediately, and give the same result when run again.
func TestContext(t *testing.T) {
	traffic := uniform(Cluster{6, 4}, 1)
	for at := range traffic.Bytes {
		traffic.Bytes[at] %= 50
	}
	var p Planner
	for _, mode := range Modes {
		endAll(t, "mode "+string(mode), 12, func(ctx context.Context) (any, error) { return p.Plan(ctx, traffic, Options{Mode: mode}) })
	}
	endAll(t, "stages", 12, func(ctx context.Context) (any, error) {
		lengths, _, err := p.ServerStages(ctx, traffic, Options{MaxStretch: 1.1})
		return len(lengths), err
	})
	plan, err := p.Plan(t.Context(), traffic, Options{Mode: Rails})
	if err != nil {
		t.Fatal(err)
	}
	endAll(t, "replay", 12, func(ctx context.Context) (any, error) { return nil, Verify(ctx, traffic, plan) })
}

// endAll ends a context at the 1st, 2nd, … poll, until work completes.
func endAll(t *testing.T, name string, fewest int, work func(context.Context) (any, error)) {
	t.Helper()
	want, err := work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for most := 0; ; most++ {
		ctx := &asked.Context{Context: t.Context(), Most: most}
		got, err := work(ctx)
		if err == nil {
			if ctx.Asked() > most || most < fewest {
				t.Errorf("%s asks %d times, want at least %d, and was to end at %d", name, ctx.Asked(), fewest, most)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, made again: %s", name, d)
			}
			return
		}
		// An error may be followed by a few more polls before it is returned.
		if !errors.Is(err, asked.ErrEnough) || ctx.Asked() > most+2 {
			t.Fatalf("%s, ended after %d, asks %d times and says %v", name, most, ctx.Asked(), err)
		}
	}
}

// If the context of mode Auto ends after the first plan, the best plan so far comes with the
// error: it is valid and not marked complete. The last one takes about as long as the best of
// a complete run.
func TestBestUntilThen(t *testing.T) {
	traffic := uniform(Cluster{6, 4}, 1)
	var p Planner
	best := DefaultModel.Predict(must(p.Plan(t.Context(), traffic, Options{}))).Total
	cut, last := 0, 0.0
	for most := 0; ; most++ {
		plan, err := p.Plan(&asked.Context{Context: t.Context(), Most: most}, traffic, Options{})
		if err == nil {
			break
		}
		if plan == nil {
			if cut > 0 {
				t.Fatalf("ended after %d polls: no plan, after earlier ones", most)
			}
			continue
		}
		if err := Verify(t.Context(), traffic, plan); err != nil {
			t.Fatal(err)
		}
		total := DefaultModel.Predict(plan).Total
		if plan.Outlook == nil || plan.Outlook.Complete || total < plan.Outlook.Least {
			t.Fatalf("ended after %d polls: %v s, the best %v s, %+v", most, total, best, plan.Outlook)
		}
		cut, last = cut+1, total
	}
	if cut < 10 || last > 1.1*best {
		t.Errorf("%d plans came before the end, the last of %v s, the best takes %v s", cut, last, best)
	}
}
