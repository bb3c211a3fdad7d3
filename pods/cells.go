package pods

import (
	"cmp"
	"slices"
)

// cell is a set of interchangeable leaves of a pod: as many servers, the same living
// planes.
type cell struct {
	pod    int32
	leaves []int32
	n, s   int32 // servers and groups of a leaf
	up     []bool
	planes int32 // that live
	// own means that same-leaf units take no plane: the leaf has more servers than planes,
	// and so a turn for them in every block. Such a cell has one leaf.
	own bool
}

func (c *cell) size() int32 { return int32(len(c.leaves)) }

// tight reports whether a leaf has more planes than it may use in a block, out or in.
func (c *cell) tight(group int32) bool { return c.planes > min(c.n, c.s*group) }

// frame is an instance of a plan in blocks: how many there are, of how many phases, and
// the cells.
type instance struct {
	*Tree
	*reach
	group        int32
	blocks       int32
	workers      int
	sourcesFirst bool    // see seat
	base         []int32 // [leaf] its first server, one more at the end
	homeOf       []int32 // [server] its leaf
	cells        []cell  // by pod
	cellOf       []int32 // [leaf]
	ofPod        [][]int32
	planeOf      []int32 // [lane]
	tops         []int32 // [pod·planes + plane] living cables of the mid to tops
	alive        []int32 // [pod·planes + plane] leaves that have the plane
}

// setCells groups leaves into cells for a number of blocks. A leaf whose planes would not
// carry its same-leaf units too is a cell by itself; of the cells of a pod those with the fewest planes
// come first.
func (x *instance) setCells() {
	x.cells, x.ofPod = x.cells[:0], make([][]int32, x.Pods)
	x.cellOf = make([]int32, len(x.Leaves))
	total := int32(x.Servers())
	for a := range x.Leaves {
		l := &x.Leaves[a]
		c := cell{pod: int32(l.Pod), leaves: []int32{int32(a)}, n: int32(len(l.Slots)), up: l.Up}
		c.s = (c.n + x.group - 1) / x.group
		for _, up := range l.Up {
			if up {
				c.planes++
			}
		}
		c.own = c.planes < c.n && c.planes*x.blocks < c.s*total && c.s*c.n <= x.blocks*(c.n-c.planes)
		found := -1
		for i := range x.cells {
			o := &x.cells[i]
			if !c.own && !o.own && o.pod == c.pod && o.n == c.n && slices.Equal(o.up, c.up) {
				found = i
			}
		}
		if found >= 0 {
			x.cells[found].leaves = append(x.cells[found].leaves, int32(a))
		} else {
			x.cells = append(x.cells, c)
		}
	}
	slices.SortStableFunc(x.cells, func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.pod, b.pod), cmp.Compare(a.planes, b.planes), cmp.Compare(a.size(), b.size()))
	})
	for i := range x.cells {
		x.ofPod[x.cells[i].pod] = append(x.ofPod[x.cells[i].pod], int32(i))
		for _, a := range x.cells[i].leaves {
			x.cellOf[a] = int32(i)
		}
	}
	planes := x.Planes()
	x.alive, x.tops = make([]int32, x.Pods*planes), make([]int32, x.Pods*planes)
	for i := range x.cells {
		for j, up := range x.cells[i].up {
			if up {
				x.alive[int(x.cells[i].pod)*planes+j] += x.cells[i].size()
			}
		}
	}
	for p := range x.Pods {
		for k, j := range x.planeOf {
			if x.laneUp(p, k) {
				x.tops[p*planes+int(j)]++
			}
		}
	}
}

// linked reports whether a cell has a path to another.
func (x *instance) linked(c, d int32) bool {
	return x.ok(int(x.cells[c].leaves[0]), int(x.cells[d].leaves[0]))
}

// units returns how many units a cell sends to another: one from each of its groups to each
// server; none to itself where these take no plane.
func (x *instance) units(c, d int32) int32 {
	C, D := &x.cells[c], &x.cells[d]
	if !x.linked(c, d) || c == d && C.own {
		return 0
	}
	return C.size() * C.s * D.size() * D.n
}
