package gpu

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// anyTokens draws tokens for clusters of 2 to 16 servers with 2 to 8 GPUs: some experts are much
// more popular, some tokens have no expert or only those of their own server, and some servers
// have no token or no expert that is chosen.
func anyTokens(rng *rand.Rand) *Tokens {
	c := Cluster{2 + rng.IntN(15), 2 + rng.IntN(7)}
	experts := c.Ranks() * (1 + rng.IntN(3))
	p := must(c.Blocks(experts))
	each, choices := rng.IntN(9), 1+rng.IntN(8)
	silent, unpopular, local := rng.IntN(2*c.Servers), rng.IntN(2*c.Servers), rng.IntN(3)
	chosen := make([]float64, 0, c.Ranks()*each*choices)
	for token := range c.Ranks() * each {
		server := token / max(1, each) / c.GPUs
		for range choices {
			expert := rng.IntN(experts)
			if rng.IntN(3) == 0 {
				expert = rng.IntN(1+expert) / 2
			}
			if local > 0 && token%7 == 0 {
				expert = expert%(experts/c.Servers) + server*experts/c.Servers
			}
			if server == silent || expert/(experts/c.Servers) == unpopular || rng.IntN(10) == 0 {
				expert = -1
			}
			chosen = append(chosen, float64(expert))
		}
	}
	return must(FromTopK(c, chosen, choices, p, 1+rng.Int64N(5)))
}

// grouped draws tokens as DeepSeek-V3 routes them: of 256 experts in eight groups, the eight with
// the highest scores in the four groups whose two best have the highest sums.
func grouped(rng *rand.Rand, c Cluster, each int, bytes int64) *Tokens {
	const experts, groups = 256, 8
	chosen := make([]float64, 0, c.Ranks()*each*8)
	score, best := make([]float64, experts), make([]float64, groups)
	for range c.Ranks() * each {
		for g := range groups {
			first, second := -1.0, -1.0
			for e := g * experts / groups; e < (g+1)*experts/groups; e++ {
				score[e] = rng.Float64()
				second = max(second, min(score[e], first))
				first = max(first, score[e])
			}
			best[g] = first + second
		}
		for range groups / 2 {
			g := slices.Index(best, slices.Min(best))
			best[g] = 2
			clear(score[g*experts/groups : (g+1)*experts/groups])
		}
		for range 8 {
			e := slices.Index(score, slices.Max(score))
			score[e] = 0
			chosen = append(chosen, float64(e))
		}
	}
	return must(FromTopK(c, chosen, 8, must(c.Blocks(experts)), bytes))
}

// distinct is Eq. 26 for tokens that are sent once to each other server, in tokens.
func distinct(x *Tokens) int64 {
	out, in := make([]int64, x.Servers), make([]int64, x.Servers)
	for source := range x.Ranks() {
		for token := x.first[source]; token < x.first[source+1]; token++ {
			begin, end := x.of(token)
			reached := map[int]bool{}
			for _, to := range x.needs[begin:end] {
				reached[int(to)/x.GPUs] = true
			}
			delete(reached, source/x.GPUs)
			for j := range reached {
				out[source/x.GPUs]++
				in[j]++
			}
		}
	}
	m := int64(x.GPUs)
	return (max(slices.Max(out), slices.Max(in)) + m - 1) / m
}

// checkTokens plans tokens in every mode, and verifies the plans, their ways back, their binary
// forms, and the programs that ranks make for themselves. Rails and MinMove have the length of
// the bound, Bytes less than a token for each server more.
func checkTokens(t *testing.T, x *Tokens, own Rank, modes ...Mode) {
	t.Helper()
	var p Planner
	for _, mode := range modes {
		plan := must(p.PlanTokens(t.Context(), x, Options{Mode: mode}))
		bound := distinct(x) * x.Bytes
		if plan.Bound != bound || plan.Length < bound {
			t.Fatalf("mode %s: length %d, bound %d, want %d", mode, plan.Length, plan.Bound, bound)
		}
		if limit := bound + int64(x.Servers-1)*x.Bytes; mode == Bytes && plan.Length > limit || (mode == Rails || mode == MinMove) && plan.Length > bound {
			t.Fatalf("mode %s: length %d, bound %d", mode, plan.Length, bound)
		}
		back := plan.Return()
		if back.Length != plan.Length || back.Bound != plan.Bound {
			t.Fatalf("mode %s: the way back has length %d and bound %d, want %d and %d", mode, back.Length, back.Bound, plan.Length, plan.Bound)
		}
		for _, way := range []*Plan{plan, back} {
			if err := VerifyTokens(t.Context(), x, way); err != nil {
				t.Fatalf("mode %s, returns %t: %v", mode, way.Returns, err)
			}
			if err := must(Decode(must(way.Encode(t.Context())))).VerifyTokens(t.Context(), x); err != nil {
				t.Fatalf("mode %s, returns %t, in binary: %v", mode, way.Returns, err)
			}
		}
		if mode == Bytes {
			options, _, _, err := p.ChooseTokens(t.Context(), x, Options{})
			if err != nil {
				t.Fatal(err)
			}
			there, again, err := p.OwnTokens(t.Context(), x, own, options)
			if err != nil {
				t.Fatal(err)
			}
			plan = must(p.PlanTokens(t.Context(), x, options))
			back = plan.Return()
			for way, got := range map[*Plan]*Own{plan: there, back: again} {
				if d := cmp.Diff(&Own{must(way.Programs(t.Context()))[own], lengths(way)}, got, equateEmpty); d != "" {
					t.Fatalf("rank %d (−of all +own): %s", own, d)
				}
			}
		}
	}
}

// Every token comes once to each server that needs it and to every GPU with its experts, and on
// the way back every result is in one sum, at the length of the bound of distinct servers.
func TestTokens(t *testing.T) {
	draws, often := 150, 10
	if os.Getenv("FORS_LONG") != "" {
		draws, often = 1000, 1
	}
	for draw := range draws {
		rng := rand.New(rand.NewPCG(41, uint64(draw)))
		x, modes := anyTokens(rng), []Mode{Rails}
		if draw%often == 0 {
			modes = Modes
		}
		t.Run(fmt.Sprint(draw), func(t *testing.T) { checkTokens(t, x, Rank(rng.IntN(x.Ranks())), modes...) })
	}
}

// Options in bytes hold for tokens: stages are no longer than they say, or than a token, the grain
// is rounded up to tokens, and lengths are within the stretch.
func TestTokenOptions(t *testing.T) {
	var p Planner
	for draw := range 30 {
		rng := rand.New(rand.NewPCG(46, uint64(draw)))
		x := anyTokens(rng)
		most := 1 + rng.Int64N(9*x.Bytes)
		for _, o := range []Options{{Mode: Bytes, MaxStage: most}, {Mode: Bytes, Grain: most}, {Mode: Bytes, MaxStretch: 1.5}, {Mode: Rails, Grain: most}, {Mode: Auto, MaxStage: most}} {
			plan := must(p.PlanTokens(t.Context(), x, o))
			for _, way := range []*Plan{plan, plan.Return()} {
				if err := VerifyTokens(t.Context(), x, way); err != nil {
					t.Fatalf("draw %d, %+v: %v", draw, o, err)
				}
			}
			grain := (most + x.Bytes - 1) / x.Bytes * x.Bytes
			for _, s := range plan.Stages {
				if o.MaxStage > 0 && s.Length > max(o.MaxStage, x.Bytes) {
					t.Fatalf("draw %d, %+v: a stage of %d", draw, o, s.Length)
				}
			}
			if o.Grain > 0 && plan.Grain != grain {
				t.Fatalf("draw %d, %+v: grain %d, want %d", draw, o, plan.Grain, grain)
			}
			least := (distinct(x) + int64(x.Servers)) * x.Bytes
			if o.MaxStretch > 0 && float64(plan.Length) > o.MaxStretch*float64(least) {
				t.Fatalf("draw %d, %+v: length %d, the least is about %d", draw, o, plan.Length, least)
			}
		}
	}
}

// Every token of DeepSeek's routing comes once to each server and GPU too, and is in one sum.
func TestGroupedTokens(t *testing.T) {
	for _, n := range []int{2, 4, 8, 16} {
		x := grouped(rand.New(rand.NewPCG(42, uint64(n))), Cluster{n, 8}, 16, 7392)
		checkTokens(t, x, 3, Rails, Bytes, Auto)
	}
}

// Tokens are planned around NICs that are dead or slow, and within rails.
func TestSiteTokens(t *testing.T) {
	draws := 8
	if os.Getenv("FORS_LONG") != "" {
		draws = 1000
	}
	var p Planner
	for draw := range draws {
		rng := rand.New(rand.NewPCG(45, uint64(draw)))
		x := anyTokens(rng)
		var bad []string
		for i := range x.Servers { // one NIC of each server stays well
			for k := 1; k < x.GPUs; k++ {
				if rng.IntN(3) == 0 {
					bad = append(bad, fmt.Sprintf("%d:%d:%d", i, k, 25*rng.IntN(4)))
				}
			}
		}
		site := must(Without(nil, x.Cluster, draw%4 == 3, append(bad, "0:0:50"), nil))
		plan := must(p.PlanSiteTokens(t.Context(), site, x, Options{Mode: []Mode{Auto, Bytes}[draw%2]}))
		for _, way := range []*Plan{plan, plan.Return()} {
			if err := VerifySiteTokens(t.Context(), site, x, way); err != nil {
				t.Fatalf("draw %d, %v, returns %t: %v", draw, bad, way.Returns, err)
			}
			spoiled := *way
			spoiled.Certificate = new(Certificate)
			if spoiled.Bound > 0 && VerifySiteTokens(t.Context(), site, x, &spoiled) == nil {
				t.Fatalf("draw %d: another certificate passes", draw)
			}
		}
	}
}

// A dead GPU must have no tokens and no experts.
func TestDeadGPUsHaveNoTokens(t *testing.T) {
	c := Cluster{2, 2}
	site := must(Without(nil, c, false, nil, []string{"1:0"}))
	var p Planner
	for ranks, taken := range map[[4]float64]bool{{1, 3, -1, 0}: true, {1, 2, -1, 0}: false, {1, 3, 0, 0}: false} {
		x := must(FromTopK(c, ranks[:], 1, must(c.Blocks(4)), 8))
		if _, err := p.PlanSiteTokens(t.Context(), site, x, Options{}); (err == nil) != taken {
			t.Errorf("tokens for GPUs %v: %v", ranks, err)
		}
	}
}

// TestPublishedTimes predicts the exchanges that UCCL-EP publishes as measured (ep/README.md of
// github.com/uccl-project/uccl, "normal kernels", p5en and p6-b200): 4096 tokens a GPU of 7168
// elements, FP8 with a scale for each 128, to eight experts in four groups; NICs of 50 GB/s a GPU.
func TestPublishedTimes(t *testing.T) {
	for n, published := range map[int][]float64{2: {1196e-6, 1141e-6}, 4: {2022e-6, 2072e-6}} {
		x := grouped(rand.New(rand.NewPCG(43, uint64(n))), Cluster{n, 8}, 4096, 7168+4*7168/128)
		var p Planner
		plan := must(p.PlanTokens(t.Context(), x, Options{}))
		if err := VerifyTokens(t.Context(), x, plan); err != nil {
			t.Fatal(err)
		}
		total := DefaultModel.Predict(plan).Total
		t.Logf("%d GPUs: %.0f µs predicted, %.2f and %.2f times the bytes once to each GPU and expert", 8*n, 1e6*total,
			float64(x.Sent(ToGPU))/float64(x.Sent(ToServer)), float64(x.Sent(ToExpert))/float64(x.Sent(ToServer)))
		for _, measured := range published {
			if total >= measured {
				t.Errorf("%d GPUs: %v s predicted, %v s published", 8*n, total, measured)
			}
		}
	}
}

// Any single change to the programs of tokens makes their replay fail.
func TestTokenReplayFindsChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(44, 1))
	x := grouped(rng, Cluster{4, 2}, 12, 3)
	var p Planner
	there := must(p.PlanTokens(t.Context(), x, Options{Mode: Bytes, MaxStage: 12}))
	found := 0
	for draw := range 3000 {
		plan := there
		if draw%2 == 1 {
			plan = there.Return()
		}
		programs := must(plan.Programs(bg))
		p := &programs[rng.IntN(len(programs))]
		what := rng.IntN(15)
		lists := []*[]Move{&p.Before.Send, &p.Before.Receive, &p.After.Send, &p.After.Receive, &p.Local.Send, &p.Local.Receive}
		turns := []*[]Turn{&p.Send, &p.Receive}
		switch {
		case what < 6:
			list := lists[what]
			switch at := rng.IntN(len(*list)); {
			case what%2 == 1 && rng.IntN(4) == 0:
				(*list)[at].Add = !(*list)[at].Add
			case rng.IntN(4) == 0:
				(*list)[at].Beside += 1 - 2*rng.IntN(2)
			case !spoil(rng, list, func(x *Move) *Piece { return &x.Piece }):
				continue
			}
		case what < 8:
			list := turns[what-6]
			if rng.IntN(4) == 0 {
				(*list)[rng.IntN(len(*list))].Stage += 1 - 2*rng.IntN(2)
			} else if !spoil(rng, list, func(x *Turn) *Piece { return &x.Piece }) {
				continue
			}
		case what < 12:
			*[]*int64{&p.Input, &p.NICSend, &p.NICRecv, &p.Output}[what-8] += 3 - 6*rng.Int64N(2)
		case what == 12:
			p.Rank++
		default:
			a := rng.IntN(len(programs)) // two programs change places
			b := (a + 1 + rng.IntN(len(programs)-1)) % len(programs)
			programs[a], programs[b] = programs[b], programs[a]
		}
		if _, err := replayTokens(t.Context(), x, plan.Returns, lengths(plan), programs, summary{plan.Length, plan.Bound, plan.MovesBefore, plan.MovesAfter}, plan.Bound, itself); err == nil {
			t.Fatalf("change %d of rank %d is not found, returns %t", what, p.Rank, plan.Returns)
		}
		found++
	}
	if found < 2500 {
		t.Errorf("%d changes were tried", found)
	}
	for _, change := range []func(*Plan){func(p *Plan) { p.Length++ }, func(p *Plan) { p.Bound-- }, func(p *Plan) { p.MovesAfter++ }, func(p *Plan) { p.Tokens = nil },
		func(p *Plan) { p.Busiest = slices.Clone(p.Busiest); p.Busiest[1]++ }} {
		spoiled := *there
		change(&spoiled)
		if VerifyTokens(t.Context(), x, &spoiled) == nil {
			t.Errorf("a plan that states what is not so passes: length %d, bound %d, moves %d", spoiled.Length, spoiled.Bound, spoiled.MovesAfter)
		}
	}
}
