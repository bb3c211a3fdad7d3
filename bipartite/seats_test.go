package bipartite

import (
	"math/rand/v2"
	"testing"
)

// TestSeats: no two things of a row have one seat, nor two of a part of a key, and a row that is
// too full is refused.
func TestSeats(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var s Seats
	for range 200 {
		seats, rows, keys := 1+rng.IntN(6), 1+rng.IntN(9), 1+rng.IntN(5)
		var row, key []int32
		most := 0
		for r := range rows {
			n := rng.IntN(seats + 1)
			if rng.IntN(20) == 0 {
				n++
			}
			most = max(most, n)
			for range n {
				row, key = append(row, int32(r)), append(key, int32(rng.IntN(keys)))
			}
		}
		if err := s.Give(t.Context(), seats, rows, keys, row, key); (err != nil) != (most > seats) {
			t.Fatalf("%d seats, %d things in a row: %v", seats, most, err)
		} else if err != nil {
			continue
		}
		byRow := map[[2]int]bool{}
		byKey := make([]int, seats) // things so far, in order of keys
		all := 0
		for k, index := 0, IndexBy(keys, key); k < keys; k++ {
			for _, i := range index.Of(k) {
				seat := int(s.Of(int(i)))
				at := [2]int{int(row[i]), seat}
				if byRow[at] || byKey[seat] > all/seats {
					t.Fatalf("%d seats, rows %v, keys %v: thing %d has seat %d", seats, row, key, i, seat)
				}
				byRow[at] = true
				byKey[seat] = all/seats + 1
				all++
			}
		}
	}
}
