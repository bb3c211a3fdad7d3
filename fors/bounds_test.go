package fors

import (
	"testing"

	"pgregory.net/rapid"
)

// bruteBounds evaluates the definitions over every subset of the lanes.
func bruteBounds(t *Tree) Bounds {
	leafOf := leavesOf(t)
	usable := func(s, d int) (mask int) { // lanes from server s to server d
		for k := range t.Lanes {
			if t.Up[leafOf[s]][k] && t.Up[leafOf[d]][k] && (t.Closed == nil || !t.Closed(Server(d), Lane(k))) {
				mask |= 1 << k
			}
		}
		return mask
	}
	var b Bounds
	down := map[int]bool{}
	for leaf, slots := range t.Slots {
		living := 0
		for k := range t.Lanes {
			if t.Up[leaf][k] {
				living++
			} else if len(slots) > 0 {
				down[k] = true
			}
		}
		b.Reduction = max(b.Reduction, len(slots)-living)
	}
	b.Affected = len(down)
	P := len(leafOf)
	// Per leaf and lane set, the transfers confined to the set.
	out, in := make([][]int, len(t.Slots)), make([][]int, len(t.Slots))
	for leaf := range out {
		out[leaf], in[leaf] = make([]int, 1<<t.Lanes), make([]int, 1<<t.Lanes)
	}
	sends, hears := make([]int, P), make([]int, P)
	for s := range P {
		for d := range P {
			if leafOf[s] == leafOf[d] {
				if s != d {
					sends[s]++
					hears[d]++
				}
				continue
			}
			if mask := usable(s, d); mask != 0 {
				sends[s]++
				hears[d]++
				out[leafOf[s]][mask]++
				in[leafOf[d]][mask]++
			}
		}
	}
	servers, leaves := 0, 0
	for s := range P {
		servers = max(servers, sends[s], hears[s])
	}
	for S := 1; S < 1<<t.Lanes; S++ {
		size := 0
		for k := range t.Lanes {
			size += S >> k & 1
		}
		for leaf := range out {
			sum, sumIn := 0, 0
			for mask := range S + 1 {
				if mask&^S == 0 {
					sum += out[leaf][mask]
					sumIn += in[leaf][mask]
				}
			}
			leaves = max(leaves, up(sum, size), up(sumIn, size))
		}
	}
	b.LowerBound, b.Certificate = servers, ByServers
	if leaves > servers {
		b.LowerBound, b.Certificate = leaves, ByLeaf
	}
	return b
}

// TestBounds compares the flow with brute force over lane subsets.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		if got, want := ComputeBounds(tree), bruteBounds(tree); got != want {
			t.Fatalf("bounds %+v, want %+v", got, want)
		}
	})
}

// TestSkewedBounds has leaves whose tightest lane set is not all their lanes.
func TestSkewedBounds(t *testing.T) {
	// Four leaves of three servers on five lanes, up-masks 28, 26, 19, 7.
	skewed := evenTree(3, 4, 5)
	for leaf, mask := range []int{28, 26, 19, 7} {
		for k := range 5 {
			skewed.Up[leaf][k] = mask>>k&1 != 0
		}
	}
	// One lane of 70 at leaf 0, all the others at the rest.
	single := evenTree(20, 18, 70)
	for k := 1; k < 70; k++ {
		single.cutCables(0, k)
	}
	// Leaf 1's servers can be addressed on lane 0 only, the others on all.
	shut := evenTree(3, 3, 3)
	shut.Closed = func(d Server, k Lane) bool { return d/3 == 1 && k != 0 }
	for _, c := range []struct {
		name string
		tree *Tree
		want Bounds
	}{
		{"skewed", skewed, Bounds{Reduction: 0, Affected: 5, LowerBound: 11, Certificate: ByServers}},
		{"one leaf on one LID", shut, Bounds{Reduction: 0, Affected: 0, LowerBound: 18, Certificate: ByLeaf}},
		{"single lane of 70", single, Bounds{Reduction: 19, Affected: 69, LowerBound: 6800, Certificate: ByLeaf}},
	} {
		if got := ComputeBounds(c.tree); got != c.want {
			t.Errorf("%s: bounds %+v, want %+v", c.name, got, c.want)
		}
		mustCheck(t, c.tree, must(PlanConservative(bg, c.tree)))
	}
}

// TestLaneFlow compares Least with Hall's condition on groups of any
// weights, where flows must be rerouted more than on trees.
func TestLaneFlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.IntRange(1, 7).Draw(t, "lanes")
		masks := rapid.SliceOfN(rapid.IntRange(1, 1<<lanes-1), 1, 12).Draw(t, "masks")
		weights := make([]int, len(masks))
		var w LaneFlow
		w.Reset(lanes)
		for i, mask := range masks {
			weights[i] = rapid.IntRange(1, 40).Draw(t, "weight")
			set := LaneSet{uint64(mask)}
			if !w.common(set, set, nil) {
				t.Fatalf("lane set %b is empty", mask)
			}
			w.add(weights[i])
		}
		want := 1
		for S := 1; S < 1<<lanes; S++ {
			size, sum := 0, 0
			for k := range lanes {
				size += S >> k & 1
			}
			for i, mask := range masks {
				if mask&^S == 0 {
					sum += weights[i]
				}
			}
			want = max(want, up(sum, size))
		}
		if got := w.Least(0); got != want {
			t.Fatalf("capacity %d, want %d", got, want)
		}
	})
}
