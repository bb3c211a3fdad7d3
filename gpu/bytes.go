package gpu

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// bytes makes few long stages: each NIC of a group takes an equal share M_ij of the bytes for
// another group; M, rounded up to the grain, is decomposed into weighted matchings of groups,
// and all NICs of a group follow these. If own is a server, not −1, only its own bytes are
// planned.
func (p *Planner) bytes(ctx context.Context, t *Traffic, o Options, own int) (*Plan, error) {
	s, err := newServers(ctx, t)
	if err != nil {
		return nil, err
	}
	return p.bytesOf(ctx, s, o, own)
}

func (p *Planner) bytesOf(ctx context.Context, s *servers, o Options, own int) (*Plan, error) {
	s.divide(o.Groups)
	grain, err := s.round(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	weights, match, err := p.serverStages(ctx, s, o.Fewest, 0)
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	model := o.Model.orDefault().at(s.t.Site)
	order, _, err := model.arrange(weights, o.MaxStage, s.pull())
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	d, err := p.follow(ctx, s, order, match, own)
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Bytes, err)
	}
	d.bound, d.site = s.bound, s.t.Site
	plan := d.finish(s.t, Bytes, 1, model)
	plan.Grain, plan.Certificate = grain, s.proof
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
	s, err := newServers(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	s.divide(o.Groups)
	if _, err := s.round(ctx, o); err != nil {
		return nil, nil, err
	}
	return p.serverStages(ctx, s, o.Fewest, 0)
}

// mostStages limits the stages within lanes, for each row: what they leave out may be left for ever smaller
// ones.
const mostStages = 8

// serverStages decomposes M into at most so many stages, 0 for any number.
func (p *Planner) serverStages(ctx context.Context, s *servers, fewest bool, most int) (length []int64, match []int32, err error) {
	d := &p.decomposer
	d.Longest, d.MaxStages, d.Serve, d.First = fewest, most, s.serve(), s.order*s.size/orders
	if lanes := mostStages * s.size; d.Serve != nil && (most == 0 || most > lanes) {
		d.MaxStages = lanes
	}
	defer func() { d.Longest, d.MaxStages, d.Serve, d.First = false, 0, nil, 0 }()
	return d.Decompose(ctx, s.size, s.rounded)
}

// pull estimates how much the busiest GPUs move inside their servers. A GPU with more bytes than
// its NICs may send gives the rest to others. Half of the evenly spread bytes move on one side.
func (s *servers) pull() pull {
	p := pull{.5, .5}
	length := longest(s.size, s.rounded)
	if length == 0 {
		return p
	}
	most := func(loads []int64) (excess int64) {
		for i := range s.t.Servers {
			sum, first := int64(0), i*s.t.GPUs
			for _, v := range loads[first:][:s.t.GPUs] {
				sum += v
			}
			for k, v := range loads[first:][:s.t.GPUs] {
				excess = max(excess, v-s.nics[first+k]*(sum/max(1, s.each[i])))
			}
		}
		return excess
	}
	p.before = max(p.before, float64(most(s.out))/float64(length))
	p.after = max(p.after, float64(most(s.in))/float64(length))
	if x := s.t.tokens; x != nil {
		p.after = max(p.after, float64(x.copies())/float64(length))
	}
	return p
}

// round rounds M up as the options say, and returns the grain.
func (s *servers) round(ctx context.Context, o Options) (grain int64, err error) {
	grain = max(1, o.Grain)
	if o.MaxStretch > 1 {
		if grain, err = s.widest(ctx, o.MaxStretch); err != nil {
			return 0, err
		}
	}
	x := rounded(s.share, grain)
	s.rounded = s.extend(x, over(s.least(x), grain)*grain)
	return grain, nil
}

// widest returns the first of a series of grains, each an eighth smaller than the
// previous one, with which the length is at most stretch times the least.
func (s *servers) widest(ctx context.Context, stretch float64) (int64, error) {
	n, grain := len(s.groups), int64(1)
	for _, v := range s.share {
		grain = max(grain, v)
	}
	limit := float64(s.least(s.share)) * stretch
	grain = min(grain, math.MaxInt64/4/int64(max(1, n))) // sums of rounded entries stay within 64 bits
	columns := make([]int64, n)
	for grain > 1 && !(fits(n, s.share, grain, limit, columns) && (s.limits == nil || float64(s.least(rounded(s.share, grain))) <= limit)) {
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

// follow assigns the matchings of groups to the NICs.
func (p *Planner) follow(ctx context.Context, s *servers, order []stint, match []int32, own int) (*draft, error) {
	n := len(s.groups)
	d := p.draftFor(s.t, own, s.segments(own))
	d.straight = s.t.Site == nil && n == s.t.Servers
	if own >= 0 { // for all servers, the number of transfers is not known well
		d.lines = make([]Transfer, 0, 2*s.t.GPUs*len(order))
	}
	list, first, err := s.ride(ctx, d, order, match)
	if err != nil {
		return nil, err
	}
	share := slices.Clone(s.share)
	for _, stint := range order {
		length := int64(0)
		for a, b := range match[int(stint.turn)*s.size:][:n] {
			if b < 0 || int(b) >= n {
				continue // it idles, as lanes or a limit say
			}
			at := a*n + int(b)
			if own >= 0 && own != s.groups[a].server && own != s.groups[b].server {
				bytes := min(share[at], stint.length)
				share[at] -= bytes
				length = max(length, bytes)
				continue
			}
			for k := range s.width(at) {
				if s.load[at] == 0 || s.skips != nil && s.skips[stint.turn][skip{a, k}] {
					continue
				}
				x := &list[int(first[at])+k]
				bytes := min(x.left, stint.length)
				d.send(x.out, x.in, bytes)
				x.left -= bytes
				length = max(length, bytes)
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

// ride assigns the messages between servers to the streams between NICs, and returns these and,
// [group][group], the first of each two groups.
func (s *servers) ride(ctx context.Context, d *draft, order []stint, match []int32) (list []stream, first []int32, err error) {
	n := s.t.Servers
	r := newRiders(s.t, d, s.out, s.in)
	r.stay = len(order) <= 2 // two stages hide no moves to the NICs: avoid these
	list, first = make([]stream, 0, d.pairs()*s.t.GPUs), make([]int32, len(s.load))
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		for j := range n {
			if d.own >= 0 && d.own != i && d.own != j || s.pairs[i*n+j] == 0 {
				continue
			}
			begin := len(list)
			for a := s.first[i]; a < s.first[i+1]; a++ {
				for b := s.first[j]; b < s.first[j+1]; b++ {
					if at := a*len(s.groups) + b; s.load[at] > 0 {
						first[at] = int32(len(list))
						list = s.streams(list, at)
						if s.skips != nil {
							s.rooms(at, list[first[at]:], order, match)
						}
					}
				}
			}
			r.ride(i, j, list[begin:])
		}
	}
	return list, first, nil
}
