package bipartite

import (
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
	parts   [2 << forkDepth][]Arc // what the workers share out, as a binary heap
}

// forkDepth is how many times a graph is halved into parts for several workers:
// into many more parts than workers, so that none waits long for the last.
const forkDepth = 4

// maxEdges is how many edges a graph may have; places and tags of more do not
// fit into 31 bits.
const maxEdges = 1 << 29

// task is a regular part of a graph, what is left of it after some halvings, as
// arcs ordered by left vertex. Its colours are first, first+1, ….
type task struct {
	arcs          []Arc
	degree, first int
}

// Arcs colours a degree-regular multigraph of n left and n right vertices given
// as arcs ordered by Left. It fills match, [colour][left], with right vertices:
// row c, for colours 0 to degree−1, is a perfect matching, and every edge is in
// exactly one row. It returns an error where the arcs are out of order or range
// or the graph is not regular.
func (c *Colourer) Arcs(n, degree int, arcs []Arc, match []int32) error {
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
		w.match, w.tagged, w.mask = match, nil, visited-1
		idle <- w
	}
	var wg sync.WaitGroup
	c.fork(n, 1, task{arcs, degree, 0}, idle, &wg)
	wg.Wait()
	return nil
}

// fork colours part i of the graph with a worker that is idle, and parts below it
// with as many as there are.
func (c *Colourer) fork(n, i int, t task, idle chan *worker, wg *sync.WaitGroup) {
	w := <-idle
	for ; c.Workers > 1 && bits.Len(uint(i)) <= forkDepth && !rowsPay(n, t); i *= 2 {
		a, b := w.halve(n, t, [2][]Arc{c.parts[2*i], c.parts[2*i+1]})
		c.parts[2*i], c.parts[2*i+1] = a.arcs, b.arcs // keep the memory
		other := 2*i + 1
		wg.Go(func() { c.fork(n, other, b, idle, wg) })
		t = a
	}
	w.colourArcs(n, t, 0)
	idle <- w
}

// Rows colours a degree-regular multigraph given as rows, [left][degree], of
// right vertices. It fills match as Arcs does. It returns an error where the
// graph is not regular.
func (c *Colourer) Rows(n, degree int, rows, match []int32) error {
	return c.rows(n, degree, rows, match, false)
}

// Places does as Rows, but fills match with the place of the edge in its row,
// 0 to degree−1, in place of the right vertex there.
func (c *Colourer) Places(n, degree int, rows, match []int32) error {
	return c.rows(n, degree, rows, match, true)
}

func (c *Colourer) rows(n, degree int, rows, match []int32, places bool) error {
	if err := checkRoom(n, degree, len(rows), len(match)); err != nil || n == 0 || degree == 0 {
		return err
	}
	w := c.worker(0)
	w.match, w.tagged, w.mask, w.tagShift = match, nil, visited-1, 32 // no tags
	if places {
		w.tagged, w.tags = rows, degree
		w.tagShift = uint(bits.Len(uint(n<<room(degree) - 1)))
		w.mask = 1<<w.tagShift - 1
	}
	g, spare, bad := w.layOut(n, degree, rows)
	if bad >= 0 {
		return fmt.Errorf("colour a graph of %d×%d vertices and degree %d: edge %d leads to right vertex %d, which does not exist or has all its edges",
			n, n, degree, bad, rows[bad])
	}
	w.colourUnits(g, spare)
	return nil
}

func (c *Colourer) worker(i int) *worker {
	for len(c.scratch) <= i {
		c.scratch = append(c.scratch, new(worker))
	}
	return c.scratch[i]
}

// worker is the scratch memory of one goroutine.
type worker struct {
	match    []int32 // the result, [colour][left]
	tagged   []int32 // the rows whose places are the result, nil where vertices are
	tags     int     // places of such a row
	tagShift uint    // of tags in words
	mask     uint32  // of places in words
	// Halving.
	ends                []uint32   // memory of units
	place               []uint32   // [right] next place to fill
	rest                []Arc      // arcs without a matching
	levels              [][2][]Arc // [depth] the two halves
	mateRight, mateLeft []int32    // [edge] its pair at the right vertex, at the left one
	lastRight, lastLeft []int32    // [vertex] edge that waits for its pair
	side                []bool     // [edge] half that it goes to
	// Perfect matchings; places are those of an adjacency.
	start, end  []int32
	right       []uint32
	count       []int32
	owner       []int32 // [right] left vertex matched with it, −1 for none
	pick, exit  []int32 // [left] place of its matched edge, −1 for none; of its way out in a walk
	look        []int32 // [left] first place not looked at yet
	from, by    []int32 // [right] place and left vertex that a search came from
	open, queue []int32
	random      uint64
}

// rowsPay tells whether a graph costs less as single edges than as arcs.
func rowsPay(n int, t task) bool { return t.degree == 1 || n*t.degree <= 2*len(t.arcs) }

// colourArcs colours a task, by arcs while they pay.
func (w *worker) colourArcs(n int, t task, depth int) {
	if rowsPay(n, t) {
		w.colourUnits(w.unroll(n, t))
		return
	}
	for len(w.levels) <= depth {
		w.levels = append(w.levels, [2][]Arc{})
	}
	a, b := w.halve(n, t, w.levels[depth])
	w.levels[depth] = [2][]Arc{a.arcs, b.arcs} // keep the memory
	w.colourArcs(n, a, depth+1)
	w.colourArcs(n, b, depth+1)
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

// grow returns the slice with n elements of any content.
func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}
