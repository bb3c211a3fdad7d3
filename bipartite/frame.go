package bipartite

import "context"

// Frame is a bipartite multigraph that is made regular and coloured: its edges are things to
// be done, each vertex can do one of them at a time, and colours are times. Vertices that
// belong to nothing (dummies) keep others idle, and edges that stand for nothing fill the
// room that is left.
type Frame struct {
	Degree      int32
	Left, Right *Side
	Arcs        []Arc // in any order
}

// Side is the vertices of a side of a Frame.
type Side struct {
	Of   []int32 // [vertex] what it belongs to, −1 for a dummy
	Room []int32 // [vertex] edges that it lacks
}

// Add adds a vertex and returns it.
func (s *Side) Add(of, room int32) int32 {
	s.Of, s.Room = append(s.Of, of), append(s.Room, room)
	return int32(len(s.Of) - 1)
}

// Fit takes the room for so many edges of the first vertex from first on that has as much, or
// of a new vertex of the given room, and returns the vertex (first-fit bin packing).
func (s *Side) Fit(first, edges, of, room int32) int32 {
	v := first
	for int(v) < len(s.Room) && s.Room[v] < edges {
		v++
	}
	if int(v) == len(s.Room) {
		v = s.Add(of, room)
	}
	s.Room[v] -= edges
	return v
}

// Dummy adds a vertex that belongs to nothing, and returns it.
func (f *Frame) Dummy(s *Side) int32 { return s.Add(-1, f.Degree) }

// Join adds edges between two vertices, as many as both have room for, at most count, and
// returns how many.
func (f *Frame) Join(u, v, count int32) int32 {
	x := min(f.Left.Room[u], f.Right.Room[v], count)
	if x > 0 {
		f.Arcs = append(f.Arcs, Arc{u, v, x})
		f.Left.Room[u] -= x
		f.Right.Room[v] -= x
	}
	return x
}

// Pour joins left vertices from u to before uEnd to right vertices from v to before vEnd as
// far as both have room, with at most count edges (north-west corner rule).
func (f *Frame) Pour(u, uEnd, v, vEnd, count int32) {
	for count > 0 && u < uEnd && v < vEnd {
		count -= f.Join(u, v, count)
		if f.Left.Room[u] == 0 {
			u++
		} else {
			v++
		}
	}
}

// Even adds dummies until both sides have as many vertices, and returns how many.
func (f *Frame) Even() int {
	for len(f.Left.Of) < len(f.Right.Of) {
		f.Dummy(f.Left)
	}
	for len(f.Right.Of) < len(f.Left.Of) {
		f.Dummy(f.Right)
	}
	return len(f.Left.Of)
}

// Fill makes the graph regular, and returns the number of vertices of a side.
func (f *Frame) Fill() int {
	n := f.Even()
	f.Pour(0, int32(n), 0, int32(n), int32(n)*f.Degree)
	return n
}

// Colour makes the graph regular and fills match, [colour][left], with right vertices, as
// Colourer.Arcs does.
func (f *Frame) Colour(ctx context.Context, c *Colourer, match []int32) error {
	n := f.Fill()
	return c.Arcs(ctx, n, int(f.Degree), ByLeft(n, f.Arcs), match)
}
