package liquid

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// makeTraffic makes a traffic from paths; transfer x goes from node x to itself.
func makeTraffic(t testing.TB, links int, paths [][]Link) *Traffic {
	t.Helper()
	pairs := make([]Pair, len(paths))
	for i := range pairs {
		pairs[i] = Pair{int32(i), int32(i)}
	}
	traffic, err := NewTraffic(links, pairs, paths)
	if err != nil {
		t.Fatal(err)
	}
	return traffic
}

// fig1 is the exchange of the paper's Fig. 1: T1 … T5 send to R1 … R5. T1 … T3 and
// R1 … R3 are on one switch, the others on another. l1 … l5 are the transmitters'
// links, l6 … l10 the receivers', l11 leads from the first switch to the second,
// and l12 back.
func fig1(t testing.TB) *Traffic {
	t.Helper()
	var pairs []Pair
	var paths [][]Link
	for src := range int32(5) {
		for dst := range int32(5) {
			path := []Link{Link(src), Link(5 + dst)}
			switch {
			case src < 3 && dst >= 3:
				path = append(path, 10)
			case src >= 3 && dst < 3:
				path = append(path, 11)
			}
			pairs, paths = append(pairs, Pair{src, dst}), append(paths, path)
		}
	}
	traffic, err := NewTraffic(12, pairs, paths)
	if err != nil {
		t.Fatal(err)
	}
	return traffic
}

// randomTraffic draws a traffic of up to n transfers over few links.
func randomTraffic(t *rapid.T, n int) *Traffic {
	links := rapid.IntRange(2, 9).Draw(t, "links")
	var paths [][]Link
	for i := range rapid.IntRange(1, n).Draw(t, "transfers") {
		path := rapid.SliceOfNDistinct(rapid.IntRange(0, links-1), 1, min(links, 4), rapid.ID).Draw(t, fmt.Sprint("path ", i))
		set := make([]Link, len(path))
		for j, l := range path {
			set[j] = Link(l)
		}
		paths = append(paths, set)
	}
	pairs := make([]Pair, len(paths))
	for i := range pairs {
		pairs[i] = Pair{rapid.Int32Range(0, 4).Draw(t, "src"), rapid.Int32Range(0, 4).Draw(t, "dst")}
	}
	traffic, err := NewTraffic(links, pairs, paths)
	if err != nil {
		t.Fatal(err)
	}
	return traffic
}

// TestFig1 checks the paper's statements about its Fig. 1.
func TestFig1(t *testing.T) {
	traffic := fig1(t)
	if traffic.Len() != 25 || traffic.Duration() != 6 || traffic.LiquidThroughput() != 25.0/6 {
		t.Errorf("%d transfers, Λ = %d, throughput %v; want 25, 6, 25/6", traffic.Len(), traffic.Duration(), traffic.LiquidThroughput())
	}
	if b := traffic.Bottlenecks(); !slices.Equal(b, []Link{10, 11}) {
		t.Errorf("bottlenecks %v, want l11 and l12", b)
	}
	rounds := RoundRobin(context.Background(), traffic)
	if err := Verify(traffic, rounds); err != nil || len(rounds) != 7 {
		t.Errorf("round-robin takes %d steps (%v), want 7", len(rounds), err)
	}
	// Fig. 2: phase 1 leaves both bottlenecks idle, and phases 3 and 4 take two steps.
	phase := traffic.phases()
	perPhase := make([]int, 5)
	for _, step := range rounds {
		perPhase[phase[step[0]]]++
	}
	if !slices.Equal(perPhase, []int{1, 1, 2, 2, 1}) {
		t.Errorf("the phases of round-robin take %v steps, want 1, 1, 2, 2, 1", perPhase)
	}
	r, err := Make(context.Background(), traffic, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Liquid || len(r.Schedule) != 6 || r.Method != MethodSearch {
		t.Errorf("%d steps by %s, want a liquid schedule of 6 by the search", len(r.Schedule), r.Method)
	}
}

// bruteCounts counts the sets of a traffic by enumerating all of them.
func bruteCounts(t *Traffic) Counts {
	n := t.Len()
	near := make([]uint32, n) // those that congest with it
	for x := range n {
		for y := range n {
			if x != y && naivelyCongest(t, Transfer(x), Transfer(y)) {
				near[x] |= 1 << y
			}
		}
	}
	bottlenecks := []uint32{} // [bottleneck] its users
	touching := uint32(0)
	most := 0
	for l := range t.Links() {
		most = max(most, len(naiveUsers(t, Link(l))))
	}
	for l := range t.Links() {
		if users := naiveUsers(t, Link(l)); len(users) == most {
			set := uint32(0)
			for _, x := range users {
				set |= 1 << x
			}
			bottlenecks = append(bottlenecks, set)
			touching |= set
		}
	}
	var c Counts
	congested := make([]uint32, 1<<n) // those that congest with one of the set
	simultaneous := make([]bool, 1<<n)
	simultaneous[0] = true
	for set := uint32(1); set < 1<<n; set++ {
		low, rest := 0, set&(set-1)
		for set>>low&1 == 0 {
			low++
		}
		congested[set] = congested[rest] | near[low]
		if simultaneous[set] = simultaneous[rest] && near[low]&rest == 0; !simultaneous[set] {
			continue
		}
		c.Simultaneous++
		full, team := congested[set]|set == 1<<n-1, true
		for _, b := range bottlenecks {
			team = team && b&set != 0
		}
		if full {
			c.Full++
		}
		if team {
			c.Teams++
		}
		if full && team {
			c.FullTeams++
		}
		if team && set&^touching == 0 {
			c.Skeletons++
		}
	}
	return c
}

func naiveUsers(t *Traffic, l Link) []Transfer {
	var users []Transfer
	for x := range t.Len() {
		if slices.Contains(t.Path(Transfer(x)), l) {
			users = append(users, Transfer(x))
		}
	}
	return users
}

func naivelyCongest(t *Traffic, x, y Transfer) bool {
	return slices.ContainsFunc(t.Path(x), func(l Link) bool { return slices.Contains(t.Path(y), l) })
}

// TestFig1Counts counts the sets of each kind of Fig. 1's exchange, and compares with
// all 2²⁵ subsets.
func TestFig1Counts(t *testing.T) {
	traffic := fig1(t)
	got, err := Count(context.Background(), traffic, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	if want := bruteCounts(traffic); got != want {
		t.Errorf("counts %+v, all subsets have %+v", got, want)
	}
	t.Logf("%+v", got)
}

func TestCountsOfRandomTraffics(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		traffic := randomTraffic(rt, 12)
		got, err := Count(context.Background(), traffic, 1<<40)
		if err != nil {
			rt.Fatal(err)
		}
		if want := bruteCounts(traffic); got != want {
			rt.Errorf("counts %+v, all subsets have %+v", got, want)
		}
	})
}

func TestCountHasLimits(t *testing.T) {
	if _, err := Count(context.Background(), fig1(t), 100); err == nil || !strings.Contains(err.Error(), "more than 100") {
		t.Errorf("counting beyond the limit: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Count(ctx, fig1(t), 1<<40); err == nil {
		t.Error("counting went on after the end of its context")
	}
}

func TestConflictGraph(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		traffic := randomTraffic(rt, 30)
		edges := 0
		for x := range traffic.Len() {
			for y := range x {
				if naivelyCongest(traffic, Transfer(x), Transfer(y)) {
					edges++
				}
			}
		}
		if got := traffic.ConflictEdges(); got != edges {
			rt.Errorf("%d edges, want %d", got, edges)
		}
	})
}

func TestTrafficRefuses(t *testing.T) {
	for _, c := range []struct {
		paths [][]Link
		want  string
	}{
		{[][]Link{{0}, {}}, "transfer 1, 1→1, uses no link"},
		{[][]Link{{0, 2}}, "uses link 2 of 2"},
		{[][]Link{{-1}}, "uses link -1 of 2"},
		{[][]Link{{1, 0, 1}}, "uses link 1 twice"},
	} {
		pairs := make([]Pair, len(c.paths))
		for i := range pairs {
			pairs[i] = Pair{int32(i), int32(i)}
		}
		if _, err := NewTraffic(2, pairs, c.paths); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("paths %v: error %v, want %q", c.paths, err, c.want)
		}
	}
	if _, err := NewTraffic(2, nil, [][]Link{{0}}); err == nil {
		t.Error("a path without a pair was taken")
	}
	traffic := makeTraffic(t, 2, [][]Link{{0}, {1}})
	for _, rates := range [][]float64{{1}, {1, 0}, {-1, 1}, {1, 1e7}, {1e-300, 1e300}} {
		if traffic.SetRates(rates) == nil {
			t.Errorf("speeds %v were taken", rates)
		}
	}
}
