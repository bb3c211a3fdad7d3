package bipartite

import (
	"context"
	"fmt"
)

// Index lists things by a key.
type Index struct {
	first []int32 // [key] its first place, one more at the end
	thing []int32 // [place]
}

// IndexBy lists things by their keys below n, those of a key in order.
func IndexBy[K int16 | int32](n int, keys []K) *Index {
	x := &Index{make([]int32, n+2), make([]int32, len(keys))}
	for _, k := range keys {
		x.first[k+2]++
	}
	for k := range n {
		x.first[k+2] += x.first[k+1]
	}
	for i, k := range keys {
		x.thing[x.first[k+1]] = int32(i)
		x.first[k+1]++
	}
	return x
}

// Of lists the things of a key.
func (x *Index) Of(key int) []int32 { return x.thing[x.first[key]:x.first[key+1]] }

// Seats gives things seats, which are the colours of a bipartite graph: to the left are rows of
// at most as many things as there are seats, to the right vertices of as many. No two things of
// a row, or of a vertex, have the same seat. It keeps its memory from call to call.
type Seats struct {
	Rows     []int32  // [row][seats] right vertices, −1 for an empty seat
	Seat     []uint16 // [row][seats]
	colourer Colourer
	first    []int32 // [key] things in keys before
	count    []int32 // [row] things
	place    []int32 // [thing] in Rows
	lack     []int32 // [right vertex] edges
}

// Colour colours the rows of so many seats. Edges lead from the places without a thing to the
// first right vertices that have fewer; those below full are known to have as many.
func (s *Seats) Colour(ctx context.Context, seats int, full int32) error {
	lack := grow(&s.lack, max(0, len(s.Rows)/seats-int(full)))
	for v := range lack {
		lack[v] = int32(seats)
	}
	for _, v := range s.Rows {
		if v >= full {
			lack[v-full]--
		}
	}
	idle := 0
	for i, v := range s.Rows {
		if v >= 0 {
			continue
		}
		for lack[idle] == 0 {
			idle++
		}
		lack[idle]--
		s.Rows[i] = full + int32(idle)
	}
	grow(&s.Seat, len(s.Rows))
	return s.colourer.Colours(ctx, len(s.Rows)/seats, seats, s.Rows, s.Seat)
}

// Give gives things seats by their rows and their keys: things in order of keys are cut into
// vertices. It fails if a row has more things than there are seats.
func (s *Seats) Give(ctx context.Context, seats int, rows, keys int, row, key []int32) error {
	first, count := grow(&s.first, keys+1), grow(&s.count, rows)
	clear(first)
	clear(count)
	for i, k := range key {
		first[k+1]++
		count[row[i]]++
	}
	for k := range keys {
		first[k+1] += first[k]
	}
	at := 0
	for r, things := range count {
		if int(things) > seats {
			return fmt.Errorf("%d of %d things are in one row of %d", things, len(row), seats)
		}
		if things > 0 {
			count[r] = int32(at)
			at += seats
		}
	}
	grow(&s.place, len(row))
	grow(&s.Rows, at)
	for i := range s.Rows {
		s.Rows[i] = -1
	}
	for i, k := range key {
		at := count[row[i]]
		count[row[i]]++
		s.place[i], s.Rows[at] = at, first[k]/int32(seats)
		first[k]++
	}
	return s.Colour(ctx, seats, int32(len(row)/seats))
}

// Of returns the seat that Give gave a thing.
func (s *Seats) Of(thing int) uint16 { return s.Seat[s.place[thing]] }
