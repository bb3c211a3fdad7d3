package ilp

import "github.com/forsd/forsd/fors"

// colouring assigns lanes as colours to the edges of a bipartite multigraph of source
// and destination leaves, such that no two edges of a leaf share one. By König's
// theorem as many lanes suffice as the largest degree of a leaf.
type colouring struct {
	leaves int
	lanes  []fors.Lane
	from   []int // [edge]
	to     []int // [edge]
	at     []int // [end·len(lanes)+colour] edge or −1; sources first, then destinations
	colour []int // [edge] index into lanes
}

func newColouring(leaves int, lanes []fors.Lane) *colouring {
	c := &colouring{leaves: leaves, lanes: lanes, at: make([]int, 2*leaves*len(lanes))}
	for i := range c.at {
		c.at[i] = -1
	}
	return c
}

// add colours one more edge and recolours others if necessary; it reports false, and
// changes nothing, if an end already has an edge of every colour.
func (c *colouring) add(from, to int) bool {
	a, b := from, c.leaves+to
	x, y := c.free(a), c.free(b)
	if x < 0 || y < 0 {
		return false
	}
	if x != y {
		c.flip(b, x, y)
	}
	edge := len(c.from)
	c.from, c.to, c.colour = append(c.from, from), append(c.to, to), append(c.colour, x)
	c.at[a*len(c.lanes)+x], c.at[b*len(c.lanes)+x] = edge, edge
	return true
}

// free returns the lowest colour that no edge at the end has, or −1.
func (c *colouring) free(end int) int {
	for x, edge := range c.at[end*len(c.lanes) : (end+1)*len(c.lanes)] {
		if edge < 0 {
			return x
		}
	}
	return -1
}

// flip exchanges x and y along the path that begins at an end with its edge of
// colour x. In a bipartite graph the path does not lead to the other end of an
// edge whose ends are free of x on one side and of y on the other.
func (c *colouring) flip(end, x, y int) {
	n := len(c.lanes)
	edge := c.at[end*n+x]
	c.at[end*n+x] = -1
	for edge >= 0 {
		c.colour[edge] = y
		other := c.from[edge] + c.leaves + c.to[edge] - end
		next := c.at[other*n+y]
		c.at[end*n+y], c.at[other*n+y] = edge, edge
		if next < 0 {
			c.at[other*n+x] = -1
			return
		}
		end, edge = other, next
		x, y = y, x
	}
}

// lane returns the lane of an edge; edges are numbered in the order of add.
func (c *colouring) lane(edge int) fors.Lane { return c.lanes[c.colour[edge]] }
