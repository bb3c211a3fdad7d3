package bipartite

// splitArcs halves a graph of even degree. Of an arc's edges half go to either
// side, and those left over, which are an even number at each vertex, are split
// as single edges. It writes over a and b.
func (w *worker) splitArcs(n int, arcs, a, b []Arc) ([]Arc, []Arc) {
	a, b = grow(&a, len(arcs))[:0], grow(&b, len(arcs))[:0]
	right, left := grow(&w.mateRight, len(arcs)+1), grow(&w.mateLeft, len(arcs)+1)
	lastRight, lastLeft := grow(&w.lastRight, n), grow(&w.lastLeft, n)
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
