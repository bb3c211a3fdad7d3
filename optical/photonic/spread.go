package photonic

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// spreader routes messages over a sequence of topologies on paths with the fewest hops,
// and balances the loads of the links. If all messages have the same size, those of a class
// take the same path; if sizes differ, each message, and each part of a large one, takes
// the least busy path.
type spreader struct {
	in    *Instance
	k     int
	group *group
	sets  [][]int32 // [topology][switch] elements of the group
	alike bool      // links of a switch count as one: all sources do the same
	rest  stages    // [topology][class] the fewest hops from this topology on
	load  []float64 // [link]
	mean  float64   // of load
	parts []part
	cost  []float64 // [topology·n + remaining class] of the cheapest path from there
	seen  []int32   // likewise, the part for which cost is valid
	turn  []int8    // likewise, the switch to take, or Wait for the next topology
	now   int32
}

// part is a range of chunks of a message that take the same path.
type part struct {
	flow, from, to int32
	time           float64
	class, end     int32 // x and p·x of a message from position p
	way            []step
}

// step is a hop of a part.
type step struct{ topology, link int32 }

// spreadSweeps is the number of times that every part is rerouted.
const spreadSweeps = 4

func newSpreader(in *Instance, g *group, sets [][]int32, alike bool) *spreader {
	k := in.Degree
	d, links := len(sets), g.n*k
	if alike {
		links = k
	}
	s := &spreader{in: in, k: k, group: g, sets: sets, alike: alike, load: make([]float64, d*links), rest: make(stages, d+1),
		cost: make([]float64, (d+1)*g.n), seen: make([]int32, (d+1)*g.n), turn: make([]int8, (d+1)*g.n)}
	s.rest[d] = none(g.n)
	for i := d - 1; i >= 0; i-- {
		s.rest[i] = slices.Clone(s.rest[i+1])
		g.reach(s.rest[i], sets[i], true)
	}
	return s
}

// run routes all parts several times.
func (s *spreader) run(ctx context.Context) error {
	hops := 0.0
	for i := range s.parts {
		hops += s.parts[i].time * float64(s.rest[0][s.parts[i].class])
	}
	s.mean = max(1, hops/float64(len(s.load)))
	for range spreadSweeps {
		for i := range s.parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.reroute(&s.parts[i])
		}
	}
	return nil
}

// divide splits the messages into parts of at most the mean size, sorted by falling size.
// label is the GPU at each position.
func (s *spreader) divide(in *Instance, label []int32) {
	n := int32(s.group.n)
	chunks := max(1, int(in.Link.Chunks(in.Message)))
	for from := range n {
		for x := int32(1); x < n; x++ {
			end := s.group.mul(from, x)
			src, dst := int(label[from]), int(label[end])
			size := in.size(src, dst)
			all := int(in.Link.Chunks(size))
			for first := 0; first < all; first += chunks {
				to := min(all, first+chunks)
				bytes := min(size, int64(to)*in.Link.Chunk) - int64(first)*in.Link.Chunk
				s.parts = append(s.parts, part{int32(src*s.group.n + dst), int32(first), int32(to), float64(in.Link.Time(bytes)), x, end, nil})
			}
		}
	}
	slices.SortStableFunc(s.parts, func(a, b part) int { return cmp.Compare(b.time, a.time) })
}

// reroute moves a part to its cheapest path.
func (s *spreader) reroute(p *part) {
	for _, h := range p.way {
		s.load[h.link] -= p.time
	}
	p.way = p.way[:0]
	s.now++
	s.price(p, 0, p.class)
	for i, x := int32(0), p.class; x != 0; {
		turn := s.turn[int(i)*s.group.n+int(x)]
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

// link is the link of a part over a switch of a topology. The part is at the position
// from which the remaining class leads to its end.
func (s *spreader) link(p *part, topology, class int32, sw int) int32 {
	if s.alike {
		return topology*int32(s.k) + int32(sw)
	}
	at := s.group.mul(p.end, s.group.inverse[class])
	return (topology*int32(s.group.n)+at)*int32(s.k) + int32(sw)
}

// after is the remaining class after a hop.
func (s *spreader) after(topology, class int32, sw int) int32 {
	return s.group.class(s.sets[topology][sw], class)
}

// price is the cost of the cheapest path of a part from a topology on, for a remaining
// class: the increase in the sum of the powers of the loads.
func (s *spreader) price(p *part, topology, class int32) float64 {
	if class == 0 {
		return 0
	}
	at := int(topology)*s.group.n + int(class)
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

// power8 is v⁸: the largest load dominates a sum of such high powers.
func power8(v float64) float64 {
	v *= v
	v *= v
	return v * v
}

// legs returns the paths by topology, on links position·k + switch.
func (s *spreader) legs() [][]leg {
	out := make([][]leg, len(s.sets))
	for i := range s.parts {
		p := &s.parts[i]
		for len(p.way) > 0 {
			t := p.way[0].topology
			l := leg{flow: p.flow, from: p.from, to: p.to}
			for len(p.way) > 0 && p.way[0].topology == t {
				l.links = append(l.links, p.way[0].link-t*int32(s.group.n*s.k))
				p.way = p.way[1:]
			}
			out[t] = append(out[t], l)
		}
	}
	return out
}

// spreadLegs returns paths of an instance's messages with the fewest hops over a sequence
// of topologies, with the GPUs at the positions of a label.
func spreadLegs(ctx context.Context, in *Instance, g *group, sets [][]int32, label []int32) ([][]leg, error) {
	at, err := labels(in.GPUs, label)
	if err != nil {
		return nil, err
	}
	s := newSpreader(in, g, sets, false)
	s.divide(in, at)
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s.legs(), nil
}
