package gpu

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/asked"
)

// TestContext ends the context of plans, of stages alone and of replays at each time
// that they ask. They ask often, fail at once, and do as well when made again.
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

// endAll ends a context at the 1st, 2nd, … asking, until work comes to its end.
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
		// An error on its way out may meet those who ask before they judge it.
		if !errors.Is(err, asked.ErrEnough) || ctx.Asked() > most+2 {
			t.Fatalf("%s, ended after %d, asks %d times and says %v", name, most, ctx.Asked(), err)
		}
	}
}
