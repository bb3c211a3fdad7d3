package bipartite

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Arc is a number of parallel edges between a left and a right vertex.
type Arc struct{ Left, Right, Count int32 }

// Colourer splits regular bipartite multigraphs into perfect matchings. It keeps
// its scratch memory from call to call. The zero value is ready for use; a
// Colourer must not be used by two goroutines at once.
type Colourer struct {
	// Workers is how many goroutines may work on one graph; less than two means
	// the caller's own. The result does not depend on it.
	Workers int
	scratch []*worker
}

// tasksPerWorker is how many parts a graph is cut into for each worker, so that
// none waits long for the last.
const tasksPerWorker = 4

// task is a degree-regular part of a graph: what is left of it after some
// halvings, as arcs ordered by left vertex. Its colours are first, first+1, ….
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
	if len(match) != n*degree {
		return fmt.Errorf("colour a graph of %d×%d vertices and degree %d: room for %d edges, want %d", n, n, degree, len(match), n*degree)
	}
	w := c.worker(0)
	if err := w.checkArcs(n, degree, arcs); err != nil {
		return err
	}
	if n == 0 || degree == 0 {
		return nil
	}
	first := task{arcs, degree, 0}
	if c.Workers < 2 {
		w.colourArcs(n, first, match, 0)
		return nil
	}
	tasks := w.cut(n, first, match, c.Workers*tasksPerWorker)
	c.run(n, tasks, match)
	return nil
}

// Rows colours a degree-regular multigraph given as rows, [left][degree], of
// right vertices. It fills match as Arcs does, and destroys rows. It returns an
// error where the graph is not regular.
func (c *Colourer) Rows(n, degree int, rows, match []int32) error {
	if len(match) != n*degree || len(rows) != n*degree {
		return fmt.Errorf("colour a graph of %d×%d vertices and degree %d: %d edges and room for %d, want %d",
			n, n, degree, len(rows), len(match), n*degree)
	}
	w := c.worker(0)
	if err := w.checkRows(n, degree, rows); err != nil {
		return err
	}
	if n == 0 || degree == 0 {
		return nil
	}
	w.colourRows(n, degree, 0, rows, grow(&w.spare, n*degree), match)
	return nil
}

// run colours the tasks, the workers taking them in order. Each task writes rows
// of match of its own.
func (c *Colourer) run(n int, tasks []task, match []int32) {
	var next atomic.Int32
	var wg sync.WaitGroup
	for i := range min(c.Workers, len(tasks)) {
		w := c.worker(i)
		wg.Go(func() {
			for j := next.Add(1) - 1; int(j) < len(tasks); j = next.Add(1) - 1 {
				w.colourArcs(n, tasks[j], match, 0)
			}
		})
	}
	wg.Wait()
}

func (c *Colourer) worker(i int) *worker {
	for len(c.scratch) <= i {
		c.scratch = append(c.scratch, new(worker))
	}
	return c.scratch[i]
}

// worker is the scratch memory of one goroutine.
type worker struct {
	rows, spare []int32
	rest        []Arc      // arcs without a matching
	levels      [][2][]Arc // [depth] the two halves
	// Halving.
	mate, mate2 []int32 // [edge] its pair at the right vertex, at the left one
	last, last2 []int32 // [vertex] edge that waits for its pair
	side        []bool  // [edge] half that it goes to
	// Perfect matchings; places are those of an adjacency.
	start, right, count []int32
	owner               []int32 // [right] left vertex matched with it, −1 for none
	pick, exit          []int32 // [left] place of its matched edge, −1 for none; of its way out in a walk
	look                []int32 // [left] first place not looked at yet
	from, by            []int32 // [right] place and left vertex that a search came from
	open, queue         []int32
	random              uint64
}

// rowsPay tells whether a graph costs less as single edges than as arcs.
func rowsPay(n int, t task) bool { return t.degree == 1 || n*t.degree <= 2*len(t.arcs) }

// colourArcs colours a task, by arcs while they pay.
func (w *worker) colourArcs(n int, t task, match []int32, depth int) {
	if rowsPay(n, t) {
		rows := grow(&w.rows, n*t.degree)
		unroll(t.arcs, rows)
		w.colourRows(n, t.degree, t.first, rows, grow(&w.spare, n*t.degree), match)
		return
	}
	for len(w.levels) <= depth {
		w.levels = append(w.levels, [2][]Arc{})
	}
	a, b := w.halve(n, t, match, w.levels[depth])
	w.levels[depth] = [2][]Arc{a.arcs, b.arcs} // keep the memory
	w.colourArcs(n, a, match, depth+1)
	w.colourArcs(n, b, match, depth+1)
}

// cut halves a task until there are the wanted number of parts or arcs do not
// pay any more. How many parts there are has no effect on any part's colours.
func (w *worker) cut(n int, first task, match []int32, wanted int) []task {
	tasks := []task{first}
	for len(tasks) < wanted && !rowsPay(n, tasks[0]) {
		a, b := w.halve(n, tasks[0], match, [2][]Arc{})
		tasks = append(tasks[1:], a, b)
	}
	return tasks
}

// halve takes a perfect matching out of a task of odd degree, as the last of its
// colours, and splits the rest in two, in the memory given.
func (w *worker) halve(n int, t task, match []int32, memory [2][]Arc) (a, b task) {
	arcs, half := t.arcs, t.degree/2
	if t.degree%2 != 0 {
		w.seed(t.first, t.degree)
		last := t.first + t.degree - 1
		w.rest = w.takeFromArcs(n, t.degree, arcs, match[last*n:(last+1)*n], w.rest[:0])
		arcs = w.rest
	}
	toA, toB := w.splitArcs(n, arcs, memory[0], memory[1])
	return task{toA, half, t.first}, task{toB, half, t.first + half}
}

// colourRows colours rows with the colours from first on. It writes over rows
// and spare, which are of the same size.
func (w *worker) colourRows(n, degree, first int, rows, spare, match []int32) {
	if degree > 1 && degree%2 != 0 {
		w.seed(first, degree)
		last := first + degree - 1
		w.takeFromRows(n, degree, rows, match[last*n:(last+1)*n])
		degree--
		rows, spare = rows[:n*degree], spare[:n*degree]
	}
	half := degree / 2
	m := n * half
	switch degree {
	case 1:
		copy(match[first*n:], rows)
	case 2:
		w.splitRows(n, rows, match[first*n:(first+1)*n], match[(first+1)*n:(first+2)*n])
	default:
		w.splitRows(n, rows, spare[:m], spare[m:])
		w.colourRows(n, half, first, spare[:m], rows[:m], match)
		w.colourRows(n, half, first+half, spare[m:], rows[m:], match)
	}
}

// grow returns the slice with n elements of any content.
func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}
