package liquid

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
)

// Symmetries are found like the automorphisms of a graph (McKay, "Practical graph
// isomorphism", 1981): colour refinement distinguishes nodes by the paths of their
// transfers. If several nodes share a colour, one of them is individualized, in this and
// in a second colouring, and both are refined until every node has a unique colour. The
// symmetry maps each node to the node of the same colour.

const (
	mostRefined = 400  // refined colourings to find generators
	drawn       = 1000 // random products of generators
	mostAlike   = 3    // scheduled groups with the same number of orbits
	mostTried   = 60   // elements tried to reduce the number of orbits
)

// mix is a hash of two numbers (the finalizer of SplitMix64).
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// colours gives nodes their first colours: the index among their twins, nodes whose paths
// differ only in links that no other node uses. Symmetries preserve this index, so that the
// order of a shift of switches is the number of switches on its cycle.
func (s *symmetries) colours() []uint64 {
	inner := make([]bool, s.t.links) // several nodes send over it, and to several
	for l := range inner {
		var src, dst bool
		for i, x := range s.t.Users(Link(l)) {
			first := s.ends[s.t.Users(Link(l))[0]]
			src, dst = src || i > 0 && s.ends[x].Src != first.Src, dst || i > 0 && s.ends[x].Dst != first.Dst
		}
		inner[l] = src && dst
	}
	paths := make([]uint64, s.n)
	for x, e := range s.ends {
		sum := uint64(0)
		for _, l := range s.t.Path(Transfer(x)) {
			if inner[l] {
				sum += mix(uint64(l), 1)
			}
		}
		if sum != 0 {
			paths[e.Src] += mix(mix(uint64(e.Dst), 2), sum)
			paths[e.Dst] += mix(mix(uint64(e.Src), 3), sum)
		}
	}
	colour, twins := make([]uint64, s.n), map[uint64]uint64{}
	for v := range colour {
		colour[v] = mix(4, twins[paths[v]])
		twins[paths[v]]++
	}
	return colour
}

// refine distinguishes nodes by the colours of their peers and of the links between them,
// until the number of colours no longer grows. The colour of a link is made of the colours
// of the ends of its transfers.
func (s *symmetries) refine(colour []uint64) {
	link := make([]uint64, s.t.links)
	for kinds := distinct(colour); kinds < int(s.n); {
		clear(link)
		for x, e := range s.ends {
			c := mix(colour[e.Src], colour[e.Dst])
			for _, l := range s.t.Path(Transfer(x)) {
				link[l] += c
			}
		}
		for l := range link {
			link[l] = mix(link[l], 5)
		}
		next := make([]uint64, s.n)
		for x, e := range s.ends {
			sum := uint64(0)
			for _, l := range s.t.Path(Transfer(x)) {
				sum += link[l]
			}
			next[e.Src] += mix(mix(sum, 6), colour[e.Dst])
			next[e.Dst] += mix(mix(sum, 7), colour[e.Src])
		}
		for v := range next {
			next[v] = mix(colour[v], next[v])
		}
		copy(colour, next)
		now := distinct(colour)
		if now == kinds {
			return
		}
		kinds = now
	}
}

func distinct(colour []uint64) int {
	seen := make(map[uint64]struct{}, len(colour))
	for _, c := range colour {
		seen[c] = struct{}{}
	}
	return len(seen)
}

// individualize returns a refined colouring in which a node has a unique colour.
func (s *symmetries) individualize(colour []uint64, v int32) []uint64 {
	s.refined++
	out := slices.Clone(colour)
	out[v] = mix(out[v], 8)
	s.refine(out)
	return out
}

// alike lists the nodes of the smallest colour class with at least least nodes; the class
// with the lowest node breaks ties.
func alike(colour []uint64, least int) (nodes []int32) {
	of := map[uint64][]int32{}
	for v, c := range colour {
		of[c] = append(of[c], int32(v))
	}
	for _, list := range of {
		if len(list) >= least && (nodes == nil || cmp.Or(cmp.Compare(len(list), len(nodes)), cmp.Compare(list[0], nodes[0])) < 0) {
			nodes = list
		}
	}
	return nodes
}

// generators returns generators of the symmetries, found along a chain of stabilizers: those
// that move a node, then those that fix it and move a second one, and so on.
func (s *symmetries) generators(ctx context.Context) (list [][]int32) {
	colour := s.colours()
	s.refine(colour)
	if len(alike(colour, 1)) < 2 {
		return nil // every symmetry fixes a node
	}
	for {
		class := alike(colour, 2)
		if class == nil {
			return list
		}
		from := class[0]
		fixed := s.individualize(colour, from)
		reached, own := map[int32]bool{from: true}, [][]int32(nil)
		for _, to := range class {
			if ctx.Err() != nil || s.refined > mostRefined {
				return list
			}
			if reached[to] {
				continue
			}
			if p := s.match(fixed, s.individualize(colour, to)); p != nil {
				own = append(own, p)
				reach(reached, own)
			}
		}
		list = append(list, own...)
		colour = fixed
	}
}

// reach adds the images of nodes under permutations.
func reach(reached map[int32]bool, by [][]int32) {
	queue := slices.Sorted(maps.Keys(reached))
	for i := 0; i < len(queue); i++ {
		for _, p := range by {
			if to := p[queue[i]]; !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
}

// match returns a symmetry that maps nodes to nodes of the same colour, or nil if it finds
// none: it maps the first of several nodes of a colour to the first, without backtracking.
func (s *symmetries) match(a, b []uint64) []int32 {
	for {
		there := make(map[uint64]int32, len(b))
		for v := len(b) - 1; v >= 0; v-- {
			there[b[v]] = int32(v)
		}
		class := alike(a, 2)
		if class == nil {
			if len(there) < len(b) {
				return nil
			}
			p := make([]int32, len(a))
			for v, c := range a {
				to, is := there[c]
				if !is {
					return nil
				}
				p[v] = to
			}
			if s.carry(p) == nil {
				return nil
			}
			return p
		}
		to, is := there[a[class[0]]]
		if !is || s.refined > mostRefined {
			return nil
		}
		a, b = s.individualize(a, class[0]), s.individualize(b, to)
	}
}

// element is a symmetry all of whose cycles of nodes have the same length, its order.
type element struct {
	to    []int32
	order int
	far   int // sum over the nodes of the squared number of links to the image
}

// elements draws products of generators and their powers, and lists those all of whose cycles
// have the same length: by falling order, then by the distance to the images, squared so that
// elements that move all nodes equally far, as shifts of a torus do, precede its reflections.
func (s *symmetries) elements(generators [][]int32) (list []element) {
	if len(generators) == 0 {
		return nil
	}
	seen := map[uint64]bool{}
	add := func(p []int32) int {
		sum := uint64(0)
		for _, v := range p {
			sum = mix(sum, uint64(v))
		}
		n := order(p)
		if !seen[sum] && n > 1 {
			far := 0
			for v, to := range p {
				if x := s.at[int32(v)*s.n+to]; x >= 0 {
					far += len(s.t.Path(x)) * len(s.t.Path(x))
				}
			}
			list = append(list, element{p, n, far})
		}
		seen[sum] = true
		return n
	}
	rng, at := rand.New(rand.NewPCG(22, 2)), generators[0]
	for i := range drawn {
		g := generators[rng.IntN(len(generators))]
		if i < len(generators) {
			add(generators[i])
		}
		at = after(at, g)
		n := add(at)
		for k := 2; k < n; k++ {
			if n%k != 0 {
				continue
			}
			power := at
			for range k - 1 {
				power = after(power, at)
			}
			add(power)
		}
	}
	slices.SortStableFunc(list, func(a, b element) int {
		return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(a.far, b.far))
	})
	return list
}

// after is the permutation p followed by q.
func after(p, q []int32) []int32 {
	out := make([]int32, len(p))
	for v, to := range p {
		out[v] = q[to]
	}
	return out
}

// order is the length of all cycles of p, or 0 if they differ.
func order(p []int32) (n int) {
	seen := make([]bool, len(p))
	for v := range p {
		if seen[v] {
			continue
		}
		length := 0
		for at := int32(v); !seen[at]; at = p[at] {
			seen[at] = true
			length++
		}
		if n == 0 {
			n = length
		}
		if length != n {
			return 0
		}
	}
	return n
}
