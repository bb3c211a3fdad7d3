package planner

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/testbed/asked"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestContext ends the context of everything that plans early, late and in between:
// each fails soon, with the context's error.
func TestContext(t *testing.T) {
	ft := tree(t, fabgen.Spec{Spines: 6, Leaves: 5, LMC: 3}, 2)
	few := tree(t, fabgen.Spec{Spines: 6, Leaves: 5, LMC: 1}, 2)
	r, err := Make(bg, ft, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	onFew, err := Make(bg, few, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	old := viewOf(t, r)
	works := map[string]func(context.Context) error{
		"remaining": func(ctx context.Context) error { _, err := Remaining(ctx, ft, old, 5); return err },
		"job": func(ctx context.Context) error {
			_, err := PlanJob(ctx, ft, every(ft, 2), Settings{}, r.Tables)
			return err
		},
		"job on groups": func(ctx context.Context) error {
			_, err := PlanJob(ctx, few, every(few, 2), Settings{}, onFew.Tables)
			return err
		},
		"groups": func(ctx context.Context) error { _, err := Make(ctx, few, Settings{}); return err },
		"closed": func(ctx context.Context) error { _, err := Make(ctx, few, Settings{LIDs: LaneLIDs}); return err },
		"memory": func(ctx context.Context) error { _, err := Plan(ctx, ft, Settings{Memory: new(Memory)}); return err },
	}
	for _, engine := range []string{Auto, string(fors.Algorithm), string(fors.Exact)} {
		works[engine] = func(ctx context.Context) error { _, err := Make(ctx, ft, Settings{Engine: engine}); return err }
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for name, work := range works {
		all := &asked.Context{Context: bg, Most: 1 << 40}
		if err := work(all); err != nil || all.Asked() < 10 {
			t.Errorf("%s asks %d times: %v", name, all.Asked(), err)
			continue
		}
		for i := range 40 {
			most := min(i, all.Asked()-1)
			if i >= 20 {
				most = rng.IntN(all.Asked())
			}
			ctx := &asked.Context{Context: bg, Most: most}
			if err := work(ctx); !errors.Is(err, asked.ErrEnough) || ctx.Asked() > most+60 {
				t.Fatalf("%s, ended after %d of %d, asks %d times and says %v", name, most, all.Asked(), ctx.Asked(), err)
			}
		}
	}
}
