package gpu

import (
	"context"
	"fmt"
	"slices"
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

// siteBound returns the least length of a plan, ⌈Bytes/Channels⌉ of the server with the most
// bytes per channel. It fails if a server has traffic but no channel.
func (s *servers) siteBound() (int64, Certificate, error) {
	n := s.t.Servers
	bound, proof := int64(0), Certificate{Channels: 1}
	for i := range n {
		out, in := int64(0), int64(0)
		for j := range n {
			out += s.pairs[i*n+j]
			in += s.pairs[j*n+i]
		}
		for _, x := range []Certificate{{i, false, out, s.each[i], nil}, {i, true, in, s.each[i], nil}} {
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

// mostParts is the usual limit on the channels into which PlanSite divides the fastest NIC.
const mostParts = 8

// PlanSite plans the bytes that the GPUs of a site send each other, [source][destination]. If
// NICs differ in speed, it chooses the channels with which the plan takes the least time: finer
// ones use more of the speed of slower NICs, and even finer ones are used if a server has no
// channel otherwise. The model's B2 is the speed of the fastest NIC. If ctx ends, it returns the
// best plan so far, if any, with the error of ctx.
func (p *Planner) PlanSite(ctx context.Context, s *Site, bytes []int64, o Options) (*Plan, error) {
	return p.planParts(ctx, s, o.Model, func(places *Places) (*Plan, error) {
		t, err := s.Traffic(places, bytes)
		if err != nil {
			return nil, err
		}
		return p.Plan(ctx, t, o)
	})
}

// PlanSiteTokens is PlanTokens for the GPUs of a site, and chooses channels as PlanSite does.
func (p *Planner) PlanSiteTokens(ctx context.Context, s *Site, x *Tokens, o Options) (*Plan, error) {
	return p.planParts(ctx, s, o.Model, func(places *Places) (*Plan, error) {
		if len(places.first) != x.Ranks() {
			return nil, fmt.Errorf("the tokens are of %d GPUs, and the site has %d", x.Ranks(), len(places.first))
		}
		for g, at := range places.first {
			if y := places.Place[at]; slices.Contains(s.Servers[y.Server].DeadGPUs, y.GPU) && (x.count[g] > 0 || x.sends(Rank(g))) {
				return nil, fmt.Errorf("GPU %d, number %d of server %d, is dead and has tokens", g, y.GPU, y.Server)
			}
		}
		t := x.on(places.Cluster, func(r Rank) Rank { return Rank(places.first[r]) }).units()
		t.Site = places
		return p.planUnits(ctx, t, o)
	})
}

// planParts makes plans with channels of several speeds, and returns the one with the least
// predicted time.
func (p *Planner) planParts(ctx context.Context, s *Site, m Model, plan func(*Places) (*Plan, error)) (*Plan, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	var best *Plan
	var failed error
	for part, finest := int64(1), int64(mostParts); part <= finest; part++ {
		var next *Plan
		places, err := s.Places(part)
		if err == nil {
			next, err = plan(places)
		}
		if next != nil && (best == nil || m.Predict(next).Total < m.Predict(best).Total) {
			best = next
		}
		if ctx.Err() != nil {
			return best, ctx.Err()
		}
		if err != nil {
			failed = err // a server has no channel, or there are too many channels
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
