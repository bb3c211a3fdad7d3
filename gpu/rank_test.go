package gpu

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A rank that plans for itself gets the same program as from the plan of all ranks.
func TestOwn(t *testing.T) {
	var p, q Planner
	rapid.Check(t, func(t *rapid.T) {
		traffic, o := anyTraffic(t), anyOptions(t)
		if o.Mode, o.Grain = Bytes, 0; o.MaxStage == 1<<16 && traffic.Bound() > 1<<24 {
			o.MaxStage = 0
		}
		plan := must(p.Plan(t.Context(), traffic, o))
		programs := must(plan.Programs(t.Context()))
		for r := range programs {
			own, err := q.Own(t.Context(), traffic, Rank(r), o)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&Own{programs[r], lengths(plan)}, own, equateEmpty); d != "" {
				t.Fatalf("rank %d (−of all +own): %s", r, d)
			}
		}
	})
}

// The same on sites, with any number of groups.
func TestOwnOfASite(t *testing.T) {
	var p, q Planner
	rapid.Check(t, func(t *rapid.T) {
		s := anySite(t)
		places := must(s.Places(rapid.Int64Range(1, mostParts).Draw(t, "parts")))
		traffic, err := s.Traffic(places, siteBytes(t, s, places))
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Mode: Bytes, Fewest: rapid.Bool().Draw(t, "fewest"), Groups: rapid.IntRange(0, 4).Draw(t, "groups"), MaxStretch: rapid.SampledFrom([]float64{0, 1.05, 2}).Draw(t, "stretch")}
		plan := must(p.Plan(t.Context(), traffic, o))
		programs := must(plan.Programs(t.Context()))
		for r := range programs {
			own := must(q.Own(t.Context(), traffic, Rank(r), o))
			if d := cmp.Diff(&Own{programs[r], lengths(plan)}, own, equateEmpty); d != "" {
				t.Fatalf("rank %d (−of all +own): %s", r, d)
			}
		}
		if o.Groups == 0 && o.MaxStretch == 0 && plan.Length > plan.Bound+int64(len(s.Servers)) {
			t.Fatalf("length %d, and the bound is %d", plan.Length, plan.Bound)
		}
	})
}

var equateEmpty = cmp.FilterValues(func(x, y []int64) bool { return len(x) == 0 && len(y) == 0 }, cmp.Ignore())

func TestOwnRefuses(t *testing.T) {
	traffic := uniform(Cluster{2, 2}, 1)
	var p Planner
	for rank, o := range map[Rank]Options{-1: {Mode: Bytes}, 4: {Mode: Bytes}, 1: {}, 2: {Mode: Rails}, 3: {Mode: Bytes, Grain: -1}} {
		if _, err := p.Own(t.Context(), traffic, rank, o); err == nil {
			t.Errorf("rank %d, %+v: no error", rank, o)
		}
	}
}

// A budget that is used up immediately gives a valid plan that reports it; without a budget,
// all alternatives are tried. No plan takes less than the least time, and every rank can plan
// with the result of Choose.
func TestChoose(t *testing.T) {
	for _, c := range []Cluster{{8, 8}, {16, 4}} {
		for _, budget := range []time.Duration{0, 1, time.Hour} {
			traffic := uniform(c, 1)
			var p Planner
			o, seconds, outlook, err := p.Choose(t.Context(), traffic, Options{Budget: budget})
			if err != nil {
				t.Fatal(err)
			}
			if o.Mode != Bytes || outlook.Complete == (budget == 1) || seconds < outlook.Least || !outlook.Complete && seconds == outlook.Least || outlook.Least < float64(traffic.Bound())/DefaultModel.B2 {
				t.Errorf("budget %v: %+v, %v s, %+v", budget, o, seconds, outlook)
			}
			plan := must(p.Plan(t.Context(), traffic, Options{Budget: budget}))
			if err := Verify(t.Context(), traffic, plan); err != nil {
				t.Fatal(err)
			}
			if total := DefaultModel.Predict(plan).Total; plan.Outlook.Complete == (budget == 1) || total < plan.Outlook.Least {
				t.Errorf("budget %v: the plan takes %v s, %+v", budget, total, plan.Outlook)
			}
			own := must(p.Own(t.Context(), traffic, 5, o))
			if d := cmp.Diff(must(must(p.Plan(t.Context(), traffic, o)).Programs(t.Context()))[5], own.Program); d != "" {
				t.Errorf("budget %v (−of all +own): %s", budget, d)
			}
		}
	}
	var p Planner
	if _, _, _, err := p.Choose(t.Context(), uniform(Cluster{2, 2}, 1), Options{Budget: -1}); err == nil {
		t.Error("a budget below nothing is taken")
	}
}

// BenchmarkOwn plans the complete program of one rank.
func BenchmarkOwn(b *testing.B) {
	for _, c := range []Cluster{{8, 8}, {32, 8}, {128, 8}} {
		for _, o := range []Options{{Mode: Bytes}, {Mode: Bytes, MaxStretch: 1.05}} {
			b.Run(fmt.Sprintf("ranks=%d/stretch=%v", c.Ranks(), o.MaxStretch), func(b *testing.B) {
				traffic := uniform(c, 1)
				b.ReportAllocs()
				var p Planner
				for b.Loop() {
					if _, err := p.Own(b.Context(), traffic, 3, o); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
