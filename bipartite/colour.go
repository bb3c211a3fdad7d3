package bipartite

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
)

// Arc is a number of parallel edges between a left and a right vertex.
type Arc struct{ Left, Right, Count int32 }

// Colourer splits regular bipartite multigraphs into perfect matchings. It keeps
// its scratch memory from call to call. The zero value is ready for use; a
// Colourer must not be used by two goroutines at once.
type Colourer struct {
	// Workers is how many goroutines may work on one graph given as arcs; less
	// than two means the caller's own. The result does not depend on it.
	Workers int
	scratch []*worker
	parts   [2 << forkDepth][]Arc // the work of all workers, as a binary heap
}

// forkDepth is how many times a graph is halved into parts for several workers:
// into many more parts than workers, so that none waits long for the last.
const forkDepth = 4

const (
	// maxEdges and maxVertices are how many edges and left vertices a graph may have.
	maxEdges    = 1 << 29
	maxVertices = 1 << vertexBits
	// maxDegree is the highest degree of a graph given as rows.
	maxDegree = 1 << 16
	// chainSteps is how many steps along chains a table may take, for each edge,
	// before its graph is halved instead. A few are normal.
	chainSteps = 8
)

// task is a regular part of a graph after some halvings, as arcs sorted by left
// vertex. Its colours are first, first+1, ….
type task struct {
	arcs          []Arc
	degree, first int
}

// Arcs colours a degree-regular multigraph of n left and n right vertices given
// as arcs ordered by Left. It fills match, [colour][left], with right vertices:
// row c, for colours 0 to degree−1, is a perfect matching, and every edge is in
// exactly one row. It returns an error if the arcs are out of order or range or the
// graph is not regular, and ctx.Err() soon after ctx ends; workers poll ctx
// concurrently.
func (c *Colourer) Arcs(ctx context.Context, n, degree int, arcs []Arc, match []int32) error {
	if err := checkRoom(n, degree, n*degree, len(match)); err != nil {
		return err
	}
	w := c.worker(0)
	if err := w.checkArcs(n, degree, arcs); err != nil {
		return err
	}
	if n == 0 || degree == 0 {
		return nil
	}
	idle := make(chan *worker, max(1, c.Workers))
	for i := range cap(idle) {
		w := c.worker(i)
		w.match = match
		idle <- w
	}
	var wg sync.WaitGroup
	c.fork(ctx, n, 1, task{arcs, degree, 0}, idle, &wg)
	wg.Wait()
	return ctx.Err()
}

// fork colours part i of the graph with a worker that is idle, and parts below it
// with as many as there are.
func (c *Colourer) fork(ctx context.Context, n, i int, t task, idle chan *worker, wg *sync.WaitGroup) {
	w := <-idle
	for ; c.Workers > 1 && bits.Len(uint(i)) <= forkDepth && !tablePays(n, t); i *= 2 {
		a, b := w.halve(n, t, [2][]Arc{c.parts[2*i], c.parts[2*i+1]})
		c.parts[2*i], c.parts[2*i+1] = a.arcs, b.arcs // keep the memory
		other := 2*i + 1
		wg.Go(func() { c.fork(ctx, n, other, b, idle, wg) })
		t = a
	}
	w.colourArcs(ctx, n, t, 0)
	idle <- w
}

// Colours colours a degree-regular multigraph given as rows, [left][degree], of
// right vertices. It fills colour, which is like rows, with the colour of each
// edge, 0 to degree−1: no two edges of a vertex have the same. It returns an error if
// the graph is not regular. Only graphs that are coloured by halves poll ctx; others
// take less than a millisecond.
func (c *Colourer) Colours(ctx context.Context, n, degree int, rows []int32, colour []uint16) error {
	if err := checkRoom(n, degree, len(rows), len(colour)); err != nil || n == 0 || degree == 0 {
		return err
	}
	if degree > maxDegree {
		return fmt.Errorf("colour a graph of %d×%d vertices and degree %d: rows have degree %d at most", n, n, degree, maxDegree)
	}
	w := c.worker(0)
	if degree > tableDegree {
		return w.coloursByArcs(ctx, n, degree, rows, colour)
	}
	end, edge := w.tabulate(n, degree, rows)
	switch end {
	case irregular:
		return fmt.Errorf("colour a graph of %d×%d vertices and degree %d: edge %d leads to right vertex %d, which does not exist or has all its edges",
			n, n, degree, edge, rows[edge])
	case outOfSteps:
		return w.coloursByArcs(ctx, n, degree, rows, colour)
	}
	if n <= narrowVertices {
		w.narrow.colours(colour)
	} else {
		w.wide.colours(colour)
	}
	return nil
}

func (c *Colourer) worker(i int) *worker {
	for len(c.scratch) <= i {
		c.scratch = append(c.scratch, &worker{chainSteps: chainSteps})
	}
	return c.scratch[i]
}

// worker is the scratch memory of one goroutine.
type worker struct {
	match      []int32 // the result, [colour][left]
	chainSteps int     // for each edge of a table
	narrow     table[uint16]
	wide       table[uint32]
	rows       []int32 // of a table
	// Halving.
	arcs                []Arc      // made of rows
	result              []int32    // match made for rows
	rest                []Arc      // arcs without a matching
	levels              [][2][]Arc // [depth] the two halves
	mateRight, mateLeft []int32    // [edge] its pair at the right vertex, at the left one
	lastRight, lastLeft []int32    // [vertex] edge that waits for its pair
	side                []bool     // [edge] half that it goes to
	// Perfect matchings.
	start, end  []int32
	owner       []int32 // [right] left vertex matched with it, −1 if none
	pick, exit  []int32 // [left] its matched arc, −1 if none; its way out in a walk
	look        []int32 // [left] first arc not looked at yet
	from, by    []int32 // [right] arc and left vertex that a search came from
	open, queue []int32
	random      uint64
}

// tabulate colours rows by a table.
func (w *worker) tabulate(n, degree int, rows []int32) (end outcome, edge int) {
	if steps := w.chainSteps * n * degree; n <= narrowVertices {
		return w.narrow.colour(n, degree, rows, steps)
	}
	return w.wide.colour(n, degree, rows, w.chainSteps*n*degree)
}

// tablePays reports whether a graph costs less by a table than by halving it first: four
// edges in a table cost about as much as an arc on its way there.
func tablePays(n int, t task) bool {
	return t.degree <= tableDegree && n*t.degree <= 4*len(t.arcs)
}

// colourArcs colours a task: by a table if that pays and chains stay short, or
// else by halves. It does nothing once ctx has ended.
func (w *worker) colourArcs(ctx context.Context, n int, t task, depth int) {
	if ctx.Err() != nil {
		return
	}
	if tablePays(n, t) {
		if end, _ := w.tabulate(n, t.degree, w.unroll(n, t)); end == coloured {
			match := w.match[t.first*n : (t.first+t.degree)*n]
			if n <= narrowVertices {
				w.narrow.matches(match)
			} else {
				w.wide.matches(match)
			}
			return
		}
	}
	for len(w.levels) <= depth {
		w.levels = append(w.levels, [2][]Arc{})
	}
	a, b := w.halve(n, t, w.levels[depth])
	w.levels[depth] = [2][]Arc{a.arcs, b.arcs} // keep the memory
	w.colourArcs(ctx, n, a, depth+1)
	w.colourArcs(ctx, n, b, depth+1)
}

// unroll makes rows of the arcs of a task.
func (w *worker) unroll(n int, t task) []int32 {
	rows := grow(&w.rows, n*t.degree)
	at := 0
	for _, arc := range t.arcs {
		for range arc.Count {
			rows[at] = arc.Right
			at++
		}
	}
	return rows
}

// halve takes a perfect matching out of a task of odd degree, as the last of its
// colours, and splits the rest in two, in the memory given.
func (w *worker) halve(n int, t task, memory [2][]Arc) (a, b task) {
	arcs, half := t.arcs, t.degree/2
	if t.degree%2 != 0 {
		w.seed(t.first, t.degree)
		last := t.first + t.degree - 1
		w.rest = w.takeFromArcs(n, t.degree, arcs, w.match[last*n:(last+1)*n], w.rest[:0])
		arcs = w.rest
	}
	toA, toB := w.splitArcs(n, arcs, memory[0], memory[1])
	return task{toA, half, t.first}, task{toB, half, t.first + half}
}

// coloursByArcs is Colours by halves.
func (w *worker) coloursByArcs(ctx context.Context, n, degree int, rows []int32, colour []uint16) error {
	arcs := grow(&w.arcs, len(rows))
	for i, v := range rows {
		arcs[i] = Arc{int32(i / degree), v, 1}
	}
	if err := w.checkArcs(n, degree, arcs); err != nil {
		return err
	}
	w.match = grow(&w.result, len(rows))
	w.colourArcs(ctx, n, task{arcs, degree, 0}, 0)
	if err := ctx.Err(); err != nil {
		return err
	}
	last, same := grow(&w.owner, n), grow(&w.from, degree) // [right] the last colour seen; [colour] the one seen before
	for v := range last {
		last[v] = -1
	}
	for u := range n {
		for c := range degree {
			v := w.match[c*n+u]
			last[v], same[c] = int32(c), last[v]
		}
		for j, v := range rows[u*degree:][:degree] {
			colour[u*degree+j] = uint16(last[v])
			last[v] = same[last[v]]
		}
	}
	return nil
}

// grow returns the slice with n elements of any content.
func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}
