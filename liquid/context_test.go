package liquid

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/testbed/asked"
)

// TestContext cancels every method early, late and in between: each fails soon with the
// context's error, any result returned with it is a schedule, and running it again gives
// the same.
func TestContext(t *testing.T) {
	n := testBed(t)
	traffic := exchange(t, n, n.Capacity())
	rng := rand.New(rand.NewPCG(2, 0))
	for _, method := range Methods {
		o := Options{Method: method, Nodes: 20000, Moves: 2000}
		all := &asked.Context{Context: t.Context(), Most: 1 << 40}
		want, err := Make(all, traffic, o)
		if err != nil || all.Asked() < 4 {
			t.Fatalf("%s asks %d times: %v", method, all.Asked(), err)
		}
		for i := range 30 {
			most := min(i, all.Asked()-1)
			if i >= 10 {
				most = rng.IntN(all.Asked())
			}
			ctx := &asked.Context{Context: t.Context(), Most: most}
			r, err := Make(ctx, traffic, o)
			if !errors.Is(err, asked.ErrEnough) || ctx.Asked() > most+100 {
				t.Fatalf("%s, cancelled after %d of %d, asks %d times and says %v", method, most, all.Asked(), ctx.Asked(), err)
			}
			if r != nil {
				if err := Verify(traffic, r.Schedule); err != nil {
					t.Errorf("%s, cancelled after %d: %v", method, most, err)
				}
			}
		}
		again, err := Make(t.Context(), traffic, o)
		if d := cmp.Diff(want, again); err != nil || d != "" {
			t.Errorf("%s, made again: %v %s", method, err, d)
		}
	}
}
