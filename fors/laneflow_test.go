package fors

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// TestLeastCapacity compares with the worst of all sets of groups.
func TestLeastCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups, lanes := rapid.IntRange(1, 5).Draw(t, "groups"), rapid.IntRange(1, 5).Draw(t, "lanes")
		transfers := rapid.SliceOfN(rapid.IntRange(0, 1<<40), groups, groups).Draw(t, "transfers")
		on := rapid.SliceOfN(rapid.IntRange(1, 1<<lanes-1), groups, groups).Draw(t, "lanes of a group")
		var sets []LaneSet
		for _, some := range on {
			sets = append(sets, LaneSet{uint64(some)})
		}
		want := 0
		for set := range 1 << groups {
			sum, all := 0, 0
			for group := range groups {
				if set>>group&1 != 0 {
					sum, all = sum+transfers[group], all|on[group]
				}
			}
			want = max(want, ceilDiv(sum, max(1, bits.OnesCount(uint(all)))))
		}
		if got := LeastCapacity(lanes, sets, transfers); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}
