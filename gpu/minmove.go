package gpu

import "context"

// minMove moves the excess of NICs over T*, Eq. 26, to others of their server, on the
// sending side and then on the receiving side: Σ max(0, load − T*) packets per side, the
// least that leaves no NIC with more than T*. The matrix of NICs then needs T* slots
// (König 1916). If still, no NIC gets more than the busiest GPU has for each of its own, and only
// the excess over that and the packets of GPUs without a NIC move.
func (p *Planner) minMove(ctx context.Context, t *Traffic, still bool) (*draft, error) {
	s, err := newServers(ctx, t)
	if err != nil {
		return nil, err
	}
	most := s.bound
	for r, nics := range s.nics {
		if still && nics > 0 {
			most = max(most, over(max(s.out[r], s.in[r]), nics))
		}
	}
	ranks := t.Ranks()
	d := p.draft(t)
	t.spill(d, s.excess(s.out, most))
	catch(d, s.excess(s.in, most))
	x := make([]int64, ranks*ranks)
	for at := range d.segments {
		s := &d.segments[at]
		x[int(s.Out)*ranks+int(s.In)] += s.Bytes
	}
	w, err := p.decompose(ctx, ranks, x)
	if err != nil {
		return nil, err
	}
	for turn, weight := range w.weights {
		for from, to := range w.match[turn*ranks : (turn+1)*ranks] {
			at := from*ranks + int(to)
			packets := min(x[at], weight)
			x[at] -= packets
			d.send(Rank(from), Rank(to), packets)
		}
		if err := d.next(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// balance holds the excess of NICs and the room of others.
type balance struct {
	c       Cluster
	surplus []int64 // [rank] load minus the most that its NIC may have
	open    []Rank  // [server] first rank that may have room
}

// excess compares loads with the most that a NIC may have. It keeps and modifies the loads.
func (s *servers) excess(loads []int64, most int64) *balance {
	c := s.t.Cluster
	b := &balance{c, loads, make([]Rank, c.Servers)}
	for r := range loads {
		if s.t.Site.works(r) {
			loads[r] -= most
		}
	}
	for i := range b.open {
		b.open[i] = Rank(i * c.GPUs)
	}
	return b
}

// move takes up to so many packets from a rank with a surplus. It returns the rank that gets
// them and their number, 0 if from has no surplus.
func (b *balance) move(from Rank, packets int64) (Rank, int64) {
	if b.surplus[from] <= 0 || packets == 0 {
		return from, 0
	}
	open := &b.open[b.c.server(from)]
	for b.surplus[*open] >= 0 {
		*open++
	}
	to := *open
	packets = min(packets, b.surplus[from], -b.surplus[to])
	b.surplus[from] -= packets
	b.surplus[to] += packets
	return to, packets
}

// spill makes the segments of all messages between servers, with NICs for sending.
func (t *Traffic) spill(d *draft, b *balance) {
	for source := range Rank(t.Ranks()) {
		for j := range t.Servers {
			if j == t.server(source) {
				continue
			}
			for k, v := range t.row(source, j) {
				destination := Rank(j*t.GPUs + k)
				s := Segment{Source: source, Destination: destination, In: destination}
				for s.Offset < v {
					s.Out, s.Bytes = b.move(source, v-s.Offset)
					if s.Bytes == 0 {
						s.Bytes = v - s.Offset
					}
					d.segments = append(d.segments, s)
					s.Offset += s.Bytes
				}
			}
		}
	}
}

// catch chooses the receiving NICs of the segments. It cuts off the excess of a NIC and
// appends it to the segments.
func catch(d *draft, b *balance) {
	for at := range d.segments {
		for {
			s := &d.segments[at]
			to, packets := b.move(s.Destination, s.Bytes)
			if packets == 0 {
				break
			}
			if packets == s.Bytes {
				s.In = to
				break
			}
			part := *s
			part.In, part.Bytes = to, packets
			s.Offset += packets
			s.Bytes -= packets
			d.segments = append(d.segments, part)
		}
	}
}
