package gpu

import (
	"cmp"
	"slices"
)

// riders assigns the packets of pairs of servers to NICs of the same number on both sides. A
// packet of GPU l for GPU k needs no move before the transfer on NIC l, and no move after it
// on NIC k.
type riders struct {
	t       *Traffic
	d       *draft
	out, in []int64 // [rank] packets to and from other servers
	byOut   []int32 // [server] its GPUs by out, the largest first
	byIn    []int32 // [server] its GPUs by in, the largest first
	stay    bool    // prefer the NICs of the sending GPUs
	left    []int64 // [GPU][GPU] packets not assigned yet
}

func newRiders(t *Traffic, d *draft, out, in []int64) *riders {
	r := &riders{t: t, d: d, out: out, in: in, left: make([]int64, t.GPUs*t.GPUs)}
	r.byOut, r.byIn = t.busiest(r.out), t.busiest(r.in)
	return r
}

// busiest sorts the GPUs of each server by falling load.
func (t *Traffic) busiest(loads []int64) []int32 {
	order := make([]int32, 0, len(loads))
	for i := range t.Servers {
		first := i * t.GPUs
		for l := range t.GPUs {
			order = append(order, int32(l))
		}
		slices.SortStableFunc(order[first:], func(a, b int32) int { return cmp.Compare(loads[first+int(b)], loads[first+int(a)]) })
	}
	return order
}

// ride assigns the packets of server i for server j to streams between NICs with enough room.
// First come packets between GPUs of two NICs of a stream; then those of the GPUs with the most
// to send or to receive, on their own NICs, since the busiest GPU determines how long the moves
// take; then the rest.
func (r *riders) ride(i, j int, streams []stream) {
	m := r.t.GPUs
	some := int64(0)
	for l := range m {
		copy(r.left[l*m:], r.t.row(Rank(i*m+l), j))
		for _, v := range r.left[l*m : (l+1)*m] {
			some |= v
		}
	}
	if some == 0 {
		return
	}
	for at := range streams {
		x := &streams[at]
		r.assign(i, j, x.from, x.to, x)
	}
	senders, receivers := r.byOut[i*m:(i+1)*m], r.byIn[j*m:(j+1)*m]
	for len(senders) > 0 || len(receivers) > 0 {
		sends := len(receivers) == 0 || len(senders) > 0 && (r.stay || r.out[i*m+int(senders[0])] >= r.in[j*m+int(receivers[0])])
		for at := range streams {
			switch x := &streams[at]; {
			case x.room == 0:
			case sends && x.from == int(senders[0]):
				for k := range m {
					r.assign(i, j, int(senders[0]), k, x)
				}
			case !sends && x.to == int(receivers[0]):
				for l := range m {
					r.assign(i, j, l, int(receivers[0]), x)
				}
			}
		}
		if sends {
			senders = senders[1:]
		} else {
			receivers = receivers[1:]
		}
	}
	at := 0
	for l := range m {
		for k := range m {
			for r.left[l*m+k] > 0 {
				r.assign(i, j, l, k, &streams[at])
				if streams[at].room == 0 {
					at++
				}
			}
		}
	}
}

// assign assigns as many of GPU (i,l)'s packets for (j,k) to a stream as it has room for.
func (r *riders) assign(i, j, l, k int, x *stream) {
	m := r.t.GPUs
	at := l*m + k
	packets := min(r.left[at], x.room)
	if packets == 0 {
		return
	}
	source := Rank(i*m + l)
	r.d.segments = append(r.d.segments, Segment{
		Source: source, Destination: Rank(j*m + k), Out: x.out, In: x.in,
		Offset: r.t.row(source, j)[k] - r.left[at], Bytes: packets,
	})
	r.left[at] -= packets
	x.room -= packets
}
