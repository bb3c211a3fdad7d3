package gpu

import (
	"context"
	"fmt"
)

// Certificate proves that no plan has a smaller length: by the bytes that a server sends or
// receives and its number of channels or, if NICs reach only those of their rail, by prices.
type Certificate struct {
	Server   int     `json:"server"`
	Receives bool    `json:"receives"` // or sends
	Bytes    int64   `json:"bytes"`
	Channels int64   `json:"channels"`
	Prices   []Price `json:"prices,omitempty"`
}

// SiteBound returns the least length of a plan, ⌈Bytes/Channels⌉ of the server with the most
// bytes per channel. It fails if a server has traffic but no channel.
func (p *Places) SiteBound(t *Traffic) (int64, Certificate, error) {
	channels := p.channels()
	pairs := t.Pairs()
	bound, proof := int64(0), Certificate{Channels: 1}
	for i := range p.Servers {
		out, in := int64(0), int64(0)
		for j := range p.Servers {
			out += pairs[i*p.Servers+j]
			in += pairs[j*p.Servers+i]
		}
		for _, x := range []Certificate{{i, false, out, channels[i], nil}, {i, true, in, channels[i], nil}} {
			if x.Bytes > 0 && x.Channels == 0 {
				return 0, x, fmt.Errorf("server %d has %d bytes for other servers and %d from them, but no working NIC", i, out, in)
			}
			if x.Channels > 0 && over(x.Bytes, x.Channels) > bound {
				bound, proof = over(x.Bytes, x.Channels), x
			}
		}
	}
	return bound, proof, nil
}

// channels returns the number of channels of each server.
func (p *Places) channels() []int64 {
	count := make([]int64, p.Servers)
	for _, x := range p.Place {
		if x.NIC >= 0 {
			count[x.Server]++
		}
	}
	return count
}

// mostParts is the usual limit on the channels into which PlanSite divides the fastest NIC.
const mostParts = 8

// PlanSite plans the bytes that the GPUs of a site send each other, [source][destination], in
// stages of channels whose lengths sum to the bound. If NICs differ in speed, it chooses the
// channels with which the plan takes the least time: finer ones use more of the speed of slower
// NICs, and even finer ones are used if a server has no channel otherwise. The model's B2 is
// the speed of the fastest NIC. If ctx ends, it returns the best plan so far, if any, with the
// error of ctx.
func (p *Planner) PlanSite(ctx context.Context, s *Site, bytes []int64, o Options) (*Plan, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if o.Mode != "" && o.Mode != Auto && o.Mode != Bytes || o.Grain > 1 || o.MaxStretch > 1 {
		return nil, fmt.Errorf("a site whose servers are not all alike is planned in mode %s, at its bound: other modes, a grain and a stretch are not supported", Bytes)
	}
	var best *Plan
	var failed error
	for part, finest := int64(1), int64(mostParts); part <= finest; part++ {
		plan, err := p.planParts(ctx, s, part, bytes, o)
		if ctx.Err() != nil {
			return best, ctx.Err()
		}
		if err != nil {
			failed = err // a server has no channel, or there are too many channels
		} else if best == nil || o.Model.Predict(plan).Total < o.Model.Predict(best).Total {
			best = plan
		}
		if s.exact(max(1, s.Speed()/part)) {
			break // finer channels would not use more of the speed
		}
		if part == mostParts && best == nil {
			finest = s.finest()
			part = max(part, finest-1)
		}
	}
	if best == nil {
		return nil, failed
	}
	return best, nil
}

func (p *Planner) planParts(ctx context.Context, s *Site, parts int64, bytes []int64, o Options) (*Plan, error) {
	places, err := s.Places(parts)
	if err != nil {
		return nil, err
	}
	t, err := s.Traffic(places, bytes)
	if err != nil {
		return nil, err
	}
	return p.planPlaces(ctx, places, t, o)
}

// planPlaces plans the traffic of places.
func (p *Planner) planPlaces(ctx context.Context, s *Places, t *Traffic, o Options) (*Plan, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Model = o.Model.orDefault().at(s)
	bound, proof, err := s.SiteBound(t)
	if err != nil {
		return nil, err
	}
	shares := [][]int64{t.Pairs()}
	if s.Rails {
		f, err := newSplit(ctx, s, shares[0], bound)
		if err != nil {
			return nil, err
		}
		divided, proved, prices := f.divide(bound)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if shares = divided; proved > bound {
			bound, proof = proved, Certificate{Prices: prices}
		}
	}
	w := newWires(s, shares)
	p.decomposer.Longest = true
	defer func() { p.decomposer.Longest = false }()
	weights, match, err := p.decomposer.Decompose(ctx, len(w.channels), w.matrix())
	if err != nil {
		return nil, err
	}
	out, in := t.loads()
	order, _, err := o.Model.arrange(weights, o.MaxStage, t.pull(out, in, bound))
	if err != nil {
		return nil, err
	}
	d := p.draft(t)
	d.bound, d.site = bound, s
	w.assign(t, d)
	for _, stint := range order {
		for a, b := range match[int(stint.turn)*len(w.channels):][:len(w.channels)] {
			w.send(d, a, int(b), stint.length)
		}
		if err := d.next(ctx); err != nil {
			return nil, err
		}
	}
	plan := d.finish(t, Bytes, 1, o.Model)
	plan.Certificate = &proof
	return plan, nil
}

// wires is the traffic between channels.
type wires struct {
	s        *Places
	channels []Rank    // [channel] its place
	list     []wire    // by pair of servers
	of       [][]int32 // [channel] its wires, as indices into list
}

// wire is the traffic from one channel to another.
type wire struct {
	from, to int32 // channels
	bytes    int64
	left     int64
}

// newWires spreads the traffic between servers, [rail][source][destination], over their
// channels on each rail, and fills one channel after another: every channel sends and receives
// at most the bound, and has few partners. If every NIC reaches every other, there is one rail.
func newWires(s *Places, shares [][]int64) *wires {
	w := &wires{s: s}
	on := make([][]int32, len(shares)*s.Servers) // [rail][server] channels
	for r, x := range s.Place {
		if x.NIC < 0 {
			continue
		}
		at := x.Server
		if s.Rails {
			at += x.Rail * s.Servers
		}
		on[at] = append(on[at], int32(len(w.channels)))
		w.channels = append(w.channels, Rank(r))
	}
	w.of = make([][]int32, len(w.channels))
	for rail, pairs := range shares {
		w.spread(s.Servers, pairs, on[rail*s.Servers:][:s.Servers])
	}
	return w
}

// spread spreads the traffic between servers over channels, [server].
func (w *wires) spread(n int, pairs []int64, on [][]int32) {
	sends, receives := make([]filler, n), make([]filler, n)
	for i := range n {
		sends[i].channels, receives[i].channels = on[i], on[i]
		for j := range n {
			sends[i].total += pairs[i*n+j]
			receives[i].total += pairs[j*n+i]
		}
	}
	for shift := 1; shift < n; shift++ {
		for i := range n {
			j := (i + shift) % n
			for left := pairs[i*n+j]; left > 0; {
				bytes := min(left, sends[i].room(), receives[j].room())
				w.add(sends[i].channels[sends[i].at], receives[j].channels[receives[j].at], bytes)
				sends[i].fill(bytes)
				receives[j].fill(bytes)
				left -= bytes
			}
		}
	}
}

func (w *wires) add(from, to int32, bytes int64) {
	w.of[from] = append(w.of[from], int32(len(w.list)))
	w.list = append(w.list, wire{from, to, bytes, bytes})
}

// filler fills channels one after another with equal shares.
type filler struct {
	channels []int32
	at       int
	total    int64
	used     int64 // bytes of the current channel
}

func (f *filler) room() int64 {
	return evenly(f.total, int64(len(f.channels)), int64(f.at)) - f.used
}

func (f *filler) fill(bytes int64) {
	f.used += bytes
	for f.at+1 < len(f.channels) && f.room() == 0 {
		f.at, f.used = f.at+1, 0
	}
}

// matrix returns the traffic between channels, [from][to].
func (w *wires) matrix() []int64 {
	x := make([]int64, len(w.channels)*len(w.channels))
	for _, v := range w.list {
		x[int(v.from)*len(w.channels)+int(v.to)] += v.bytes
	}
	return x
}

// send makes a channel send another up to so many of the remaining bytes.
func (w *wires) send(d *draft, from, to int, most int64) {
	sum := int64(0)
	for _, at := range w.of[from] {
		if v := &w.list[at]; int(v.to) == to {
			bytes := min(v.left, most-sum)
			v.left -= bytes
			sum += bytes
		}
	}
	d.send(w.channels[from], w.channels[to], sum)
}

// assign distributes the bytes of messages over the wires: first those that need no move at
// either end, then those that need none at one end, then the rest.
func (w *wires) assign(t *Traffic, d *draft) {
	n, m := t.Servers, t.GPUs
	pairs := make([][]int32, n*n)
	for at, v := range w.list {
		i, j := t.server(w.channels[v.from]), t.server(w.channels[v.to])
		pairs[i*n+j] = append(pairs[i*n+j], int32(at))
	}
	done := make([]int64, m*m) // [GPU][GPU] bytes of the message already on a wire
	room := make([]int64, len(w.list))
	for pair, list := range pairs {
		i, j := pair/n, pair%n
		clear(done)
		for _, at := range list {
			room[at] = w.list[at].bytes
		}
		for pass := range 3 {
			for _, at := range list {
				v := &w.list[at]
				out, in := w.channels[v.from], w.channels[v.to]
				from, to := w.s.home(out), w.s.home(in)
				for l := range m {
					for k := range m {
						source, destination := Rank(i*m+l), Rank(j*m+k)
						if fits := pass == 2 || pass == 1 && (source == from || destination == to) || source == from && destination == to; !fits {
							continue
						}
						bytes := min(room[at], t.Bytes[int(source)*t.Ranks()+int(destination)]-done[l*m+k])
						if bytes > 0 {
							d.segments = append(d.segments, Segment{source, destination, out, in, done[l*m+k], bytes})
							done[l*m+k] += bytes
							room[at] -= bytes
						}
					}
				}
			}
		}
	}
}
