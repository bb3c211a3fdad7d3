package bipartite

// splitRows halves a graph of even degree: the edges of two neighbouring places
// of a row are a pair at their left vertex, edges at a right vertex are paired
// in order, and along the cycles of pairs they go to a and b in turn. Pair i of
// the rows leaves one edge in place i of a and the other in place i of b, so
// both are rows again.
func (w *worker) splitRows(n int, rows, a, b []int32) {
	// Edge e is at place e−2 of rows: edge 0 stands for no edge, and the edges of
	// a left pair still differ in the last bit.
	m := len(rows)
	mate := grow(&w.mate, m+2)
	last := grow(&w.last, n)
	clear(last)
	for i, v := range rows {
		e := int32(i + 2)
		f := last[v]
		mate[e] = f
		mate[f] = e                   // where f is 0 nobody looks
		last[v] = e & ((f - 1) >> 31) // e if f was 0, otherwise 0
	}
	a, b = a[:m/2], b[:m/2]
	for pair := 2; pair < len(mate); pair += 2 {
		if mate[pair] < 0 {
			continue
		}
		e := uint32(pair)
		for {
			i := e>>1 - 1
			a[i], b[i] = rows[e-2], rows[e^1-2]
			next := mate[e^1]
			mate[e&^1] = -1 // been here
			if e = uint32(next); e == uint32(pair) {
				break
			}
		}
	}
}

// splitArcs halves a graph of even degree. Of an arc's edges half go to either
// side, and those left over, which are an even number at each vertex, are split
// as single edges. It writes over a and b.
func (w *worker) splitArcs(n int, arcs, a, b []Arc) ([]Arc, []Arc) {
	a, b = grow(&a, len(arcs))[:0], grow(&b, len(arcs))[:0]
	right, left := grow(&w.mate, len(arcs)+1), grow(&w.mate2, len(arcs)+1)
	lastRight, lastLeft := grow(&w.last, n), grow(&w.last2, n)
	clear(lastRight)
	clear(lastLeft)
	odd := int32(0) // edges left over are 1, 2, …
	for i := range arcs {
		if arcs[i].Count&1 == 0 {
			continue
		}
		odd++
		u, v := arcs[i].Left, arcs[i].Right
		f := lastRight[v]
		right[odd], right[f] = f, odd
		lastRight[v] = odd & ((f - 1) >> 31)
		f = lastLeft[u]
		left[odd], left[f] = f, odd
		lastLeft[u] = odd & ((f - 1) >> 31)
	}
	side := grow(&w.side, int(odd)+1)
	for first := int32(1); first <= odd; first++ {
		if left[first] < 0 {
			continue
		}
		for e := first; ; {
			f := left[e]
			side[e], side[f] = false, true
			left[e], left[f] = -1, -1
			if e = right[f]; e == first {
				break
			}
		}
	}
	odd = 0
	for _, arc := range arcs {
		toA := arc.Count / 2
		toB := toA
		if arc.Count&1 != 0 {
			odd++
			if side[odd] {
				toB++
			} else {
				toA++
			}
		}
		if toA > 0 {
			a = append(a, Arc{arc.Left, arc.Right, toA})
		}
		if toB > 0 {
			b = append(b, Arc{arc.Left, arc.Right, toB})
		}
	}
	return a, b
}

// unroll writes arcs, ordered by left vertex, as rows.
func unroll(arcs []Arc, rows []int32) {
	i := 0
	for _, arc := range arcs {
		for range arc.Count {
			rows[i] = arc.Right
			i++
		}
	}
}
