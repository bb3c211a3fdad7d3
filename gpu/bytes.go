package gpu

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// bytes makes few long stages: each NIC of a server takes an equal share M_ij of the
// bytes for another server; M, rounded up to the grain, is decomposed into weighted
// matchings of servers, and all NICs follow these, each sending to the NIC of the same
// number. If own is a server, not −1, only its own bytes are planned.
func (p *Planner) bytes(ctx context.Context, t *Traffic, o Options, own int) (*Plan, error) {
	s := newServers(t)
	grain, err := s.round(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	weights, match, err := p.serverStages(ctx, s, o.Fewest)
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	model := o.Model.orDefault()
	order, _, err := model.arrange(weights, o.MaxStage, s.pull())
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	d, err := p.follow(ctx, s, order, match, own)
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	d.bound = over(longest(t.Servers, s.pairs), int64(t.GPUs))
	plan := d.finish(t, Bytes, 1, model)
	plan.Grain = grain
	return plan, nil
}

// ServerStages decomposes the traffic of the servers' NICs into matchings of servers:
// in stage s, of length[s] bytes, server i sends to server match[s*n+i]. The next call
// overwrites both. This is the part of mode Bytes whose time grows fastest. It fails
// as Plan does.
func (p *Planner) ServerStages(ctx context.Context, t *Traffic, o Options) (length []int64, match []int32, err error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	s := newServers(t)
	if _, err := s.round(ctx, o); err != nil {
		return nil, nil, err
	}
	return p.serverStages(ctx, s, o.Fewest)
}

// serverStages decomposes M.
func (p *Planner) serverStages(ctx context.Context, s *servers, fewest bool) (length []int64, match []int32, err error) {
	p.decomposer.Longest = fewest
	defer func() { p.decomposer.Longest = false }()
	return p.decomposer.Decompose(ctx, s.t.Servers, s.rounded)
}

// servers is the traffic between servers.
type servers struct {
	t       *Traffic
	pairs   []int64 // W, [source][destination]
	share   []int64 // M, the share of NIC 0
	rounded []int64 // M, rounded up to a grain
	out, in []int64 // [rank] bytes to and from other servers
}

func newServers(t *Traffic) *servers {
	n, m, ranks := t.Servers, t.GPUs, t.Ranks()
	s := &servers{t: t, pairs: make([]int64, n*n), out: make([]int64, ranks), in: make([]int64, ranks)}
	for source := range ranks {
		i, row := source/m, t.Bytes[source*ranks:][:ranks]
		for j := range n {
			if i == j {
				continue
			}
			sum := int64(0)
			in := s.in[j*m:][:m]
			for k, v := range row[j*m:][:m] {
				sum += v
				in[k] += v
			}
			s.pairs[i*n+j] += sum
			s.out[source] += sum
		}
	}
	s.share = shares(s.pairs, int64(m))
	return s
}

func (s *servers) pull() pull { return s.t.pull(s.out, s.in, longest(s.t.Servers, s.rounded)) }

// round rounds M up as the options say, and returns the grain.
func (s *servers) round(ctx context.Context, o Options) (grain int64, err error) {
	grain = max(1, o.Grain)
	if o.MaxStretch > 1 {
		if grain, err = widest(ctx, s.t.Servers, s.share, o.MaxStretch); err != nil {
			return 0, err
		}
	}
	s.rounded = rounded(s.share, grain)
	return grain, nil
}

// widest returns the first of a series of grains, each an eighth smaller than the
// previous one, with which the length is at most stretch times the least.
func widest(ctx context.Context, n int, share []int64, stretch float64) (int64, error) {
	limit := float64(longest(n, share)) * stretch
	grain := max(1, min(slices.Max(share), math.MaxInt64/4/int64(n))) // sums of rounded entries stay within 64 bits
	columns := make([]int64, n)
	for grain > 1 && !fits(n, share, grain, limit, columns) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		grain -= max(1, grain/8)
	}
	return grain, nil
}

// fits reports whether no row or column sum exceeds a limit when entries are rounded up to a
// grain. It overwrites columns.
func fits(n int, share []int64, grain int64, limit float64, columns []int64) bool {
	clear(columns)
	for row := range slices.Chunk(share, n) {
		sum := int64(0)
		for j, v := range row {
			if v == 0 {
				continue
			}
			v = over(v, grain) * grain
			sum += v
			if columns[j] += v; float64(columns[j]) > limit {
				return false
			}
		}
		if float64(sum) > limit {
			return false
		}
	}
	return true
}

// rounded rounds every entry up to a multiple of the grain.
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

// follow assigns the matchings of servers to the NICs.
func (p *Planner) follow(ctx context.Context, s *servers, order []stint, match []int32, own int) (*draft, error) {
	n, m := s.t.Servers, s.t.GPUs
	d := p.draftFor(s.t, own, s.segments(own))
	d.straight = true
	if own >= 0 { // for all servers, the number of transfers is not known well
		d.lines = make([]Transfer, 0, 2*m*len(order))
	}
	// Two stages hide no moves to the NICs: avoid these.
	left, err := s.ride(ctx, d, len(order) <= 2)
	if err != nil {
		return nil, err
	}
	share := slices.Clone(s.share)
	for _, stint := range order {
		length := int64(0)
		for i, j := range match[int(stint.turn)*n:][:n] {
			at := i*n + int(j)
			bytes := min(share[at], stint.length)
			length = max(length, bytes)
			share[at] -= bytes
			if bytes == 0 || own >= 0 && own != i && own != int(j) {
				continue
			}
			first := d.pair(i, int(j)) * m
			for nic := range m {
				rest := &left[first+nic]
				d.send(Rank(i*m+nic), Rank(int(j)*m+nic), min(*rest, bytes))
				*rest -= min(*rest, bytes)
			}
		}
		if length > 0 {
			d.lengths = append(d.lengths, length)
			d.ends = append(d.ends, len(d.lines))
		}
		if err := d.check(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// segments estimates the number of segments of a plan for a server, or −1 for all.
func (s *servers) segments(own int) int {
	n, m := s.t.Servers, s.t.GPUs
	pairs := 0
	for at, v := range s.pairs {
		if v > 0 && (own < 0 || at/n == own || at%n == own) {
			pairs++
		}
	}
	return pairs * (m*m + m)
}

// ride assigns the traffic between servers to NICs in equal shares, and returns these,
// [source][destination][NIC].
func (s *servers) ride(ctx context.Context, d *draft, stay bool) ([]int64, error) {
	n, m := s.t.Servers, s.t.GPUs
	r := newRiders(s.t, d, s.out, s.in)
	r.stay = stay
	left := make([]int64, d.pairs()*m)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for j := range n {
			if d.own >= 0 && d.own != i && d.own != j || s.pairs[i*n+j] == 0 {
				continue
			}
			share := left[d.pair(i, j)*m:][:m]
			for nic := range share {
				share[nic] = evenly(s.pairs[i*n+j], int64(m), int64(nic))
			}
			r.ride(i, j, share)
		}
	}
	return left, nil
}
