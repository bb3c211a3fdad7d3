package gpu

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The published scheme does not attain Eq. 26: with 3 servers of 2 GPUs, where server 1
// has a packet for each of the others, Eq. 26 gives 1 slot, but the separately balanced
// blocks take turns in 2. Both NICs could send in the first.
func TestEquation26(t *testing.T) {
	traffic, err := NewTraffic(Cluster{3, 2})
	if err != nil {
		t.Fatal(err)
	}
	traffic.Bytes[2], traffic.Bytes[4] = 1, 1 // GPU (1,1) to (2,1) and to (3,1)
	var p Planner
	for mode, want := range map[Mode]int64{Paper: 2, None: 2, Rails: 1, MinMove: 1} {
		plan, err := p.Plan(t.Context(), traffic, Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(t.Context(), traffic, plan); err != nil {
			t.Fatal(err)
		}
		if plan.Length != want || plan.Bound != 1 {
			t.Errorf("mode %s: length %d, bound %d; want %d, 1", mode, plan.Length, plan.Bound, want)
		}
	}
}

// Sec. II.A: balancing the straggler's server "strictly reduces the completion time unless the
// traffic is already evenly distributed". GPU (1,1) has two packets for (2,1), which takes two
// slots; with one of them at (1,2), GPU (2,1) still receives two.
func TestBalancingOneSide(t *testing.T) {
	var p Planner
	for _, packets := range [][2]int64{{2, 0}, {1, 1}} { // of GPU (1,1) and (1,2)
		traffic, err := NewTraffic(Cluster{2, 2})
		if err != nil {
			t.Fatal(err)
		}
		traffic.Bytes[2], traffic.Bytes[4+2] = packets[0], packets[1]
		plan, err := p.Plan(t.Context(), traffic, Options{Mode: None})
		if err != nil {
			t.Fatal(err)
		}
		if plan.Length != 2 {
			t.Errorf("packets %v: length %d, want 2", packets, plan.Length)
		}
	}
}

// The example of Sec. III.C: n = 3, m = 2, every GPU of a server has a packet for
// every GPU of the next; Δ = 2 and both matrices are permutations.
func TestSectionIIIC(t *testing.T) {
	traffic, err := NewTraffic(Cluster{3, 2})
	if err != nil {
		t.Fatal(err)
	}
	for source := range 6 {
		for k := range 2 {
			traffic.Bytes[source*6+(source/2+1)%3*2+k] = 1
		}
	}
	var p Planner
	plan, err := p.Plan(t.Context(), traffic, Options{Mode: Paper})
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(t.Context(), traffic, plan); err != nil {
		t.Fatal(err)
	}
	if plan.Length != 2 || plan.MovesBefore+plan.MovesAfter != 0 || len(plan.Stages) != 2 {
		t.Fatalf("length %d in %d stages with %d and %d moves; want 2 in 2 without moves", plan.Length, len(plan.Stages), plan.MovesBefore, plan.MovesAfter)
	}
	for i, s := range plan.Stages {
		if len(s.Transfers) != 6 {
			t.Errorf("stage %d has %d transfers, want a permutation of 6 NICs", i, len(s.Transfers))
		}
	}
}

// Theorem 5: the balanced matrix is doubly substochastic with scale ⌈W/m⌉, nothing is
// lost, and the number of unit transfers is within its bound.
func TestTheorem5(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	for range 5000 {
		m := 1 + rng.IntN(8)
		traffic, err := NewTraffic(Cluster{2, m})
		if err != nil {
			t.Fatal(err)
		}
		rows, columns, total := make([]int64, m), make([]int64, m), int64(0)
		for l := range m {
			for k := range m {
				if v := rng.Int64N(1 + rng.Int64N(20)); rng.IntN(3) > 0 {
					traffic.Bytes[l*2*m+m+k] = v
					rows[l] += v
					columns[k] += v
					total += v
				}
			}
		}
		segments := level(traffic.cells(nil, 0, 1), 0, m)
		B := over(total, int64(m))
		complete := whole(traffic, segments)
		out, in, moves := make([]int64, m), make([]int64, m), int64(0)
		for _, s := range segments {
			out[int(s.Out)] += s.Bytes
			in[int(s.In)-m] += s.Bytes
			if s.Out != s.Source {
				moves += s.Bytes
			}
			if s.In != s.Destination {
				moves += s.Bytes
			}
		}
		if slices.Max(out) > B || slices.Max(in) > B || !complete {
			t.Fatalf("balanced rows %v and columns %v, want %d at most", out, in, B)
		}
		if most := excessOver(rows, B) + excessOver(columns, B); moves > most {
			t.Fatalf("%d unit transfers, Theorem 5 allows %d", moves, most)
		}
	}
}

// whole reports whether the segments are the messages of the traffic from server 0 to server 1,
// each byte once.
func whole(traffic *Traffic, segments []Segment) bool {
	m, ranks := traffic.GPUs, traffic.Ranks()
	pieces := map[[2]Rank][]Segment{}
	for _, s := range segments {
		key := [2]Rank{s.Source, s.Destination}
		pieces[key] = append(pieces[key], s)
	}
	for l := range Rank(m) {
		for k := range Rank(m) {
			list := pieces[[2]Rank{l, Rank(m) + k}]
			slices.SortFunc(list, func(a, b Segment) int { return int(a.Offset - b.Offset) })
			end := int64(0)
			for _, s := range list {
				if s.Offset != end || s.Bytes <= 0 {
					return false
				}
				end += s.Bytes
			}
			if end != traffic.Bytes[int(l)*ranks+m+int(k)] {
				return false
			}
		}
	}
	return true
}
