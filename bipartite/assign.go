package bipartite

import (
	"fmt"
	"math"
)

// Assigner solves linear assignment problems by shortest augmenting paths with
// potentials (Jonker and Volgenant, Computing 38, 1987) in O(n³). It keeps its
// scratch memory from call to call. The zero value is ready for use; an Assigner
// must not be used by two goroutines at once.
type Assigner struct {
	ofRow, ofColumn []int32 // partners; columns have one more, for the root
	price           []int64 // [column] potential
	distance        []int64 // [column] from the root, reduced costs
	from            []int32 // [column] its predecessor on the shortest path
	done            []bool  // [column] its distance is final
}

// maxCost keeps sums of costs and potentials within 64 bits.
const maxCost = math.MaxInt64 >> 22

// Assign assigns each of n rows a different column such that the sum of cost,
// [row][column], is least. It returns the column of each row, which the next call
// overwrites, and the sum. It fails if the absolute value of a cost exceeds 2^41 or n
// exceeds 2^20.
func (a *Assigner) Assign(n int, cost []int64) (columns []int32, sum int64, err error) {
	if len(cost) != n*n || n > 1<<20 {
		return nil, 0, fmt.Errorf("assign %d rows: %d costs are given, want %d, for 1048576 rows at most", n, len(cost), n*n)
	}
	for i, c := range cost {
		if c > maxCost || c < -maxCost {
			return nil, 0, fmt.Errorf("assign row %d to column %d: cost %d is beyond ±%d", i/n, i%n, c, int64(maxCost))
		}
	}
	grow(&a.ofRow, n)
	grow(&a.price, n)
	for j := range n {
		a.price[j] = math.MaxInt64
	}
	for row := range n {
		for j, c := range cost[row*n : (row+1)*n] {
			a.price[j] = min(a.price[j], c)
		}
	}
	for j := range grow(&a.ofColumn, n+1) {
		a.ofColumn[j] = -1
	}
	grow(&a.distance, n+1)
	grow(&a.from, n+1)
	grow(&a.done, n+1)
	for row := range n {
		a.insert(n, cost, int32(row))
	}
	for j, row := range a.ofColumn[:n] {
		a.ofRow[row] = int32(j)
		sum += cost[int(row)*n+j]
	}
	return a.ofRow, sum, nil
}

// insert assigns one more row, along a shortest path from it to a free column.
// Column n stands for the root.
func (a *Assigner) insert(n int, cost []int64, row int32) {
	for j := range n {
		a.distance[j] = math.MaxInt64
	}
	clear(a.done)
	a.ofColumn[n], a.distance[n] = row, 0
	at := n
	for a.ofColumn[at] >= 0 {
		a.done[at] = true
		i := int(a.ofColumn[at])
		// Edges of the matching have reduced cost 0: cost − price is the row's potential.
		base := a.distance[at]
		if at < n {
			base -= cost[i*n+at] - a.price[at]
		}
		next := -1
		for j, c := range cost[i*n : (i+1)*n] {
			if a.done[j] {
				continue
			}
			if d := base + c - a.price[j]; d < a.distance[j] {
				a.distance[j], a.from[j] = d, int32(at)
			}
			if next < 0 || a.distance[j] < a.distance[next] {
				next = j
			}
		}
		at = next
	}
	end := a.distance[at]
	for j := range n {
		if a.done[j] {
			a.price[j] += a.distance[j] - end
		}
	}
	for at != n {
		before := a.from[at]
		a.ofColumn[at] = a.ofColumn[before]
		at = int(before)
	}
	a.ofColumn[n] = -1
}
