package baseline

import "slices"

// matcher finds maximum matchings by the algorithm of Hopcroft and Karp (SIAM J.
// Comput. 2, 1973) in O(E √V). It keeps its scratch memory from call to call. The
// zero value is ready for use; a matcher must not be used by two goroutines at
// once.
type matcher struct {
	left, right []int32 // [vertex] its partner, or −1
	level       []int32 // [left] steps from a free left vertex, or −1
	look        []int32 // [left] first edge not followed yet
	queue, path []int32
}

// match finds a maximum matching of a bipartite graph with some right vertices;
// the neighbours of left vertex u are edges[start[u]:start[u+1]]. It returns the
// partner of each left and each right vertex, or −1, in memory that the
// next call writes over, and the number of pairs. Edges and starts out of range
// make it panic.
func (m *matcher) match(right int, start, edges []int32) (ofLeft, ofRight []int32, size int) {
	n := max(0, len(start)-1)
	ofLeft, ofRight = grown(&m.left, n), grown(&m.right, right)
	for i := range ofLeft {
		ofLeft[i] = -1
	}
	for i := range ofRight {
		ofRight[i] = -1
	}
	grown(&m.level, n)
	grown(&m.look, n)
	for m.layers(start, edges) {
		for u := range int32(n) {
			if ofLeft[u] < 0 && m.augment(start, edges, u) {
				size++
			}
		}
	}
	return ofLeft, ofRight, size
}

// layers sets the levels of the left vertices by a breadth-first search from the
// free ones, up to the level at which a free right vertex turns up, and reports
// whether one does.
func (m *matcher) layers(start, edges []int32) bool {
	queue := m.queue[:0]
	for u, v := range m.left {
		m.level[u] = -1
		if v < 0 {
			m.level[u] = 0
			queue = append(queue, int32(u))
		}
	}
	copy(m.look, start)
	last := int32(-1) // level of the shortest paths, −1 while there is none
	for head := 0; head < len(queue); head++ {
		u := queue[head]
		if last >= 0 && m.level[u] > last {
			break
		}
		for _, v := range edges[start[u]:start[u+1]] {
			if next := m.right[v]; next < 0 {
				last = m.level[u]
			} else if m.level[next] < 0 {
				m.level[next] = m.level[u] + 1
				queue = append(queue, next)
			}
		}
	}
	m.queue = queue
	return last >= 0
}

// augment matches a free left vertex along a path that climbs one level with
// each step, if there is one among the edges not followed yet.
func (m *matcher) augment(start, edges []int32, root int32) bool {
	m.path = append(m.path[:0], root)
	path := m.path // left vertices; each one's edge is at look−1
	defer func() { m.path = path }()
	for len(path) > 0 {
		u := path[len(path)-1]
		if m.look[u] == start[u+1] {
			path = path[:len(path)-1]
			continue
		}
		v := edges[m.look[u]]
		m.look[u]++
		next := m.right[v]
		if next < 0 {
			for _, u := range path {
				v := edges[m.look[u]-1]
				m.left[u], m.right[v] = v, u
			}
			return true
		}
		if m.level[next] == m.level[u]+1 {
			path = append(path, next)
		}
	}
	return false
}

// grown makes room for n elements, with undefined values.
func grown(s *[]int32, n int) []int32 {
	*s = slices.Grow((*s)[:0], n)[:n]
	return *s
}
