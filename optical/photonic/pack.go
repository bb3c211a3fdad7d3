package photonic

import (
	"context"
	"math"
	"slices"
)

// leg is the part of a flow's path on one topology.
type leg struct {
	flow     int32
	from, to int32   // its chunks from–to−1; both 0 for all, to = Whole for all at once
	links    []int32 // GPU·k + switch
}

// chunks returns the first chunk that a leg moves and the one after the last; Whole counts as one.
func (l *leg) chunks(in *Instance) (from, to int32) {
	switch l.to {
	case Whole:
		return Whole, Whole + 1
	case 0:
		return 0, int32(in.Link.Chunks(in.flow(l.flow)))
	}
	return l.from, l.to
}

// time is how long a leg keeps each of its links busy.
func (l *leg) time(in *Instance) Time {
	size := in.flow(l.flow)
	if l.to <= 0 {
		return in.Link.Time(size)
	}
	return in.Link.Time(min(size, int64(l.to)*in.Link.Chunk) - int64(l.from)*in.Link.Chunk)
}

// packer schedules chunks on the links of one topology, each as soon as it has arrived
// and its link is free; of the chunks that wait for a link, the one with the most hops
// to go is first. So the longest chains are not delayed, and the time is close to that
// of the busiest link.
type packer struct {
	in       *Instance
	topology int16
	legs     []leg
	hops     []Hop            // to which the new ones are added
	free     []Time           // [link]
	queue    []queue[waiting] // [link] waiting chunks
	events   queue[event]
}

// waiting is a chunk before its next hop.
type waiting struct {
	left  int32 // hops to go
	leg   int32
	chunk int32
}

func (w waiting) before(v waiting) bool {
	if w.left != v.left {
		return w.left > v.left
	}
	if w.chunk != v.chunk {
		return w.chunk < v.chunk
	}
	return w.leg < v.leg
}

// event is the arrival of a chunk or, if leg is −1, a link becoming free. Simultaneous
// events are handled in a fixed order.
type event struct {
	at    Time
	leg   int32
	chunk int32
	hop   int32 // the next one; of a link, the link
}

func (e event) before(f event) bool {
	if e.at != f.at {
		return e.at < f.at
	}
	if e.leg != f.leg {
		return e.leg < f.leg
	}
	if e.chunk != f.chunk {
		return e.chunk < f.chunk
	}
	return e.hop < f.hop
}

// pack appends the hops of some legs on a topology in the order of their starts, and
// returns them and the time they take.
func pack(ctx context.Context, in *Instance, topology int, legs []leg, hops []Hop) ([]Hop, Time, error) {
	links := in.GPUs * in.Degree
	p := &packer{in: in, topology: int16(topology), legs: legs, hops: hops, free: make([]Time, links), queue: make([]queue[waiting], links)}
	for i := range legs {
		for c, to := legs[i].chunks(in); c < to; c++ {
			p.arrive(int32(i), c, 0)
		}
	}
	for l := range links {
		p.send(int32(l), 0)
	}
	end := Time(0)
	var touched []int32
	for len(p.events) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		now := p.events[0].at
		end, touched = now, touched[:0]
		for len(p.events) > 0 && p.events[0].at == now {
			e := p.events.pop()
			switch {
			case e.leg < 0:
				touched = append(touched, e.hop)
			case int(e.hop) < len(legs[e.leg].links):
				touched = append(touched, p.arrive(e.leg, e.chunk, e.hop))
			}
		}
		for _, l := range touched {
			p.send(l, now)
		}
	}
	return p.hops, end, nil
}

// arrive queues a chunk for its next link, which it returns.
func (p *packer) arrive(leg, chunk, hop int32) int32 {
	links := p.legs[leg].links
	l := links[hop]
	p.queue[l].push(waiting{int32(len(links)) - hop, leg, chunk})
	return l
}

// send starts the next chunk on a link that is free.
func (p *packer) send(link int32, now Time) {
	if p.free[link] > now || len(p.queue[link]) == 0 {
		return
	}
	w := p.queue[link].pop()
	leg := &p.legs[w.leg]
	done := now + p.in.chunkTime(leg.flow, w.chunk)
	p.free[link] = done
	p.hops = append(p.hops, Hop{Start: now, Topology: p.topology, Flow: leg.flow, Chunk: w.chunk, Switch: int16(int(link) % p.in.Degree)})
	p.events.push(event{done, -1, 0, link})
	p.events.push(event{done, w.leg, w.chunk, int32(len(leg.links)) - w.left + 1})
}

// moves counts the moves of single chunks of some legs.
func moves(in *Instance, legs [][]leg) int64 {
	moves := int64(0)
	for _, of := range legs {
		for i := range of {
			from, to := of[i].chunks(in)
			moves += int64(to-from) * int64(len(of[i].links))
		}
	}
	return moves
}

// busiest is the sum over all topologies of the time of the busiest link: a lower bound
// that a packed plan comes close to.
func busiest(in *Instance, legs [][]leg) Time {
	load := make([]Time, in.GPUs*in.Degree)
	sum := Time(0)
	for _, of := range legs {
		clear(load)
		for i := range of {
			l := &of[i]
			t := l.time(in)
			for _, link := range l.links {
				load[link] += t
			}
		}
		sum += slices.Max(load)
	}
	return sum
}

// never is the cost of no plan.
const never = Time(math.MaxInt64)

// pack completes a plan with topologies by the hops of single chunks over given paths. It
// returns nil if these would be too many or the plan could not cost less than known.
func (p *Plan) pack(ctx context.Context, in *Instance, ways [][]leg, known Time) (*Plan, error) {
	count := moves(in, ways)
	if count > maxMoves || Time(len(p.Topologies))*in.Reconfig+busiest(in, ways) >= known {
		return nil, nil
	}
	p.Hops = make([]Hop, 0, count)
	for i, legs := range ways {
		var span Time
		var err error
		if p.Hops, span, err = pack(ctx, in, i, legs, p.Hops); err != nil {
			return nil, err
		}
		p.Spans = append(p.Spans, span)
	}
	return p.finish(in), nil
}
