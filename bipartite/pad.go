package bipartite

// Sums returns the row and column sums of a matrix of n rows and columns, [row][column],
// and the largest of them.
func Sums(n int, x []int64) (rows, columns []int64, most int64) {
	rows, columns = make([]int64, n), make([]int64, n)
	for i := range n {
		for j, v := range x[i*n : (i+1)*n] {
			rows[i] += v
			columns[j] += v
		}
	}
	for i := range n {
		most = max(most, rows[i], columns[i])
	}
	return rows, columns, most
}

// Pad raises entries of a matrix of n rows and columns, [row][column], until every row and
// column has the largest of their sums, or the least sum given if that is larger. It starts
// with the first row and column with room, and returns the new matrix and the sum. No entry
// may be negative, and no sum may exceed 2^62.
func Pad(n int, x []int64, least int64) (padded []int64, sum int64) {
	padded = append(make([]int64, 0, n*n), x...)
	rows, columns, sum := Sums(n, x)
	sum = max(sum, least)
	for i, j := 0, 0; i < n && j < n; {
		idle := min(sum-rows[i], sum-columns[j])
		padded[i*n+j] += idle
		rows[i] += idle
		columns[j] += idle
		if rows[i] == sum {
			i++
		} else {
			j++
		}
	}
	return padded, sum
}

// ArcsOf appends the nonzero entries of a matrix of n rows to arcs, in the order that
// Colourer requires. None may exceed 2^31−1.
func ArcsOf(n int, x []int64, arcs []Arc) []Arc {
	for at, v := range x {
		if v > 0 {
			arcs = append(arcs, Arc{Left: int32(at / n), Right: int32(at % n), Count: int32(v)})
		}
	}
	return arcs
}

// ByLeft sorts arcs stably by their left vertex, of which there are n.
func ByLeft(n int, arcs []Arc) []Arc {
	at := make([]int32, n+1)
	for _, a := range arcs {
		at[a.Left+1]++
	}
	for u := range n {
		at[u+1] += at[u]
	}
	sorted := make([]Arc, len(arcs))
	for _, a := range arcs {
		sorted[at[a.Left]] = a
		at[a.Left]++
	}
	return sorted
}
