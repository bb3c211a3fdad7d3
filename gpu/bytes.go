package gpu

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// bytes makes few long stages: each NIC of a server takes an equal share M_ij of
// what the server has for another, rounded up to the grain, and M is decomposed
// into weighted matchings of servers that all NICs follow, those of a number
// sending to those of the same number.
func (p *Planner) bytes(ctx context.Context, t *Traffic, o Options) (*Plan, error) {
	share, grain, err := p.shares(ctx, t, o)
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	weights, match, err := p.serverStages(ctx, t.Servers, share, o.Fewest)
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	w := turns{t.Servers, weights, match}
	d, err := p.follow(ctx, t, w, share)
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	plan := d.finish(t, Bytes, 1)
	plan.Grain = grain
	return plan, nil
}

// ServerStages decomposes what the NICs of servers send into matchings of servers:
// in stage s, of length[s] bytes, server i sends to server match[s*n+i]. Both are
// in memory that the next call writes over. This is the part of mode Bytes whose
// time grows fastest. It fails as Plan does.
func (p *Planner) ServerStages(ctx context.Context, t *Traffic, o Options) (length []int64, match []int32, err error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	share, _, err := p.shares(ctx, t, o)
	if err != nil {
		return nil, nil, err
	}
	return p.serverStages(ctx, t.Servers, share, o.Fewest)
}

// serverStages decomposes M.
func (p *Planner) serverStages(ctx context.Context, n int, share []int64, fewest bool) (length []int64, match []int32, err error) {
	p.decomposer.Longest = fewest
	defer func() { p.decomposer.Longest = false }()
	return p.decomposer.Decompose(ctx, n, share)
}

// shares is M and the grain that it was rounded up to.
func (p *Planner) shares(ctx context.Context, t *Traffic, o Options) (share []int64, grain int64, err error) {
	exact := shares(t.Pairs(), int64(t.GPUs))
	grain = max(1, o.Grain)
	if o.MaxStretch > 1 {
		if grain, err = widest(ctx, t.Servers, exact, o.MaxStretch); err != nil {
			return nil, 0, err
		}
	}
	return rounded(exact, grain), grain, nil
}

// widest is the largest of grains that fall by an eighth each with which the length
// is at most stretch times what it is without.
func widest(ctx context.Context, n int, share []int64, stretch float64) (int64, error) {
	limit := float64(longest(n, share)) * stretch
	grain := max(1, min(slices.Max(share), math.MaxInt64/4/int64(n))) // sums of rounded entries stay within 64 bits
	for grain > 1 && float64(longest(n, rounded(share, grain))) > limit {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		grain -= max(1, grain/8)
	}
	return grain, nil
}

// rounded is every entry rounded up to a multiple of the grain.
func rounded(x []int64, grain int64) []int64 {
	if grain == 1 {
		return x
	}
	out := make([]int64, len(x))
	for at, v := range x {
		out[at] = over(v, grain) * grain
	}
	return out
}

// follow has the NICs carry out matchings of servers, no NIC more than the share.
func (p *Planner) follow(ctx context.Context, t *Traffic, w turns, share []int64) (*draft, error) {
	n, m := t.Servers, t.GPUs
	d := p.draft(t)
	r := newRiders(t, d)
	load := make([]int64, n*n*m) // [source][destination][NIC] bytes to be sent
	room := make([]int64, m)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for j := range n {
			if i == j {
				continue
			}
			for nic := range room {
				room[nic] = share[i*n+j]
			}
			r.ride(i, j, room)
			for nic, v := range room {
				load[(i*n+j)*m+nic] = v - r.room[nic]
			}
		}
	}
	for turn, weight := range w.weights {
		for i, j := range w.match[turn*n : (turn+1)*n] {
			for nic := range m {
				left := &load[(i*n+int(j))*m+nic]
				packets := min(*left, weight)
				*left -= packets
				d.send(Rank(i*m+nic), Rank(int(j)*m+nic), packets)
			}
		}
		if err := d.next(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}
