package cables

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
)

// planned returns the plan of FT(2;6,6), with cables failed.
func planned(t *testing.T, fail ...string) *phasetable.View {
	t.Helper()
	tree := fabgen.Fitted(t, fabgen.Generate(fabgen.Spec{Spines: 6, Leaves: 6, LMC: 3}), fabgen.Fails(t, fail...))
	r, err := planner.Make(context.Background(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := phasetable.New(r.Table(1))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// words is the number of words of a transfer.
const words = 1 << 20

// exchanged returns the counts of links while ranks follow a plan, with a short wait on each.
func exchanged(u *uses) map[direction]*sample {
	out := map[direction]*sample{}
	for l, phases := range u.of {
		out[l] = &sample{direction: l, Data: uint64(len(phases)) * words, Wait: uint64(len(phases)) * words / 200}
	}
	return out
}

func all(m map[direction]*sample) []sample {
	var out []sample
	for _, s := range m {
		out = append(out, *s)
	}
	return out
}

// TestUses checks the uses by the plan of a healthy tree: every link is in use in all phases
// except those in which a server sends to its own leaf.
func TestUses(t *testing.T) {
	u := usesOf(planned(t))
	transfers := 0
	for l, phases := range u.of {
		if !slices.IsSorted(phases) || len(slices.Compact(slices.Clone(phases))) != len(phases) {
			t.Errorf("%+v is used in phases %v", l, phases)
		}
		transfers += len(phases)
	}
	if len(u.of) != 2*36 || transfers != 2*36*30 || u.Phases != 35 {
		t.Errorf("%d links, %d uses, %d phases", len(u.of), transfers, u.Phases)
	}
}

// TestJudge checks where transfers meet, and the reasons as far as they can be determined.
func TestJudge(t *testing.T) {
	up, down := direction{2, 3, true}, direction{4, 3, false}
	plan, broken := planned(t), planned(t, "Leaf000/7", "Leaf000/8", "Leaf000/9", "Leaf000/10")
	for name, c := range map[string]struct {
		plan    *phasetable.View
		counted func(u *uses, at map[direction]*sample)
		links   []direction
		text    string // of the first meeting
		some    bool   // everywhere
	}{
		"as planned": {plan: plan, counted: func(*uses, map[direction]*sample) {}},
		"nothing runs": {plan: plan, counted: func(_ *uses, at map[direction]*sample) {
			for _, s := range at {
				s.Data, s.Wait = 300, 0
			}
			at[up].Wait = 9000
		}},
		"a job on two leaves": {plan: plan, counted: func(_ *uses, at map[direction]*sample) {
			for l, s := range at {
				if l.Leaf > 1 {
					s.Data, s.Wait = 300, 0
				}
			}
			at[direction{1, 1, true}].Wait = 1 << 40
		}},
		"other traffic": {plan: plan, counted: func(_ *uses, at map[direction]*sample) {
			at[up].Data += 40 * words
			at[up].Wait += 40 * words
		}, links: []direction{up}, text: "A to B: data waited for 36 % of the time, and for 0.5 % at the planned cables in the middle; it has sent 2.3 times its part of the exchange, so other traffic of some 160 MB was there"},
		"out of step": {plan: plan, counted: func(_ *uses, at map[direction]*sample) { at[down].Wait = 10 * words },
			links: []direction{down}, text: "it has sent its part of the exchange and no more, in 30 phases: ranks are in different phases, or run another plan"},
		"certain phases": {plan: broken, counted: func(u *uses, at map[direction]*sample) {
			for _, l := range apart(u) {
				at[l].Wait = at[l].Data
			}
		}, links: apart(usesOf(broken)), text: "all such cables are used in phases "},
		"without a plan": {plan: plan, counted: func(_ *uses, at map[direction]*sample) {
			for _, s := range at {
				s.Wait = s.Data
			}
		}, some: true},
	} {
		u := usesOf(c.plan)
		at := exchanged(u)
		c.counted(u, at)
		met, everywhere := meetings(u, all(at))
		var links []direction
		for _, m := range met {
			links = append(links, m.direction)
		}
		if !slices.Equal(links, c.links) || (everywhere > 0) != c.some {
			t.Errorf("%s: met at %v, everywhere %.2f; want %v", name, links, everywhere, c.links)
		}
		if len(met) > 0 {
			if text := met[0].Text("A", "B"); !strings.Contains(text, c.text) {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
	if met, everywhere := meetings(usesOf(plan), nil); met != nil || everywhere != 0 {
		t.Error("something was found without samples")
	}
}

// apart returns the two links, by leaf, that share the fewest phases, but at least one.
func apart(u *uses) []direction {
	var links []direction
	for l := range u.of {
		links = append(links, l)
	}
	slices.SortFunc(links, compare)
	var best []direction
	fewest := 1 << 30
	for i, a := range links {
		for _, b := range links[:i] {
			n := 0
			for _, p := range u.of[a] {
				if _, is := slices.BinarySearch(u.of[b], p); is {
					n++
				}
			}
			if n > 0 && n < fewest {
				fewest, best = n, []direction{b, a}
			}
		}
	}
	return best
}
