package bipartite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Decomposer decomposes a nonnegative integer matrix into stages, each a perfect matching
// with a weight, whose weights sum to the largest row or column sum (Birkhoff 1946). A stage
// serves each of its pairs with its weight or with the rest of the entry, whichever is less.
//
// The key of a pair is the rest of its entry plus the idle time that both its ends can
// spend. Keys only fall. The pairs of a matching have keys of at least a threshold, and a
// stage is as long as the least of them, so long stages come first, and there are few. The
// next stage keeps the matching, except for pairs whose keys are below the threshold: only
// their rows search for partners. If a row finds none, the threshold falls.
//
// It keeps its scratch memory from call to call. The zero value is ready for use; a
// Decomposer must not be used by two goroutines at once.
type Decomposer struct {
	// Longest lowers the threshold no further than necessary: each stage is as long as
	// possible. That takes half as long again and makes a tenth to a fifth fewer stages.
	Longest bool
	// MaxStages is the most stages of a decomposition, which fails with ErrStages beyond
	// it. 0 means any number.
	MaxStages int
	// First is the row that the first stage matches first. Others give other stages.
	First int
	// Serve, if not nil, gets the match of each stage and lowers what its pairs are served, [row], from
	// the stage's weight, but not to 0 for all. late says how much longer all stages get if a row is
	// served so much: 0 or less for not at all. In the result, pairs that a stage does not serve are −1.
	Serve func(match []int32, served []int64, late func(row int, served int64) int64)

	n, words     int
	x            []int64  // [row][column] the rest of the matrix
	idleR, idleC []int64  // [row], [column] the remaining length minus the rest of x
	near         []uint64 // [row][word] bits of the columns with keys of low or more, and of some whose keys have fallen since
	ofRow, ofCol []int32  // partners, −1 if none
	free         []uint64 // [word] columns without partner
	fresh        []uint64 // [word] columns that a search has not reached
	from         []int32  // [column] row that a search came from
	queue        []int32  // rows of a search
	open         []int32  // rows without partner
	threshold    int64    // of the pairs matched
	low          int64    // of the pairs in near, not above threshold
	weights      []int64
	match        []int32
	served       []int64 // [row] of a stage
}

// ErrStages is the error of Decompose if Decomposer.MaxStages do not suffice.
var ErrStages = errors.New("the decomposition has more stages than are wanted")

// maxLength bounds row and column sums, so that no sum of two overflows.
const maxLength = math.MaxInt64 >> 2

// Decompose decomposes x, [row][column] of n rows and columns. Stage s has weight
// weights[s] and matches row i with column match[s*n+i]; if the entry has no rest, the
// pair idles. The next call overwrites both; x is not modified. Decompose fails if an
// entry is negative or a row or column exceeds 2^61, with ErrStages, and soon after
// ctx ends with ctx.Err().
func (d *Decomposer) Decompose(ctx context.Context, n int, x []int64) (weights []int64, match []int32, err error) {
	length, err := d.begin(n, x)
	if err != nil {
		return nil, nil, err
	}
	for length > 0 {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if d.MaxStages > 0 && len(d.weights) == d.MaxStages {
			return nil, nil, ErrStages
		}
		for len(d.open) > 0 {
			d.seat(d.open[len(d.open)-1])
			d.open = d.open[:len(d.open)-1]
		}
		length -= d.cut()
	}
	return d.weights, d.match, nil
}

// begin sets up the search and returns the largest row or column sum.
func (d *Decomposer) begin(n int, x []int64) (length int64, err error) {
	if len(x) != n*n || n > 1<<15 {
		return 0, fmt.Errorf("decompose a matrix of %d rows: %d entries are given, want %d, for 32768 rows at most", n, len(x), n*n)
	}
	d.n, d.words = n, (n+63)/64
	d.weights, d.match = d.weights[:0], d.match[:0]
	idleR, idleC := grow(&d.idleR, n), grow(&d.idleC, n)
	clear(idleC)
	for i := range n {
		sum := int64(0)
		for j, v := range x[i*n : (i+1)*n] {
			if v < 0 || v > maxLength-sum || v > maxLength-idleC[j] {
				return 0, fmt.Errorf("decompose a matrix of %d rows: entry (%d, %d) is %d: want none below 0 and no row or column beyond %d", n, i, j, v, int64(maxLength))
			}
			sum += v
			idleC[j] += v
		}
		idleR[i] = sum
		length = max(length, sum)
	}
	for _, sum := range idleC {
		length = max(length, sum)
	}
	copy(grow(&d.x, n*n), x)
	grow(&d.near, n*d.words)
	grow(&d.ofRow, n)
	grow(&d.from, n)
	grow(&d.fresh, d.words)
	clear(grow(&d.free, d.words))
	d.open = d.open[:0]
	grow(&d.ofCol, n)
	for i := range n {
		idleR[i], idleC[i] = length-idleR[i], length-idleC[i]
		d.ofRow[i], d.ofCol[i] = -1, -1
		d.open = append(d.open, int32((n-1-i+d.First)%n))
		d.free[i>>6] |= 1 << (i & 63)
	}
	d.threshold = d.ceiling(length)
	d.low = d.threshold
	d.refresh()
	return length, nil
}

// key returns the key of a pair.
func (d *Decomposer) key(i, j int) int64 { return d.x[i*d.n+j] + min(d.idleR[i], d.idleC[j]) }

// ceiling returns the least of all rows' largest keys: the threshold of the first stage is
// at most that.
func (d *Decomposer) ceiling(length int64) int64 {
	for i := range d.n {
		best := int64(0)
		for j := range d.n {
			best = max(best, d.key(i, j))
		}
		length = min(length, best)
	}
	return length
}

// refresh finds the pairs whose keys are not below low.
func (d *Decomposer) refresh() {
	n := d.n
	for i := range n {
		idle, threshold := d.idleR[i], d.low
		row, columns := d.x[i*n:(i+1)*n], d.idleC[:n]
		words := d.near[i*d.words : (i+1)*d.words]
		for k := range words {
			word, first, end := uint64(0), k<<6, min(k<<6+64, n)
			columns := columns[first:end]
			for j, x := range row[first:end] {
				short := x + min(idle, columns[j]) - threshold // negative if the key is too small
				word = word>>1 | uint64(^short)&(1<<63)
			}
			words[k] = word >> (64 - uint(end-first))
		}
	}
}

// seat matches a row, along an augmenting path if necessary; it lowers the threshold
// until there is one.
func (d *Decomposer) seat(row int32) {
	column := d.exit(row)
	for column < 0 {
		if column = d.search(row); column < 0 {
			d.fall()
			column = d.exit(row)
		}
	}
	d.free[column>>6] &^= 1 << (column & 63)
	for {
		u := d.from[column]
		d.ofCol[column] = u
		d.ofRow[u], column = column, d.ofRow[u]
		if u == row {
			return
		}
	}
}

// exit returns a free column near a row, or −1.
func (d *Decomposer) exit(u int32) int32 {
	words := d.near[int(u)*d.words:][:d.words]
	for k, free := range d.free[:len(words)] {
		for m := words[k] & free; m != 0; m &= m - 1 {
			j := k<<6 + bits.TrailingZeros64(m)
			key := d.key(int(u), j)
			if key >= d.threshold {
				d.from[j] = u
				return int32(j)
			}
			if key < d.low {
				words[k] &^= m & -m
			}
		}
	}
	return -1
}

// search looks breadth first for a free column to which an alternating path of
// near pairs leads from a row that has no exit, and returns it, or −1. The rows
// reached are then in queue and the columns not reached in fresh.
func (d *Decomposer) search(row int32) int32 {
	fresh := d.fresh
	for k := range fresh {
		fresh[k] = ^d.free[k]
	}
	if tail := d.n & 63; tail != 0 {
		fresh[d.words-1] &= 1<<tail - 1
	}
	d.queue = append(d.queue[:0], row)
	for head := 0; head < len(d.queue); head++ {
		u := d.queue[head]
		words := d.near[int(u)*d.words:][:len(fresh)]
		left, idle := d.x[int(u)*d.n:][:d.n], d.idleR[u]
		for k := range words {
			for m := words[k] & fresh[k]; m != 0; m &= m - 1 {
				j := k<<6 + bits.TrailingZeros64(m)
				if key := left[j] + min(idle, d.idleC[j]); key < d.threshold {
					if key < d.low {
						words[k] &^= m & -m
					}
					continue
				}
				fresh[k] &^= m & -m
				d.from[j] = u
				if column := d.exit(d.ofCol[j]); column >= 0 {
					return column
				}
				d.queue = append(d.queue, d.ofCol[j])
			}
		}
	}
	for k := range fresh {
		fresh[k] |= d.free[k]
	}
	return -1
}

// fall lowers the threshold, at least so far that a search that has just failed
// gets further.
func (d *Decomposer) fall() {
	best := int64(0) // the largest key of a row reached and a column not reached
	for _, u := range d.queue {
		for k, word := range d.fresh {
			for ; word != 0; word &= word - 1 {
				best = max(best, d.key(int(u), k<<6+bits.TrailingZeros64(word)))
			}
		}
	}
	d.threshold = best
	if !d.Longest {
		d.threshold = min(best, less(d.threshold, 15))
	}
	if d.threshold < d.low {
		d.low = d.threshold
		if d.Longest {
			d.low = less(d.threshold, 10) // so that near lasts for some falls
		}
		d.refresh()
	}
}

// less returns a positive number less some per cent of it, at least 1.
func less(v, percent int64) int64 { return v - v/100*percent - v%100*percent/100 }

// cut appends the stage of the current matching with its largest weight, and releases
// the rows whose pairs have become too small.
func (d *Decomposer) cut() int64 {
	n := d.n
	weight := int64(math.MaxInt64)
	for i, j := range d.ofRow {
		weight = min(weight, d.key(i, int(j)))
	}
	d.weights, d.match = append(d.weights, weight), append(d.match, d.ofRow...)
	served, longer := grow(&d.served, n), int64(0)
	for i := range served {
		served[i] = weight
	}
	if d.Serve != nil {
		longer = d.serve(d.match[len(d.match)-n:], weight)
	}
	for i, j := range d.ofRow {
		take := min(served[i], d.x[i*n+int(j)])
		left := d.x[i*n+int(j)] - take
		d.x[i*n+int(j)] = left
		d.idleR[i] -= weight - take
		d.idleC[j] -= weight - take
		if left+min(d.idleR[i], d.idleC[j]) < d.threshold {
			d.ofRow[i], d.ofCol[j] = -1, -1
			d.free[j>>6] |= 1 << (j & 63)
			d.open = append(d.open, int32(i))
		}
	}
	if longer > 0 {
		d.refresh() // keys have risen
	}
	return weight - longer
}

// serve has Serve say what the pairs of a stage are served, and returns how much longer the stages get:
// all rows and columns are given so much more idle time.
func (d *Decomposer) serve(stage []int32, weight int64) (longer int64) {
	late := func(row int, served int64) int64 {
		j := int(d.ofRow[row])
		return weight - min(served, d.x[row*d.n+j]) - min(d.idleR[row], d.idleC[j])
	}
	for i, j := range d.ofRow {
		if d.x[i*d.n+int(j)] == 0 {
			stage[i] = -1
		}
	}
	d.Serve(stage, d.served, late)
	for i, served := range d.served {
		if longer = max(longer, late(i, served)); served == 0 {
			stage[i] = -1
		}
	}
	for i := range d.n {
		d.idleR[i] += longer
		d.idleC[i] += longer
	}
	return longer
}
