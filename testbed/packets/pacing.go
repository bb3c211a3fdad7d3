package packets

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Pace is the rule by which ranks send.
type Pace uint8

// The rules. Each rank sends its messages in the order of their phases.
const (
	// AtOnce posts every message at the beginning.
	AtOnce Pace = iota
	// Window has Pacing.Window messages of a rank in flight.
	Window
	// Pairwise begins a phase when the rank has sent and received that of the phase before.
	Pairwise
	// Rendezvous is Pairwise if a message also waits until its receiver has come to its phase,
	// as a large one of MPI waits for a receive that is not posted ahead.
	Rendezvous
	// Barrier begins a phase when all messages of the phase before have arrived.
	Barrier
	// ByLinks begins a message when the message before it on each of its links has arrived,
	// by news from its receiver.
	ByLinks
	// Clock begins phase p at a time, regardless of arrivals.
	Clock
)

func (p Pace) String() string {
	return [...]string{"at-once", "window", "pairwise", "rendezvous", "barrier", "by-links", "clock"}[p]
}

// Pacing determines how ranks send. Times are in picoseconds.
type Pacing struct {
	Pace   Pace
	Window int
	// Guard is the share by which a phase by the clock is longer than its largest message.
	Guard float64
	// Jitter is the mean of an exponential delay before each send.
	Jitter int64
	// News is the duration of a message without data: a completion, a barrier, news of a link.
	News int64
	// Skew is the standard deviation of a rank's clock.
	Skew int64
}

// pacer decides when messages are posted. wake gets the value that it pushed with the event.
type pacer interface {
	start()
	wake(what int32)
	delivered(message int32)
}

// ranks are the messages of each host in the order in which it sends them.
type ranks struct {
	s *simulation
	Pacing
	rng  *rand.Rand
	of   [][]int32 // [host] messages
	next []int     // [host] place in of
}

func newPacer(s *simulation, p Pacing) (pacer, error) {
	r := ranks{s: s, Pacing: p, rng: rand.New(rand.NewPCG(s.Seed, 1)), of: make([][]int32, len(s.net.hosts)), next: make([]int, len(s.net.hosts))}
	for i := range s.messages {
		src := s.messages[i].src
		r.of[src] = append(r.of[src], int32(i))
	}
	for _, of := range r.of {
		slices.SortStableFunc(of, func(a, b int32) int { return cmp.Compare(s.messages[a].Phase, s.messages[b].Phase) })
	}
	switch p.Pace {
	case AtOnce:
		return &window{r, len(s.messages)}, nil
	case Window:
		if p.Window < 1 {
			return nil, fmt.Errorf("a window of %d messages: it must be 1 or more", p.Window)
		}
		return &window{r, p.Window}, nil
	case Pairwise, Rendezvous, Barrier, ByLinks:
		return newAfter(r), nil
	case Clock:
		return newClock(r), nil
	}
	return nil, fmt.Errorf("unknown pace %d", p.Pace)
}

func (r *ranks) jitter() int64 {
	if r.Jitter == 0 {
		return 0
	}
	return int64(r.rng.ExpFloat64() * float64(r.Jitter))
}

func (r *ranks) at(at int64, what int32) {
	r.s.events.push(event{at: at, kind: wake, what: what})
}

// window keeps up to size messages of each rank in flight. A rank is woken for each post.
type window struct {
	ranks
	size int
}

func (w *window) start() {
	for h, of := range w.of {
		at := int64(0)
		for range min(w.size, len(of)) {
			at += w.jitter()
			w.at(at, int32(h))
		}
	}
}

func (w *window) wake(h int32) {
	if w.next[h] < len(w.of[h]) {
		w.next[h]++
		w.s.post(w.of[h][w.next[h]-1])
	}
}

func (w *window) delivered(i int32) {
	if h := w.s.messages[i].src; w.size < len(w.of[h]) {
		w.at(w.s.now+w.News+w.jitter(), h)
	}
}

// after posts a message when those that it waits for have arrived: one of the messages
// that each resource has in turn. Resources are links (ByLinks), the two directions of ranks
// (Pairwise, Rendezvous), or all of a phase (Barrier).
type after struct {
	ranks
	waits     []int32   // [message] messages that it still waits for
	unblocked [][]int32 // [message] messages that wait for it
	phase     []int32   // Barrier: messages by phase
	left      int       // Barrier: messages of the phase that have not arrived
}

func newAfter(r ranks) *after {
	a := &after{ranks: r, waits: make([]int32, len(r.s.messages)), unblocked: make([][]int32, len(r.s.messages))}
	order := make([]int32, len(a.waits))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(x, y int32) int { return cmp.Compare(r.s.messages[x].Phase, r.s.messages[y].Phase) })
	if a.Pace == Barrier {
		a.phase = order
		return a
	}
	last := make([]int32, len(r.s.links))
	for i := range last {
		last[i] = -1
	}
	for n := 0; len(order) > 0; order = order[n:] {
		n = a.together(order)
		for _, i := range order[:n] {
			for _, l := range a.uses(i) {
				if last[l] >= 0 {
					a.waits[i]++
					a.unblocked[last[l]] = append(a.unblocked[last[l]], i)
				}
			}
		}
		for _, i := range order[:n] {
			for _, l := range a.holds(i) {
				last[l] = i
			}
		}
	}
	return a
}

// together counts the messages that are of the same phase as the first one.
func (a *after) together(order []int32) (n int) {
	for n < len(order) && a.s.messages[order[n]].Phase == a.s.messages[order[0]].Phase {
		n++
	}
	return n
}

// uses are the resources that must be free before a message is sent, as links.
func (a *after) uses(i int32) []int32 {
	m := &a.s.messages[i]
	switch up, down := a.s.net.uplink, a.s.net.downlink; a.Pace {
	case Pairwise:
		return []int32{up[m.src], down[m.src]}
	case Rendezvous:
		return []int32{up[m.src], down[m.src], up[m.dst], down[m.dst]}
	}
	return m.route
}

// holds are the resources that a message keeps until it has arrived, as links.
func (a *after) holds(i int32) []int32 {
	m := &a.s.messages[i]
	if a.Pace != ByLinks {
		return []int32{a.s.net.uplink[m.src], a.s.net.downlink[m.dst]}
	}
	return m.route
}

func (a *after) start() {
	if a.Pace == Barrier {
		a.begin()
		return
	}
	for i := range a.waits {
		if a.waits[i] == 0 {
			a.at(a.jitter(), int32(i))
		}
	}
}

// begin starts the next phase after a barrier.
func (a *after) begin() {
	n := a.together(a.phase)
	for _, i := range a.phase[:n] {
		a.at(a.s.now+a.News+a.jitter(), i)
	}
	a.phase, a.left = a.phase[n:], n
}

func (a *after) wake(i int32) { a.s.post(i) }

func (a *after) delivered(i int32) {
	if a.Pace == Barrier {
		if a.left--; a.left == 0 {
			a.begin()
		}
		return
	}
	for _, j := range a.unblocked[i] {
		if a.waits[j]--; a.waits[j] == 0 {
			a.at(a.s.now+a.News+a.jitter(), j)
		}
	}
}

// clock posts the messages of phase p at the rank's time of p, or after the rank's previous
// message if that was late.
type clock struct {
	ranks
	begins []int64 // [phase]
	skew   []int64 // [host]
}

func newClock(r ranks) *clock {
	c := &clock{ranks: r, skew: make([]int64, len(r.of))}
	var longest []int64
	for i := range r.s.messages {
		m := &r.s.messages[i]
		for int(m.Phase) >= len(longest) {
			longest = append(longest, 0)
		}
		longest[m.Phase] = max(longest[m.Phase], int64(m.Bytes)*r.s.Byte)
	}
	at := int64(0)
	for _, t := range longest {
		c.begins = append(c.begins, at)
		at += int64(float64(t) * (1 + c.Guard))
	}
	for h := range c.skew {
		if c.Skew > 0 {
			c.skew[h] = int64(c.rng.NormFloat64() * float64(c.Skew))
		}
	}
	return c
}

func (c *clock) start() {
	for h := range c.of {
		c.sleep(int32(h))
	}
}

// sleep wakes a rank for its next message.
func (c *clock) sleep(h int32) {
	if c.next[h] < len(c.of[h]) {
		begin := c.begins[c.s.messages[c.of[h][c.next[h]]].Phase] + c.skew[h]
		c.at(max(c.s.now, begin)+c.jitter(), h)
	}
}

func (c *clock) wake(h int32) {
	c.next[h]++
	c.s.post(c.of[h][c.next[h]-1])
	c.sleep(h)
}

func (c *clock) delivered(int32) {}
