package planner

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestMakeFrom fails parts of FT(2;20,18), with a memory and without. It limits the share of
// pairs on different leaves, in percent, whose destination LID changes, while the plan has as
// many phases as the bound. Parts that return get their previous LIDs back.
func TestMakeFrom(t *testing.T) {
	whole := tree(t, fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5})
	const pairs = 360 * 340
	plan := func(damaged ...[2]int) *Result {
		hurt := *whole
		for _, c := range damaged {
			held(&hurt, c[0], c[1])
		}
		r, err := Make(bg, &hurt, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	healthy := plan()
	old, err := phasetable.New(healthy.Table(1))
	if err != nil {
		t.Fatal(err)
	}
	var nine, spine [][2]int
	rng := rand.New(rand.NewPCG(9, 2021)) // those of make demo
	for len(nine) < 9 {
		nine = append(nine, [2]int{rng.IntN(18), rng.IntN(20)})
	}
	for leaf := range 18 {
		spine = append(spine, [2]int{leaf, 12})
	}
	for _, c := range []struct {
		name  string
		dead  [][2]int
		most  float64
		bound int
	}{
		{"nothing", nil, 0, 359},
		{"a cable", [][2]int{{7, 10}}, 0.56, 359},
		{"a spine", spine, 5, 359},
		{"the nine of make demo", nine, 5, 378},
	} {
		hurt := *whole
		for _, x := range c.dead {
			held(&hurt, x[0], x[1])
		}
		r, err := MakeFrom(bg, &hurt, Settings{}, old)
		if err != nil {
			t.Fatal(err)
		}
		changed := *r.Report().PairsChanged
		percent := 100 * float64(changed) / pairs
		if r.Plan.Phases != c.bound || r.Plan.Gap() != 0 || percent > c.most {
			t.Errorf("%s: %s, %d phases, bound %d; %.2f %% of the pairs change, want at most %.2f", c.name, r.Plan.Engine, r.Plan.Phases, r.Plan.LowerBound, percent, c.most)
		}
		if again := plan(c.dead...); !bytes.Equal(encode(t, again), encode(t, r)) {
			t.Errorf("%s: another plan than without the old one", c.name)
		}
		view, err := phasetable.New(r.Table(2))
		if err != nil {
			t.Fatal(err)
		}
		back, err := MakeFrom(bg, whole, Settings{}, view)
		if err != nil {
			t.Fatal(err)
		}
		if *back.changed != changed || !bytes.Equal(encode(t, back), encode(t, healthy)) {
			t.Errorf("%s: when it is back, %d pairs change and not %d, or the plan is not that of before", c.name, *back.changed, changed)
		}
		t.Logf("%s: %d phases, %d pairs change, %.2f %%", c.name, r.Plan.Phases, changed, percent)
	}
}

func encode(t *testing.T, r *Result) []byte {
	t.Helper()
	data, err := phasetable.Encode(r.Table(0))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestMakeFromExact starts from plans of the exact planner, which chooses new lanes for each
// damage. Few pairs change if the old phases are kept.
func TestMakeFromExact(t *testing.T) {
	whole := tree(t, fabgen.Spec{Spines: 6, Leaves: 5, LMC: 3})
	hurt := *whole
	held(&hurt, 2, 3)
	before, err := Make(bg, &hurt, Settings{Engine: "exact"})
	if err != nil {
		t.Fatal(err)
	}
	old, err := phasetable.New(before.Table(1))
	if err != nil {
		t.Fatal(err)
	}
	held(&hurt, 4, 0)
	anew, err := Make(bg, &hurt, Settings{Engine: "exact"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := anew.changesFrom(old)
	if err != nil {
		t.Fatal(err)
	}
	r, err := MakeFrom(bg, &hurt, Settings{Engine: "exact"}, old)
	if err != nil {
		t.Fatal(err)
	}
	if *r.changed > all/2 || r.Plan.Phases > anew.Plan.Phases || r.Plan.Engine != fors.Exact {
		t.Errorf("%d pairs change in %d phases; planned anew %d in %d", *r.changed, r.Plan.Phases, all, anew.Plan.Phases)
	}
	if err := r.Check(r.Tables); err != nil {
		t.Error(err)
	}
}
