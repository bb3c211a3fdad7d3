package bipartite

import (
	"math"
	"slices"
)

// Lists colours the edges of bipartite multigraphs some of whose vertices lack some colours (list
// edge colouring, a heuristic). It takes the edges one after the other: each gets a colour that is
// free at both its ends or, if there is none, one that becomes free when edges along an alternating
// path exchange two colours (Kempe). If no vertex lacks a colour, and none has more edges than there
// are colours, all edges get one (König). An edge that gets none displaces others, which look for
// colours again. It keeps its scratch memory; it must not be used by two goroutines at once.
type Lists struct {
	colours     int
	lacks       []bool  // [vertex][colour]
	left, right []int32 // [vertex][colour] edge at a left vertex, at a right one, none, or closed
	edges       [][2]int32
	colour      []int32 // [edge], or none
}

const (
	none   = -1
	closed = -2 // a colour that a vertex lacks
)

// displacements is how often, for each edge, one may displace others.
const displacements = 20

// NewLists returns a Lists for graphs of n left and n right vertices. A left vertex and the right one
// of the same number lack the same colours.
func NewLists(n, colours int, lacks func(vertex, colour int) bool) *Lists {
	l := &Lists{colours: colours, lacks: make([]bool, n*colours), left: make([]int32, n*colours), right: make([]int32, n*colours)}
	for at := range l.lacks {
		l.lacks[at] = lacks(at/colours, at%colours)
	}
	return l
}

// colourAll returns the colours of edges: −1 for one that has none. The next call overwrites them.
// Parallel edges should follow one another. More edges may follow, which displace none.
func (l *Lists) colourAll(edges, more [][2]int32) []int32 {
	l.edges, l.colour = slices.Concat(edges, more), l.colour[:0]
	for range l.edges {
		l.colour = append(l.colour, none)
	}
	l.reset()
	l.displace(l.fill(len(edges)))
	l.reset()
	l.fill(len(l.edges))
	return l.colour
}

// reset begins again with the edges that have colours.
func (l *Lists) reset() {
	for at, lacks := range l.lacks {
		l.left[at] = none
		if lacks {
			l.left[at] = closed
		}
	}
	copy(l.right, l.left)
	for at, c := range l.colour {
		if c >= 0 {
			l.set(int32(at), int(c))
		}
	}
}

// fill colours edges up to a number that have no colour, and returns those that find none.
func (l *Lists) fill(next int) (waiting []int32) {
	for at, e := range l.edges[:next] {
		if l.colour[at] >= 0 {
			continue
		}
		if c := l.free(e); c >= 0 {
			l.set(int32(at), c)
		} else {
			waiting = append(waiting, int32(at))
		}
	}
	return waiting
}

// displace colours edges that wait: each takes the colour of at most two others that it has had
// longest ago, and these wait for colours again. In the end as few as ever have none.
func (l *Lists) displace(waiting []int32) {
	had := make([]int, len(l.edges)*l.colours) // [edge][colour] when it last took it
	least, best := len(waiting), slices.Clone(l.colour)
	for round := 1; len(waiting) > 0 && round <= displacements*len(l.edges); round++ {
		if len(waiting) < least {
			least, best = len(waiting), append(best[:0], l.colour...)
		}
		at := waiting[0]
		e := l.edges[at]
		waiting = waiting[1:]
		c := l.free(e)
		if c < 0 {
			c = l.oldest(e, had[int(at)*l.colours:][:l.colours])
		}
		if c < 0 {
			continue // no colour is open at both ends
		}
		for _, other := range []int32{l.left[int(e[0])*l.colours+c], l.right[int(e[1])*l.colours+c]} {
			if other >= 0 && l.colour[other] >= 0 {
				l.clear(other)
				waiting = append(waiting, other)
			}
		}
		l.set(at, c)
		had[int(at)*l.colours+c] = round
	}
	if len(waiting) >= max(1, least) {
		l.colour = best
	}
}

// oldest returns the colour that an edge last took longest ago, rather one of one other than of two,
// or none.
func (l *Lists) oldest(e [2]int32, had []int) int {
	best, least := none, math.MaxInt
	for c, when := range had {
		left, right := l.left[int(e[0])*l.colours+c], l.right[int(e[1])*l.colours+c]
		if left == closed || right == closed {
			continue
		}
		if left >= 0 && right >= 0 {
			when += len(l.edges)
		}
		if when < least {
			best, least = c, when
		}
	}
	return best
}

func (l *Lists) set(at int32, c int) {
	e := l.edges[at]
	l.colour[at], l.left[int(e[0])*l.colours+c], l.right[int(e[1])*l.colours+c] = int32(c), at, at
}

func (l *Lists) clear(at int32) {
	e, c := l.edges[at], int(l.colour[at])
	l.colour[at], l.left[int(e[0])*l.colours+c], l.right[int(e[1])*l.colours+c] = none, none, none
}

// free returns a colour that is free at both ends of an edge, or none.
func (l *Lists) free(e [2]int32) int {
	left, right := l.left[int(e[0])*l.colours:][:l.colours], l.right[int(e[1])*l.colours:][:l.colours]
	for c := range left {
		if left[c] == none && right[c] == none {
			return c
		}
	}
	for a := range left {
		for b := range right {
			if left[a] != none || right[b] != none {
				continue
			}
			if right[a] >= 0 && l.exchange(right[a], a, b, false) {
				return a
			}
			if left[b] >= 0 && l.exchange(left[b], b, a, true) {
				return b
			}
		}
	}
	return none
}

// exchange exchanges colours a and b along the path that begins with an edge of colour a, at its left
// end or its right one. It reports whether all of them may.
func (l *Lists) exchange(first int32, a, b int, left bool) bool {
	var path []int32
	for at, to := first, b; at >= 0; to = a + b - to {
		out, in := l.left[int(l.edges[at][0])*l.colours+to], l.right[int(l.edges[at][1])*l.colours+to]
		if out == closed || in == closed {
			return false
		}
		path = append(path, at)
		if at = out; left {
			at = in
		}
		left = !left
	}
	colours := make([]int, len(path))
	for i, at := range path {
		colours[i] = a + b - int(l.colour[at])
		l.clear(at)
	}
	for i, at := range path {
		l.set(at, colours[i])
	}
	return true
}

// Choose returns the colours of edges, each from a left to a right vertex, the most urgent first: −1
// for an edge without one. It leaves out an edge if those before it use all colours of an end, unless
// they leave it a colour in the end. Of parallel edges, the first get colours.
func (l *Lists) Choose(edges [][2]int32) []int32 {
	room := make([][2]int, len(l.lacks)/l.colours) // [vertex][side] colours
	for v := range room {
		room[v] = [2]int{l.has(v), l.has(v)}
	}
	var chosen, others [][2]int32
	for _, e := range edges {
		left, right := &room[e[0]][0], &room[e[1]][1]
		if *left == 0 || *right == 0 {
			others = append(others, e)
			continue
		}
		*left, *right = *left-1, *right-1
		chosen = append(chosen, e)
	}
	slices.SortFunc(chosen, func(a, b [2]int32) int { return slices.Compare(a[:], b[:]) })
	colours, all := map[[2]int32][]int32{}, slices.Concat(chosen, others)
	for i, c := range l.colourAll(chosen, others) {
		if c >= 0 {
			colours[all[i]] = append(colours[all[i]], c)
		}
	}
	out := make([]int32, len(edges))
	for i, e := range edges {
		if out[i] = none; len(colours[e]) > 0 {
			out[i], colours[e] = colours[e][0], colours[e][1:]
		}
	}
	return out
}

// has is the number of colours that a vertex does not lack.
func (l *Lists) has(v int) (colours int) {
	for _, lacks := range l.lacks[v*l.colours:][:l.colours] {
		if !lacks {
			colours++
		}
	}
	return colours
}
