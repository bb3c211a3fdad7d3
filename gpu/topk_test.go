package gpu

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Choices and counts of the same tokens give the same traffic, and a token that is sent once
// per GPU or server counts once there.
func TestFromTopK(t *testing.T) {
	c := Cluster{3, 2}
	const experts, tokens, choices = 12, 50, 3
	rng := rand.New(rand.NewPCG(1, 1))
	chosen := make([]float64, c.Ranks()*tokens*choices)
	counts := make([]float64, c.Ranks()*experts)
	gpus, servers := make([]int64, 36), make([]int64, 9)
	for token := range c.Ranks() * tokens {
		source := token / tokens
		seen, reached := map[int]bool{}, map[int]bool{}
		for k, expert := range rng.Perm(experts)[:choices] {
			if rng.IntN(10) == 0 {
				chosen[token*choices+k] = -1
				continue
			}
			chosen[token*choices+k] = float64(expert)
			counts[source*experts+expert]++
			to := expert / 2
			if !seen[to] {
				gpus[source*6+to] += 10
			}
			if !reached[to/2] {
				servers[source/2*3+to/2] += 10
			}
			seen[to], reached[to/2] = true, true
		}
	}
	p := must(c.Blocks(experts))
	tokensOf := must(FromTopK(c, chosen, choices, p, 10))
	for once, want := range map[Once][]int64{ToExpert: must(FromRouting(c, experts, counts, 10)).Bytes, ToGPU: gpus} {
		if d := cmp.Diff(want, tokensOf.Traffic(once).Bytes); d != "" {
			t.Errorf("once to each %s (−want +got): %s", once, d)
		}
	}
	for i := range c.Servers {
		servers[i*c.Servers+i] = 0
	}
	if d := cmp.Diff(servers, tokensOf.Traffic(ToServer).Pairs()); d != "" {
		t.Errorf("once to each server (−want +got): %s", d)
	}
	// The same as a map of 0 and 1.
	marks := make([]float64, c.Ranks()*tokens*experts)
	for at, v := range chosen {
		if v >= 0 {
			marks[at/choices*experts+int(v)] = 1
		}
	}
	if d := cmp.Diff(gpus, must(FromTopK(c, marks, experts, p, 10)).Traffic(ToGPU).Bytes); d != "" {
		t.Errorf("as a map (−want +got): %s", d)
	}
	// A redundant expert: at home, in the server, then in turn.
	p = Placement{{1, 4}}
	got := must(FromTopK(c, make([]float64, 12), 1, p, 1)).Traffic(ToExpert)
	want := make([]int64, 36)
	want[0*6+1], want[1*6+1], want[4*6+4], want[5*6+4] = 2, 2, 2, 2
	for _, source := range []int{2, 3} {
		want[source*6+1], want[source*6+4] = 1, 1
	}
	if d := cmp.Diff(want, got.Bytes); d != "" {
		t.Errorf("a redundant expert (−want +got): %s", d)
	}
}

func TestFromTopKRefuses(t *testing.T) {
	c := Cluster{2, 1}
	p := Placement{{0}, {1}}
	for what, f := range map[string]func() (*Tokens, error){
		"an expert too many": func() (*Tokens, error) { return FromTopK(c, []float64{0, 2}, 1, p, 1) },
		"a fraction":         func() (*Tokens, error) { return FromTopK(c, []float64{0, .5}, 1, p, 1) },
		"-2":                 func() (*Tokens, error) { return FromTopK(c, []float64{0, -2}, 1, p, 1) },
		"a token too many":   func() (*Tokens, error) { return FromTopK(c, []float64{0, 1, 1}, 1, p, 1) },
		"no choices":         func() (*Tokens, error) { return FromTopK(c, nil, 0, p, 1) },
		"no bytes":           func() (*Tokens, error) { return FromTopK(c, []float64{0, 1}, 1, p, 0) },
		"no GPU":             func() (*Tokens, error) { return FromTopK(c, []float64{0, 1}, 1, Placement{{0}, {}}, 1) },
		"GPU 2":              func() (*Tokens, error) { return FromTopK(c, []float64{0, 1}, 1, Placement{{0}, {2}}, 1) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := c.Blocks(3); err == nil {
		t.Error("3 experts on 2 GPUs are placed")
	}
}
