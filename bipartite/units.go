package bipartite

// units is a regular graph of single edges that knows the pairs of its halving by
// position. The edges of left vertex u are at the left places u<<k, u<<k+1, …,
// those of right vertex v at the right places v<<k, v<<k+1, …, and each end tells
// the place of the other. Places 2i and 2i+1 are a pair; when the graph is halved,
// one edge of each pair goes to place i of either half. A vertex has room for 1<<k
// edges, at least as many as its degree, so that pairs stay pairs all the way
// down; the rest of the room is never looked at.
type units struct {
	right  []uint32 // [left place] right place, and above it the edge's tag
	left   []uint32 // [right place] left place
	k      uint
	degree int
	first  int // its colours are first, first+1, …
}

// visited marks the first place of a left pair that went to the halves.
const visited = 1 << 31

// room returns the part of a graph's memory in which one of its halves, 0 or 1,
// or what comes of that half, has room.
func (g *units) room(half int) units {
	m := len(g.right) / 2
	return units{right: g.right[half*m:][:m], left: g.left[half*m:][:m], k: g.k - 1}
}

// layOut makes a graph of rows, [left][degree] of right vertices, in memory of
// its own, with room to work in beside it. It returns the edge that leads to no
// vertex or to one that has all its edges, or −1.
func (w *worker) layOut(n, degree int, rows []int32) (g, spare units, bad int) {
	g, spare = w.memory(n, degree, 0)
	k, shift := g.k, w.tagShift
	next := w.next(n, k)
	for u := range n {
		row, right := rows[u*degree:][:degree], g.right[u<<k:][:degree]
		for j, v := range row {
			if uint32(v) >= uint32(n) || next[v] == uint32(v)<<k+uint32(degree) {
				return g, spare, u*degree + j
			}
			r := next[v]
			next[v]++
			right[j], g.left[r] = r|uint32(j)<<shift, uint32(u<<k+j)
		}
	}
	return g, spare, -1
}

// unroll makes a graph of the arcs of a task, which is regular.
func (w *worker) unroll(n int, t task) (g, spare units) {
	g, spare = w.memory(n, t.degree, t.first)
	next := w.next(n, g.k)
	u, l := int32(-1), uint32(0)
	for _, arc := range t.arcs {
		if arc.Left != u {
			u, l = arc.Left, uint32(arc.Left)<<g.k
		}
		r := next[arc.Right]
		next[arc.Right] += uint32(arc.Count)
		for end := l + uint32(arc.Count); l < end; l, r = l+1, r+1 {
			g.right[l], g.left[r] = r, l
		}
	}
	return g, spare
}

// memory returns memory for a graph, and as much to work in.
func (w *worker) memory(n, degree, first int) (g, spare units) {
	k := room(degree)
	grow(&w.ends, 4*n<<k)
	m := n << k
	g = units{right: w.ends[:m], left: w.ends[m : 2*m], k: k, degree: degree, first: first}
	spare = units{right: w.ends[2*m : 3*m], left: w.ends[3*m:], k: k}
	return g, spare
}

// next returns the first right place of each vertex.
func (w *worker) next(n int, k uint) []uint32 {
	next := grow(&w.place, n)
	for v := range next {
		next[v] = uint32(v) << k
	}
	return next
}

// colourUnits colours a graph. It writes over the graph and the spare memory,
// which is of the same size. Of odd degree, a perfect matching comes out first.
// The second half borrows matchings from the first, so that less of them have to
// be searched for.
func (w *worker) colourUnits(g, spare units) {
	if g.degree > 1 && g.degree%2 != 0 {
		w.seed(g.first, g.degree)
		w.takeFromUnits(&g)
	}
	switch g.degree {
	case 1:
		w.finish(g)
	case 2:
		w.splitLast(g)
	default:
		a, b := spare.room(0), spare.room(1)
		w.split(g, a, b)
		half := g.degree / 2
		a.degree, a.first = half, g.first
		b.degree, b.first = half, g.first+half
		w.colourUnits(a, g.room(0))
		w.lend(&b, loan(half))
		w.colourUnits(b, g.room(1))
	}
}

// split halves a graph of even degree: along the cycles of pairs, its edges go to
// a and b in turn. A cycle is followed from its first pair both ways at once,
// which are two independent chains of loads, until one meets the other's trail.
func (w *worker) split(g, a, b units) {
	mask := w.mask
	right, left := g.right, g.left
	for row := 0; row < len(right); row += 1 << g.k {
		for first := uint32(row); first < uint32(row+g.degree); first += 2 {
			toA, toB := right[first], right[first+1]
			if toA >= visited {
				continue
			}
			right[first] = visited
			on, back := left[toB&mask^1], left[toA&mask^1] // edges for a, b
			for at := first; ; {
				i, ra, rb := at>>1, toA&mask>>1, toB&mask>>1
				a.right[i], b.right[i] = toA&^mask|ra, toB&^mask|rb
				a.left[ra], b.left[rb] = i, i
				toA, toB = right[on], right[on^1]
				if int32(toA|toB) < 0 {
					break
				}
				right[on&^1] = visited
				i, ra, rb = on>>1, toA&mask>>1, toB&mask>>1
				a.right[i], b.right[i] = toA&^mask|ra, toB&^mask|rb
				a.left[ra], b.left[rb] = i, i
				on = left[toB&mask^1]
				toA, toB = right[back^1], right[back]
				if int32(toA|toB) < 0 {
					break
				}
				right[back&^1] = visited
				at, back = back, left[toA&mask^1]
			}
		}
	}
}

// splitLast halves a graph of degree 2 into the two matchings that it consists of.
func (w *worker) splitLast(g units) {
	mask, k, out := w.mask, g.k, w.outShift(g.k)
	right, left := g.right, g.left
	n := len(right) >> k
	a, b := w.match[g.first*n:][:n], w.match[(g.first+1)*n:][:n]
	for row := 0; row < len(right); row += 1 << k {
		first := uint32(row)
		toA, toB := right[first], right[first+1]
		if toA >= visited {
			continue
		}
		right[first] = visited
		on, back := left[toB&mask^1], left[toA&mask^1] // edges for a, b
		for at := first; ; {
			u := at >> k
			a[u], b[u] = int32(toA>>out), int32(toB>>out)
			toA, toB = right[on], right[on^1]
			if int32(toA|toB) < 0 {
				break
			}
			right[on&^1] = visited
			u = on >> k
			a[u], b[u] = int32(toA>>out), int32(toB>>out)
			on = left[toB&mask^1]
			toA, toB = right[back^1], right[back]
			if int32(toA|toB) < 0 {
				break
			}
			right[back&^1] = visited
			at, back = back, left[toA&mask^1]
		}
	}
}

// finish writes a graph of degree 1 to the result.
func (w *worker) finish(g units) {
	out := w.outShift(g.k)
	n := len(g.right) >> g.k
	for u, match := 0, w.match[g.first*n:][:n]; u < n; u++ {
		match[u] = int32(g.right[u<<g.k] >> out)
	}
}

// outShift is how far a right place with its tag is shifted to give the result:
// the right vertex, or the tag.
func (w *worker) outShift(k uint) uint {
	if w.tagged != nil {
		return w.tagShift
	}
	return k
}

// takeFromUnits takes a perfect matching out of a graph, as the last of its
// colours. The last edges of its vertices move to the places left empty.
func (w *worker) takeFromUnits(g *units) {
	n, k, mask, out := len(g.right)>>g.k, g.k, w.mask, w.outShift(g.k)
	start, end := grow(&w.start, n), grow(&w.end, n)
	for u := range start {
		start[u] = int32(u << k)
		end[u] = int32(u<<k + g.degree)
	}
	w.perfect(n, &adjacency{degree: int32(g.degree), start: start, end: end, right: g.right, mask: mask, k: k})
	g.degree--
	right, left := g.right, g.left
	match := w.match[(g.first+g.degree)*n:][:n]
	for u, i := range w.pick[:n] {
		to := right[i]
		match[u] = int32(to >> out)
		if last := int32(u<<k + g.degree); i != last {
			right[i] = right[last]
			left[right[i]&mask] = uint32(i)
		}
		r := to & mask
		if last := r>>k<<k + uint32(g.degree); r != last {
			l := left[last]
			left[r], right[l] = l, right[l]&^mask|r
		}
	}
}

// lend adds some matchings found last, those of the colours right below the
// graph's, to a graph, which has to colour them again.
func (w *worker) lend(g *units, matchings int) {
	n, k := len(g.right)>>g.k, g.k
	for range matchings {
		g.first--
		j := uint32(g.degree)
		for u, to := range w.match[g.first*n:][:n] {
			v, tag := uint32(to), uint32(0)
			if w.tagged != nil {
				v, tag = uint32(w.tagged[u*w.tags+int(to)]), uint32(to)<<w.tagShift
			}
			l, r := uint32(u)<<k+j, v<<k+j
			g.right[l], g.left[r] = r|tag, l
		}
		g.degree++
	}
}
