package liquid

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naiveDsatur implements the paper's listing literally, on a conflict graph.
func naiveDsatur(t *Traffic) []int {
	n := t.Len()
	step := make([]int, n)
	degree := make([]int, n)
	for x := range n {
		step[x] = -1
		for y := range n {
			if x != y && naivelyCongest(t, Transfer(x), Transfer(y)) {
				degree[x]++
			}
		}
	}
	for range n {
		best, bestKey := -1, [3]int{}
		for x := range n {
			if step[x] >= 0 {
				continue
			}
			seen := map[int]bool{}
			left := 0
			for y := range n {
				switch {
				case x == y || !naivelyCongest(t, Transfer(x), Transfer(y)):
				case step[y] < 0:
					left++
				default:
					seen[step[y]] = true
				}
			}
			key := [3]int{len(seen), left, degree[x]}
			if best < 0 || key[0] > bestKey[0] || key[0] == bestKey[0] && (key[1] > bestKey[1] || key[1] == bestKey[1] && key[2] > bestKey[2]) {
				best, bestKey = x, key
			}
		}
		for s := 0; step[best] < 0; s++ {
			free := true
			for y := range n {
				free = free && (y == best || step[y] != s || !naivelyCongest(t, Transfer(best), Transfer(y)))
			}
			if free {
				step[best] = s
			}
		}
	}
	return step
}

func TestDsaturIsThePapers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		traffic := randomTraffic(rt, 30)
		want := naiveDsatur(traffic)
		for step, members := range Dsatur(context.Background(), traffic) {
			for _, x := range members {
				if want[x] != step {
					rt.Errorf("transfer %d is in step %d, want %d", x, step, want[x])
				}
			}
		}
	})
}

// TestSpeeds schedules traffics whose links have different speeds.
func TestSpeeds(t *testing.T) {
	best, all := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		traffic := randomTraffic(rt, 30)
		rates := make([]float64, traffic.Links())
		for l := range rates {
			rates[l] = rapid.SampledFrom([]float64{25, 50, 100}).Draw(rt, "rate")
		}
		if err := traffic.SetRates(rates); err != nil {
			rt.Fatal(err)
		}
		slowest := make([]float64, traffic.Len())
		for x := range slowest {
			slowest[x] = 100
			for _, l := range traffic.Path(Transfer(x)) {
				slowest[x] = min(slowest[x], rates[l])
			}
		}
		fastest := 0.0
		for _, r := range slowest {
			fastest = max(fastest, r)
		}
		bound := naiveTimeBound(traffic, slowest, fastest)
		if got := traffic.TimeBound(); !near(got, bound) {
			rt.Errorf("time bound %v, want %v", got, bound)
		}
		for _, method := range Methods {
			r, err := Make(context.Background(), traffic, Options{Method: method, Nodes: 1000, Moves: 1000})
			if err != nil {
				rt.Fatal(err)
			}
			time := 0.0
			for _, step := range r.Schedule {
				longest := 0.0
				for _, x := range step {
					longest = max(longest, fastest/slowest[x])
				}
				time += longest
			}
			if got := traffic.Time(r.Schedule); !near(got, time) || time < bound-1e-9 {
				rt.Errorf("%s: time %v, want %v; the bound is %v", method, got, time, bound)
			}
			if r.Liquid != (near(time, bound) && len(r.Schedule) == traffic.Duration()) {
				rt.Errorf("%s: liquid %v with time %v of %v and %d steps of %d", method, r.Liquid, time, bound, len(r.Schedule), traffic.Duration())
			}
			if method == MethodAuto {
				all++
				if r.Liquid {
					best++
				}
			}
		}
	})
	if 2*best < all {
		t.Errorf("only %d of %d schedules reach the bound", best, all)
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }

// naiveTimeBound sums over the durations the largest number over the links of steps that
// must last that long, times the difference to the next shorter duration.
func naiveTimeBound(t *Traffic, slowest []float64, fastest float64) float64 {
	bound := 0.0
	speeds := []float64{25, 50, 100}
	for i, speed := range speeds {
		most := 0
		for l := range t.Links() {
			n := 0
			for _, x := range naiveUsers(t, Link(l)) {
				if slowest[x] <= speed {
					n++
				}
			}
			most = max(most, n)
		}
		if speed > fastest {
			break
		}
		next := 0.0
		if i+1 < len(speeds) && speeds[i+1] <= fastest {
			next = fastest / speeds[i+1]
		}
		bound += float64(most) * (fastest/speed - next)
	}
	return bound
}

// TestColouringGivesUp stops after the number of moves without progress.
func TestColouringGivesUp(t *testing.T) {
	for name, c := range noLiquid(t) {
		r, err := Make(context.Background(), c.traffic, Options{Method: MethodColouring, Moves: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Schedule) != c.steps || r.Method != MethodColouring {
			t.Errorf("%s: %d steps by %s, want %d by colouring", name, len(r.Schedule), r.Method, c.steps)
		}
	}
}

// TestLoadedLink has a link with too many transfers to count the conflicts, and no time.
func TestLoadedLink(t *testing.T) {
	traffic := makeTraffic(t, 1, slices.Repeat([][]Link{{0}}, 40_000))
	if n := traffic.ConflictEdges(); n != -1 {
		t.Errorf("%d edges were counted, want -1", n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if d := newSaturation(ctx, traffic, newBoard(traffic, 1)); d != nil {
		t.Error("Dsatur went on after the end of its context")
	}
}
