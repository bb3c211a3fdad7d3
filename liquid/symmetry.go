package liquid

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"slices"
)

// orbits are what a symmetry of a traffic makes of it. A permutation of the nodes that
// carries the paths of transfers onto paths of transfers carries the traffic onto itself.
// Where no two transfers of an orbit share a link, it is enough to schedule the orbits over
// the orbits of links, which have the same Λ: those of a step share no link either.
type orbits struct {
	members  [][]Transfer // [orbit]
	quotient *Traffic     // a transfer an orbit
}

// mostSymmetric bounds the nodes among which a symmetry is looked for.
const mostSymmetric = 1024

// orbits finds a symmetry of many steps, none where it knows none: the nodes in their order
// are taken for a grid of blocks, which is shifted along a side or a diagonal, by one or by
// two, where routes differ from one to the next. Switches of a torus are such blocks of
// hosts. Next come the orbits of that shift and of others together, by which there are
// fewer.
func (t *Traffic) orbits(ctx context.Context) iter.Seq[*orbits] {
	return func(yield func(*orbits) bool) {
		s := newSymmetries(t)
		if s == nil {
			return
		}
		for _, g := range grids(int(s.n)) {
			if ctx.Err() != nil {
				return
			}
			first := s.carry(g)
			if first == nil {
				continue
			}
			if o := s.orbitsOf(first); o != nil {
				if yield(o) {
					s.with(ctx, g, first, o, yield)
				}
				return
			}
		}
	}
}

// mostParts is into how many parts a side is cut at most to shift by one of them.
const mostParts = 7

// with yields the orbits of a shift and shifts by a part of the sides together, those of all
// these and half a turn, and those of shifts and half turns of other grids as well, as far
// as there are fewer each time.
func (s *symmetries) with(ctx context.Context, g grid, first *carried, o *orbits, yield func(*orbits) bool) {
	at := func(down, right int, turned bool) grid { return grid{g.rows, g.columns, g.block, down, right, turned} }
	var parts, others []grid
	for n := 2; n <= mostParts; n++ {
		for _, shift := range [][2]int{{1, 0}, {0, 1}, {1, 1}, {1, n - 1}} {
			if g.rows*shift[0]%n == 0 && g.columns*shift[1]%n == 0 {
				parts = append(parts, at(g.rows*shift[0]/n, g.columns*shift[1]/n, false))
			}
		}
	}
	turns := []grid{at(0, 0, true), at(0, 1, true), at(1, 0, true), at(1, 1, true)}
	for _, h := range grids(int(s.n)) {
		others = append(others, h)
		h.turned = true
		others = append(others, h)
	}
	by := []*carried{first}
	for _, more := range [][]grid{parts, turns, others} {
		had := o
		for _, h := range more {
			if ctx.Err() != nil {
				return
			}
			c := s.carry(h)
			if c == nil {
				continue
			}
			by = append(by, c)
			if fewer := s.orbitsOf(by...); fewer != nil && len(fewer.members) < len(o.members) {
				o = fewer
				continue
			}
			by = by[:len(by)-1]
		}
		if o != had && !yield(o) {
			return
		}
	}
}

// nodes lists those that send or receive, and the place of each in the list.
func (t *Traffic) nodes() (nodes []int32, place map[int32]int32) {
	for _, p := range t.pairs {
		nodes = append(nodes, p.Src, p.Dst)
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	place = make(map[int32]int32, len(nodes))
	for i, n := range nodes {
		place[n] = int32(i)
	}
	return nodes, place
}

// grid is rows × columns of blocks, shifted down and right.
type grid struct {
	rows, columns, block, down, right int
	turned                            bool // by half a turn, before it is shifted
}

// order is after how many shifts everything is where it was.
func (g grid) order() int {
	a, b := g.rows/divisor(g.rows, g.down), g.columns/divisor(g.columns, g.right)
	return a / divisor(a, b) * b
}

// divisor is the greatest common one.
func divisor(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// to is where a shift puts a node.
func (g grid) to(node int32) int32 {
	block := int(node) / g.block
	i, j := block/g.columns, block%g.columns
	if g.turned {
		i, j = g.rows-i, g.columns-j
	}
	i, j = (i+g.down)%g.rows, (j+g.right)%g.columns
	return int32((i*g.columns+j)*g.block + int(node)%g.block)
}

// grids lists those of so many nodes, the longest orders first, of equals those shifted by one.
func grids(n int) (list []grid) {
	for by := 1; by <= 2; by++ {
		for block := 1; block < n; block++ {
			for rows := 1; n%block == 0 && rows <= n/block; rows++ {
				columns := n / block / rows
				if rows*columns*block != n {
					continue
				}
				for _, shift := range [][2]int{{by, by}, {by, columns - by}, {by, 0}, {0, by}} {
					if rows > max(shift[0], 1) && columns > shift[1] && shift[1] >= 0 {
						list = append(list, grid{rows, columns, block, shift[0], shift[1], false})
					}
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b grid) int { return cmp.Compare(b.order(), a.order()) })
	return list
}

// symmetries tries permutations of the nodes.
type symmetries struct {
	t      *Traffic
	n      int32
	ends   []Pair          // [transfer] places of its nodes
	at     []Transfer      // [place of the source·n + that of the destination] −1 without one
	hash   []uint64        // [transfer]
	linked map[uint64]Link // by the sum of its transfers' hashes
	twin   []bool          // [link] another one has the same transfers, and stands for it
	order  []Link          // rare loads first: they soon tell what is no symmetry
}

// newSymmetries prepares a traffic, nil where it is not one for symmetries.
func newSymmetries(t *Traffic) *symmetries {
	nodes, place := t.nodes()
	n := len(nodes)
	if !t.Uniform() || n < 2 || n > mostSymmetric {
		return nil
	}
	s := &symmetries{t: t, n: int32(n), ends: make([]Pair, t.Len()), at: slices.Repeat([]Transfer{-1}, n*n)}
	for x, p := range t.pairs {
		e := Pair{place[p.Src], place[p.Dst]}
		if s.at[e.Src*s.n+e.Dst] >= 0 {
			return nil // two transfers of a pair: which goes where?
		}
		s.ends[x], s.at[e.Src*s.n+e.Dst] = e, Transfer(x)
	}
	s.hashLinks()
	return s
}

// hashLinks knows links by who uses them.
func (s *symmetries) hashLinks() {
	rng := rand.New(rand.NewPCG(22, 0))
	s.hash = make([]uint64, s.t.Len())
	for x := range s.hash {
		s.hash[x] = rng.Uint64()
	}
	s.linked, s.twin = make(map[uint64]Link, s.t.links), make([]bool, s.t.links)
	for l := range s.twin {
		sum := uint64(0)
		for _, x := range s.t.Users(Link(l)) {
			sum += s.hash[x]
		}
		if _, known := s.linked[sum]; known {
			s.twin[l] = true
			continue
		}
		s.linked[sum] = Link(l)
	}
	alike := make([]int, s.t.Duration()+1) // [load] links
	for l := range s.twin {
		s.order = append(s.order, Link(l))
		alike[s.t.Load(Link(l))]++
	}
	slices.SortStableFunc(s.order, func(l, m Link) int { return cmp.Compare(alike[s.t.Load(l)], alike[s.t.Load(m)]) })
}

// carried is where a symmetry carries transfers and links.
type carried struct {
	next []Transfer
	to   []Link
}

// carry is what a shift does, nil where it is no symmetry.
func (s *symmetries) carry(g grid) *carried {
	shift := make([]int32, s.n)
	for i := range shift {
		shift[i] = g.to(int32(i))
	}
	c := &carried{make([]Transfer, s.t.Len()), make([]Link, s.t.links)}
	for _, l := range s.order {
		sum := uint64(0)
		for _, x := range s.t.Users(l) {
			e := s.ends[x]
			if c.next[x] = s.at[shift[e.Src]*s.n+shift[e.Dst]]; c.next[x] < 0 {
				return nil
			}
			sum += s.hash[c.next[x]]
		}
		var known bool
		if c.to[l], known = s.linked[sum]; !known {
			return nil
		}
	}
	return c
}

// orbitsOf makes the orbits of transfers and links of some symmetries together, nil where an
// orbit is in its own way.
func (s *symmetries) orbitsOf(by ...*carried) *orbits {
	t := s.t
	of, length := slices.Repeat([]int32{-1}, t.links), []int(nil) // [link] its orbit; [orbit of links]
	for l := range of {
		if s.twin[l] || of[l] >= 0 {
			continue
		}
		of[l] = int32(len(length))
		orbit := []Link{Link(l)}
		for i := 0; i < len(orbit); i++ {
			for _, c := range by {
				if m := c.to[orbit[i]]; of[m] < 0 {
					of[m] = of[l]
					orbit = append(orbit, m)
				}
			}
		}
		length = append(length, len(orbit))
	}
	o := &orbits{}
	seen := make([]bool, t.Len())
	var pairs []Pair
	var paths [][]Link
	for x := range seen {
		if seen[x] {
			continue
		}
		seen[x] = true
		members := []Transfer{Transfer(x)}
		for i := 0; i < len(members); i++ {
			for _, c := range by {
				if y := c.next[members[i]]; !seen[y] {
					seen[y] = true
					members = append(members, y)
				}
			}
		}
		path := s.quotientPath(Transfer(x), of, length, len(members))
		if path == nil {
			return nil
		}
		o.members, pairs, paths = append(o.members, members), append(pairs, t.pairs[x]), append(paths, path)
	}
	q, err := NewTraffic(len(length), pairs, paths)
	if err != nil || q.Duration() != t.Duration() {
		return nil
	}
	o.quotient = q
	return o
}

// quotientPath is the orbits of a transfer's links, nil where its orbit, of so many members,
// is in its own way: two of its links are of an orbit, or one comes back earlier than it.
func (s *symmetries) quotientPath(x Transfer, of []int32, length []int, members int) []Link {
	links := s.t.Path(x)
	path := make([]Link, 0, len(links))
	for _, l := range links {
		if s.twin[l] {
			continue
		}
		if length[of[l]] != members {
			return nil
		}
		path = append(path, Link(of[l]))
	}
	slices.Sort(path)
	for i := 1; i < len(path); i++ {
		if path[i] == path[i-1] {
			return nil
		}
	}
	return path
}

// whole is the schedule of all transfers by one of the orbits.
func (o *orbits) whole(s Schedule) Schedule {
	out := make(Schedule, len(s))
	for i, step := range s {
		for _, x := range step {
			out[i] = append(out[i], o.members[x]...)
		}
	}
	return out
}
