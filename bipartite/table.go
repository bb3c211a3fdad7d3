package bipartite

import "math/bits"

const (
	// tableDegree is the highest degree of a table: a vertex's colours are the
	// bits of a word.
	tableDegree = 64
	// vertexBits is the number of bits of a word for the right vertex; those above are
	// the place of the edge in its row.
	vertexBits = 26
	vertexMask = 1<<vertexBits - 1
	// narrowVertices is how many left vertices a narrow table may have.
	narrowVertices = 1 << 16
)

// table colours a regular graph of degree at most tableDegree, row by row. It is
// narrow or wide by the type V that left vertices have.
type table[V uint16 | uint32] struct {
	n, degree int
	k         uint     // a vertex has room for 1<<k colours, at least its degree
	steps     int      // left for chains
	free      []uint64 // [right] colours not used yet, as bits
	right     []uint32 // [left<<k + colour] right vertex, and the edge's place in its row
	left      []V      // [right<<k + colour] left vertex
	row       row
}

// row is the current row.
type row struct {
	free   uint64                 // colours not used yet, as bits
	masks  [tableDegree]uint64    // [place] colours free at its right vertex, as bits
	places [2 * tableDegree]uint8 // [colour] place; entry tableDegree is for no colour
	late   [tableDegree]uint8     // places without a colour
}

// outcome is the result of colouring a table.
type outcome int

const (
	coloured  outcome = iota
	irregular         // an edge leads to no vertex, or to one that has all its edges
	outOfSteps
)

// colour colours a graph of n left and n right vertices given as rows, [left]
// [degree] of right vertices, with chains of at most the given number of steps
// in all. If the graph is irregular, it returns an edge that proves it.
func (t *table[V]) colour(n, degree int, rows []int32, steps int) (end outcome, edge int) {
	t.n, t.degree, t.k, t.steps = n, degree, uint(bits.Len(uint(degree-1)))&7, steps
	all := ^uint64(0) >> (tableDegree - uint(degree))
	free := grow(&t.free, n)
	for v := range free {
		free[v] = all
	}
	grow(&t.right, n<<t.k)
	grow(&t.left, n<<t.k)
	for u := range n {
		row := rows[u*degree:][:degree]
		late, bad := t.fit(row, all)
		if bad >= 0 {
			return irregular, u*degree + bad
		}
		if late > 0 {
			late = t.row.rearrange(late)
		}
		t.enter(u, row, late > 0)
		for _, j := range t.row.late[:late] {
			v := uint32(row[j])
			if t.free[v] == 0 {
				return irregular, u*degree + int(j)
			}
			if !t.force(uint32(u), uint32(j)<<vertexBits|v) {
				return outOfSteps, 0
			}
		}
	}
	return coloured, 0
}

// fit gives each edge of a row the first colour that is free at both its ends, if any,
// and returns how many are late. It returns the place of an edge that leads to no
// vertex, or −1.
func (t *table[V]) fit(row []int32, all uint64) (late, bad int) {
	r, right, free := &t.row, t.free, all
	for j, v := range row {
		if uint32(v) >= uint32(len(right)) {
			return 0, j
		}
		m := right[v]
		r.masks[j&(tableDegree-1)] = m
		m &= free
		first := m & -m // 0 if none
		r.places[bits.TrailingZeros64(m)&(2*tableDegree-1)] = uint8(j)
		r.late[late&(tableDegree-1)] = uint8(j)
		late += int(^(m | -m) >> 63)
		free &^= first
	}
	r.free = free
	return late, -1
}

// rearrange gives late edges of a row colours that other edges of the row can give
// up for one that is free. It returns how many are still late: few, and longer
// searches for these cost more than their chains.
func (r *row) rearrange(late int) int {
	const mask = tableDegree - 1
	still := 0
next:
	for _, j := range r.late[:late] {
		for m := r.masks[j&mask]; m != 0; m &= m - 1 {
			c := bits.TrailingZeros64(m)
			way := r.places[c&mask]
			if open := r.masks[way&mask] & r.free; open != 0 {
				r.free &^= open & -open
				r.places[bits.TrailingZeros64(open)&mask], r.places[c&mask] = way, j
				continue next
			}
		}
		r.late[still&mask] = j
		still++
	}
	return still
}

// enter enters the colours of the row of u.
func (t *table[V]) enter(u int, row []int32, gaps bool) {
	r, k := &t.row, t.k&7
	left, free := t.left, t.free
	right := t.right[u<<k:][:t.degree]
	for c := range right {
		if gaps && r.free>>(c&63)&1 != 0 {
			continue
		}
		j := r.places[c&(tableDegree-1)]
		v := uint32(row[j])
		right[c] = uint32(j)<<vertexBits | v
		left[v<<k+uint32(c)] = V(u)
		free[v] &^= 1 << (c & 63)
	}
}

// matches writes the right vertices by colour to match, [colour][left].
func (t *table[V]) matches(match []int32) {
	const line = 16 // values of a cache line
	for first := 0; first < t.n; first += line {
		end := min(first+line, t.n)
		for c := range t.degree {
			at := first<<t.k + c
			for u := range match[c*t.n+first : c*t.n+end] {
				match[c*t.n+first+u] = int32(t.right[at] & vertexMask)
				at += 1 << t.k
			}
		}
	}
}

// colours writes the colour of each edge to colour, [left][degree].
func (t *table[V]) colours(colour []uint16) {
	for u := range t.n {
		row := colour[u*t.degree:][:t.degree]
		for c, word := range t.right[u<<t.k:][:t.degree] {
			row[word>>vertexBits] = uint16(c)
		}
	}
}
