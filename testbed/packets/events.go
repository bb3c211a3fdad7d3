package packets

// kind is the kind of an event.
type kind uint8

const (
	sent      kind = iota // the end of a packet has left by a link
	header                // the beginning of a packet has reached a switch
	delivered             // a message has arrived
	wake                  // for the pacer
)

// event is something that happens at a time; what is a link, a packet, a message or the
// pacer's value.
type event struct {
	at   int64
	seq  uint32 // orders events of the same time: first in, first out
	what int32
	kind kind
}

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && int32(a.seq-b.seq) < 0 }

// heap is a priority queue of events, with four children a node.
type heap struct {
	events []event
	seq    uint32
}

func (h *heap) len() int { return len(h.events) }

func (h *heap) push(e event) {
	e.seq = h.seq
	h.seq++
	h.events = append(h.events, e)
	i := len(h.events) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h.events[parent]) {
			break
		}
		h.events[i] = h.events[parent]
		i = parent
	}
	h.events[i] = e
}

func (h *heap) pop() event {
	top := h.events[0]
	n := len(h.events) - 1
	e := h.events[n]
	h.events = h.events[:n]
	if n == 0 {
		return top
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if h.events[c].before(&h.events[least]) {
				least = c
			}
		}
		if !h.events[least].before(&e) {
			break
		}
		h.events[i] = h.events[least]
		i = least
	}
	h.events[i] = e
	return top
}

// ring is a FIFO of requesters.
type ring struct {
	items   []int32
	head, n int
}

func (r *ring) push(x int32) {
	if r.n == len(r.items) {
		grown := make([]int32, max(4, 2*r.n))
		for i := range r.n {
			grown[i] = r.items[(r.head+i)%r.n]
		}
		r.items, r.head = grown, 0
	}
	r.items[(r.head+r.n)%len(r.items)] = x
	r.n++
}

func (r *ring) pop() int32 {
	x := r.items[r.head]
	r.head, r.n = (r.head+1)%len(r.items), r.n-1
	return x
}
