package gpu

import "context"

// rails colours the matrix of server pairs with m·T* colours, where T* is Eq. 26: in
// slot c div m, colour c matches the NICs of number c mod m. Consecutive colours with
// the same matching fill whole slots together.
func (p *Planner) rails(ctx context.Context, t *Traffic) (*draft, error) {
	n, m := t.Servers, t.GPUs
	sum, err := newServers(ctx, t)
	if err != nil {
		return nil, err
	}
	w, err := p.decompose(ctx, n, sum.pairs)
	if err != nil {
		return nil, err
	}
	d := p.draft(t)
	d.straight = true
	s := &slots{d: d, n: n, m: m, left: sum.pairs, rail: make([]int64, n*n*m)}
	for turn, weight := range w.weights {
		if err := s.fill(ctx, w.match[turn*n:(turn+1)*n], weight); err != nil {
			return nil, err
		}
	}
	if err := d.next(ctx); err != nil {
		return nil, err
	}
	r, streams := newRiders(t, d, sum.out, sum.in), make([]stream, m)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for j := range n {
			if i != j {
				for nic, packets := range s.rail[(i*n+j)*m:][:m] {
					streams[nic] = stream{out: Rank(i*m + nic), in: Rank(j*m + nic), from: nic, to: nic, room: packets}
				}
				r.ride(i, j, streams)
			}
		}
	}
	return d, nil
}

// slots assigns colours to slots and NICs.
type slots struct {
	d    *draft
	n, m int
	nic  int     // the next colour's NIC
	left []int64 // [source][destination] packets of servers not sent yet
	rail []int64 // [source][destination][NIC] packets sent
}

// fill assigns weight colours with the same matching.
func (s *slots) fill(ctx context.Context, match []int32, weight int64) error {
	m := int64(s.m)
	for weight > 0 {
		if s.nic == 0 {
			if err := s.d.next(ctx); err != nil {
				return err
			}
			if weight >= m {
				s.whole(match, weight/m)
				weight %= m
				continue
			}
		}
		for i, j := range match {
			if at := i*s.n + int(j); s.left[at] > 0 {
				s.left[at]--
				s.carry(i, int(j), s.nic, 1)
			}
		}
		weight--
		s.nic = (s.nic + 1) % s.m
	}
	return nil
}

// whole fills whole slots, in which all NICs have the same matching.
func (s *slots) whole(match []int32, length int64) {
	m := int64(s.m)
	for i, j := range match {
		at := i*s.n + int(j)
		packets := min(s.left[at], length*m)
		s.left[at] -= packets
		for nic := range m {
			s.carry(i, int(j), int(nic), (packets+m-1-nic)/m)
		}
	}
}

func (s *slots) carry(i, j, nic int, packets int64) {
	s.rail[(i*s.n+j)*s.m+nic] += packets
	s.d.send(Rank(i*s.m+nic), Rank(j*s.m+nic), packets)
}
