package liquid

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"slices"
)

// orbits are the orbits of transfers under symmetries of a traffic. A symmetry is a
// permutation of the nodes that maps the paths of transfers to paths of transfers. If no two
// transfers of an orbit share a link, it suffices to schedule the orbits over the orbits of
// links, with the same Λ: transfers of orbits that share no orbit of links share no link.
type orbits struct {
	members  [][]Transfer // [orbit]
	quotient *Traffic     // a transfer for each orbit
}

// mostSymmetric bounds the nodes of a traffic whose symmetries are searched for.
const mostSymmetric = 1024

// orbits finds symmetries regardless of how nodes and links are numbered: first single ones
// with cycles of equal length, the longest first; then more and more of them together, which
// have fewer orbits. It yields up to mostAlike for each number of orbits.
func (t *Traffic) orbits(ctx context.Context) iter.Seq[*orbits] {
	return func(yield func(*orbits) bool) {
		s := newSymmetries(t)
		if s == nil {
			return
		}
		elements := s.elements(s.generators(ctx))
		var by []*carried
		for had := t.Len(); ; {
			next, more := s.enlarged(ctx, by, had, elements)
			for _, o := range more {
				if !yield(o) {
					return
				}
			}
			if next == nil {
				return
			}
			had = len(more[0].members)
			if by = append(by, next); len(by) == 1 {
				slices.SortStableFunc(elements, func(a, b element) int { return cmp.Compare(a.order, b.order) })
				elements = elements[:min(len(elements), mostTried)]
			}
		}
	}
}

// enlarged adds an element to some symmetries that have had orbits: the first element, or one
// that leaves the most orbits below had. It lists the orbits, one for each kind of element,
// and returns the symmetry added for the first of them. Elements that move nodes equally far
// count as one kind.
func (s *symmetries) enlarged(ctx context.Context, by []*carried, had int, elements []element) (next *carried, list []*orbits) {
	kinds := map[int]bool{}
	for _, e := range elements {
		if ctx.Err() != nil || len(by) == 0 && len(list) > 0 && (len(list) == mostAlike || e.order < len(list[0].members[0])) {
			break
		}
		if kinds[e.far] {
			continue
		}
		c := s.carry(e.to)
		if c == nil {
			continue
		}
		o := s.orbitsOf(append(slices.Clone(by), c)...)
		if o == nil || len(o.members) >= had || len(list) > 0 && len(o.members) < len(list[0].members) {
			continue
		}
		if len(list) == 0 || len(o.members) > len(list[0].members) {
			next, list = c, nil
			clear(kinds)
		}
		if kinds[e.far] = true; len(list) < mostAlike {
			list = append(list, o)
		}
	}
	return next, list
}

// nodes lists the nodes that send or receive, and returns the index of each in the list.
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

// symmetries tries permutations of the nodes.
type symmetries struct {
	t      *Traffic
	n      int32
	ends   []Pair          // [transfer] indices of its nodes
	at     []Transfer      // [source·n + destination] by index, −1 without one
	hash   []uint64        // [transfer]
	linked map[uint64]Link // by the sum of its transfers' hashes
	twin   []bool          // [link] another one has the same transfers and stands for it
	order  []Link          // rare loads first, to reject permutations early

	refined int // colourings
}

// newSymmetries prepares a traffic. It returns nil if the search does not support it.
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
			return nil // two transfers of a pair: their images are ambiguous
		}
		s.ends[x], s.at[e.Src*s.n+e.Dst] = e, Transfer(x)
	}
	s.hashLinks()
	return s
}

// hashLinks identifies links by the transfers that use them.
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

// carried holds the images of transfers and links under a symmetry.
type carried struct {
	next []Transfer
	to   []Link
}

// carry returns the images under a permutation of the nodes, or nil if it is not a symmetry.
func (s *symmetries) carry(to []int32) *carried {
	c := &carried{make([]Transfer, s.t.Len()), make([]Link, s.t.links)}
	for _, l := range s.order {
		sum := uint64(0)
		for _, x := range s.t.Users(l) {
			e := s.ends[x]
			if c.next[x] = s.at[to[e.Src]*s.n+to[e.Dst]]; c.next[x] < 0 {
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

// orbitsOf makes the orbits of transfers and links under some symmetries together. It returns
// nil if two transfers of an orbit share a link.
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

// quotientPath returns the orbits of a transfer's links, or nil if two members of its orbit
// share a link: two of its links are in one orbit, or the orbit of a link is smaller.
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

// whole turns a schedule of the orbits into one of all transfers.
func (o *orbits) whole(s Schedule) Schedule {
	out := make(Schedule, len(s))
	for i, step := range s {
		for _, x := range step {
			out[i] = append(out[i], o.members[x]...)
		}
	}
	return out
}
