package photonic

import (
	"cmp"
	"math"
	"slices"
)

// spreader routes messages of many sizes over circulants in turn so that no link
// has much more to carry than others. All ways of a class with the fewest hops are
// alike for messages of one size; here each message, and each part of a large one,
// takes that which is least busy.
type spreader struct {
	in      *Instance
	n, k    int
	label   []int32
	offsets [][]int   // [topology]
	rest    stages    // [topology][class] the fewest hops from this topology on
	load    []float64 // [topology·n·k + position·k + switch] time
	mean    float64   // of load
	parts   []part
	cost    []float64 // [topology·n + class to go] of the cheapest way from there
	seen    []int32   // likewise, the part for which cost holds
	turn    []int8    // likewise, the switch to take, or Wait for the next topology
	now     int32
}

// part is some chunks of a message that go the same way.
type part struct {
	flow, from, to int32
	time           float64
	position       int32
	class          int32
	way            []step
}

// step is a hop of a part.
type step struct{ topology, link int32 }

// spreadSweeps is how often every part is routed anew.
const spreadSweeps = 4

// spreadLegs are ways of the messages of a plan of rounds on its topologies, in place
// of the plan's own: with as few hops, each on any of the topologies.
func spreadLegs(in *Instance, p *Plan) [][]leg {
	n, k, d := p.GPUs, p.Degree, len(p.Topologies)
	s := &spreader{in: in, n: n, k: k, load: make([]float64, d*n*k), rest: make(stages, d+1),
		cost: make([]float64, (d+1)*n), seen: make([]int32, (d+1)*n), turn: make([]int8, (d+1)*n)}
	s.label, _ = labels(n, p.Label)
	s.rest[d] = none(n)
	s.offsets = make([][]int, d)
	for i := d - 1; i >= 0; i-- {
		s.offsets[i] = p.Topologies[i].Offsets
		s.rest[i] = slices.Clone(s.rest[i+1])
		for _, a := range s.offsets[i] {
			extend(s.rest[i], a)
		}
	}
	s.divide()
	for range spreadSweeps {
		for i := range s.parts {
			s.reroute(&s.parts[i])
		}
	}
	return s.legs(d)
}

// divide makes parts of the messages, the largest first: of the mean size at most.
func (s *spreader) divide() {
	chunks := max(1, int(s.in.Link.Chunks(s.in.Message)))
	hops := 0.0
	for pos := range s.n {
		for x := 1; x < s.n; x++ {
			src, dst := int(s.label[pos]), int(s.label[(pos+x)%s.n])
			size := s.in.size(src, dst)
			all := int(s.in.Link.Chunks(size))
			for from := 0; from < all; from += chunks {
				to := min(all, from+chunks)
				bytes := min(size, int64(to)*s.in.Link.Chunk) - int64(from)*s.in.Link.Chunk
				p := part{int32(src*s.n + dst), int32(from), int32(to), float64(s.in.Link.Time(bytes)), int32(pos), int32(x), nil}
				s.parts = append(s.parts, p)
				hops += p.time * float64(s.rest[0][x])
			}
		}
	}
	s.mean = max(1, hops/float64(len(s.load)))
	slices.SortStableFunc(s.parts, func(a, b part) int { return cmp.Compare(b.time, a.time) })
}

// reroute takes a part off its way and gives it the cheapest.
func (s *spreader) reroute(p *part) {
	for _, h := range p.way {
		s.load[h.link] -= p.time
	}
	p.way = p.way[:0]
	s.now++
	s.price(p, 0, p.class)
	for i, x := int32(0), p.class; x != 0; {
		turn := s.turn[i*int32(s.n)+x]
		if turn == Wait {
			i++
			continue
		}
		link := s.link(p, i, x, int(turn))
		p.way = append(p.way, step{i, link})
		s.load[link] += p.time
		x = s.after(i, x, int(turn))
	}
}

// link is that of a part with a class to go over a switch of a topology.
func (s *spreader) link(p *part, topology, class int32, sw int) int32 {
	at := (int(p.position) + int(p.class) - int(class) + s.n) % s.n
	return int32((int(topology)*s.n+at)*s.k + sw)
}

// after is the class to go after a hop.
func (s *spreader) after(topology, class int32, sw int) int32 {
	return int32((int(class) - s.offsets[topology][sw] + s.n) % s.n)
}

// price is the cost of the cheapest way of a part from a topology on, with a class
// to go: by how much it raises the sum of the powers of loads.
func (s *spreader) price(p *part, topology, class int32) float64 {
	if class == 0 {
		return 0
	}
	at := int(topology)*s.n + int(class)
	if s.seen[at] == s.now {
		return s.cost[at]
	}
	best, turn := math.Inf(1), int8(Wait)
	hops := s.rest[topology][class]
	if s.rest[topology+1][class] == hops {
		best = s.price(p, topology+1, class)
	}
	for sw := range s.k {
		next := s.after(topology, class, sw)
		if s.rest[topology][next] != hops-1 {
			continue
		}
		load := s.load[s.link(p, topology, class, sw)] / s.mean
		c := power8(load+p.time/s.mean) - power8(load) + s.price(p, topology, next)
		if c < best {
			best, turn = c, int8(sw)
		}
	}
	s.seen[at], s.cost[at], s.turn[at] = s.now, best, turn
	return best
}

// power8 is v⁸: the sum of such high powers of loads is mostly that of the largest.
func power8(v float64) float64 {
	v *= v
	v *= v
	return v * v
}

// legs are the ways by topology.
func (s *spreader) legs(d int) [][]leg {
	out := make([][]leg, d)
	for i := range s.parts {
		p := &s.parts[i]
		for len(p.way) > 0 {
			t := p.way[0].topology
			l := leg{flow: p.flow, from: p.from, to: p.to}
			for len(p.way) > 0 && p.way[0].topology == t {
				l.links = append(l.links, p.way[0].link-t*int32(s.n*s.k))
				p.way = p.way[1:]
			}
			out[t] = append(out[t], l)
		}
	}
	return out
}
