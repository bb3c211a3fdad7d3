package bipartite

import "fmt"

// checkRoom checks the numbers of edges of a graph and of places for them.
func checkRoom(n, degree, edges, room int) error {
	if edges != n*degree || room != edges || edges > maxEdges || n > maxVertices {
		return fmt.Errorf("colour a graph of %d×%d vertices and degree %d: %d edges and room for %d, want %d; at most %d edges and %d vertices a side can be had",
			n, n, degree, edges, room, n*degree, maxEdges, maxVertices)
	}
	return nil
}

// checkArcs checks that arcs form a regular graph.
func (w *worker) checkArcs(n, degree int, arcs []Arc) error {
	in := grow(&w.lastRight, n)
	clear(in)
	at, out := int32(0), degree // the current left vertex and its remaining edges
	for i, arc := range arcs {
		for arc.Left > at && out == 0 {
			at, out = at+1, degree
		}
		if arc.Left != at || arc.Left >= int32(n) || arc.Right < 0 || arc.Right >= int32(n) || arc.Count <= 0 || int(arc.Count) > out {
			return fmt.Errorf("colour a graph of %d×%d vertices and degree %d: arc %d, %d edges from %d to %d, does not follow %d of %d edges at %d",
				n, n, degree, i, arc.Count, arc.Left, arc.Right, degree-out, degree, at)
		}
		out -= int(arc.Count)
		in[arc.Right] += arc.Count
	}
	if n > 0 && degree > 0 && (out != 0 || int(at) != n-1) {
		return fmt.Errorf("colour a graph of %d×%d vertices and degree %d: the arcs end at left vertex %d with %d edges missing", n, n, degree, at, out)
	}
	for v, d := range in {
		if int(d) != degree {
			return fmt.Errorf("colour a graph of %d×%d vertices and degree %d: right vertex %d has %d edges", n, n, degree, v, d)
		}
	}
	return nil
}
