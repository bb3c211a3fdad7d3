package photonic

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Replayed holds the counts of Replay.
type Replayed struct {
	Messages int   // that arrived
	Moves    int64 // of messages, or of chunks in plans without rounds, over a link
	Cost     Time  // of reconfigurations and hops
	// Symmetric reports whether one source stood for all, see Replayer.
	Symmetric bool
}

// Replay runs a plan on the time-expanded network: it configures each topology in turn
// and moves every chunk hop by hop. It returns the first error: a switch that is not set
// to a permutation, two messages or chunks on a link at once, a chunk that leaves before
// it has arrived or from another GPU, a lost one, or costs other than stated. Chunks stay
// at their relay when the topology changes. Replay knows the plan's format and the cost of
// a chunk, and shares no code with the planners.
func Replay(ctx context.Context, in *Instance, p *Plan) (*Replayed, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	if p.GPUs != in.GPUs || p.Degree != in.Degree {
		return nil, fmt.Errorf("the plan is for %d GPUs of degree %d, the exchange has %d of degree %d", p.GPUs, p.Degree, in.GPUs, in.Degree)
	}
	if len(p.Topologies) >= max(2, in.GPUs) {
		return nil, fmt.Errorf("the plan has %d topologies for %d GPUs: want at most %d", len(p.Topologies), in.GPUs, in.GPUs-1)
	}
	if len(p.Rounds) > 0 && len(p.Hops) > 0 {
		return nil, fmt.Errorf("the plan has %d rounds and %d hops: want rounds or hops", len(p.Rounds), len(p.Hops))
	}
	var r *Replayed
	var err error
	if len(p.Hops) > 0 {
		r, err = replayHops(ctx, in, p)
	} else {
		r, err = replayRounds(ctx, in, p)
	}
	if err != nil {
		return nil, err
	}
	sum := r.Cost
	r.Cost += Time(len(p.Topologies)) * in.Reconfig
	switch {
	case r.Cost != p.Cost:
		return nil, fmt.Errorf("the plan states a cost of %g µs, and takes %g", p.Cost.US(), r.Cost.US())
	case sum != p.Sum || float64(sum)/float64(in.T()) != p.HopSum:
		return nil, fmt.Errorf("the plan states %g µs of transfers and a hop sum of %g, and has %g and %g", p.Sum.US(), p.HopSum, sum.US(), float64(sum)/float64(in.T()))
	case p.LowerBound > p.Cost:
		return nil, fmt.Errorf("the plan states a lower bound of %g µs, and takes %g", p.LowerBound.US(), p.Cost.US())
	}
	return r, nil
}

func replayRounds(ctx context.Context, in *Instance, p *Plan) (*Replayed, error) {
	r, err := NewReplayer(in, p.Topologies, p.Label)
	if err != nil {
		return nil, err
	}
	for i := range p.Rounds {
		if err := r.Round(ctx, &p.Rounds[i]); err != nil {
			return nil, fmt.Errorf("round %d: %w", i, err)
		}
	}
	return r.Done()
}

// checkPermutation returns an error if row is not a permutation of n GPUs.
func checkPermutation(n int, row []int32) error {
	if len(row) != n {
		return fmt.Errorf("it has %d entries, want %d", len(row), n)
	}
	from := make([]int, n)
	for i, v := range row {
		switch {
		case v < 0 || int(v) >= n:
			return fmt.Errorf("entry %d is %d, want from 0 to %d", i, v, n-1)
		case from[v] > 0:
			return fmt.Errorf("entries %d and %d are both %d", from[v]-1, i, v)
		}
		from[v] = i + 1
	}
	return nil
}

// wiring is the GPUs joined by each switch of a topology, [switch][GPU].
func wiring(n, k int, t *Topology, label []int32) ([][]int32, error) {
	rows := t.Next
	if t.Offsets != nil {
		if t.Next != nil || len(t.Offsets) != k {
			return nil, fmt.Errorf("it has %d offsets and settings of %d switches, want one of the two, for %d switches", len(t.Offsets), len(t.Next), k)
		}
		rows = make([][]int32, k)
		for s, a := range t.Offsets {
			if a < 1 || a >= n {
				return nil, fmt.Errorf("switch %d has the offset %d, want from 1 to %d", s, a, n-1)
			}
			rows[s] = make([]int32, n)
			for at := range n {
				rows[s][label[at]] = label[(at+a)%n]
			}
		}
	}
	if len(rows) != k {
		return nil, fmt.Errorf("it sets %d switches, want %d", len(rows), k)
	}
	for s, row := range rows {
		if err := checkPermutation(n, row); err != nil {
			return nil, fmt.Errorf("switch %d is not set to a permutation: %w", s, err)
		}
	}
	return rows, nil
}

// labels returns the GPUs at the positions of a plan.
func labels(n int, label []int32) ([]int32, error) {
	if label == nil {
		label = make([]int32, n)
		for i := range label {
			label[i] = int32(i)
		}
	}
	if err := checkPermutation(n, label); err != nil {
		return nil, fmt.Errorf("the GPUs at the positions are not a permutation: %w", err)
	}
	return label, nil
}

// maxReplayed is the most chunks that replayHops tracks.
const maxReplayed = 1 << 23

// replayHops replays a plan whose chunks move one by one.
func replayHops(ctx context.Context, in *Instance, p *Plan) (*Replayed, error) {
	label, err := labels(in.GPUs, p.Label)
	if err != nil {
		return nil, err
	}
	chunks := int64(0)
	for flow := range in.GPUs * in.GPUs {
		chunks += in.Link.Chunks(in.size(flow/in.GPUs, flow%in.GPUs))
	}
	if chunks > maxReplayed {
		return nil, fmt.Errorf("%d chunks in all: want at most %d", chunks, maxReplayed)
	}
	if len(p.Spans) != len(p.Topologies) {
		return nil, fmt.Errorf("the plan has %d topologies and the spans of %d", len(p.Topologies), len(p.Spans))
	}
	order := make([]int32, len(p.Hops))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(p.Hops[a].Topology, p.Hops[b].Topology), cmp.Compare(p.Hops[a].Start, p.Hops[b].Start))
	})
	w := newWalk(in)
	r := &Replayed{}
	for t := range p.Topologies {
		rows, err := wiring(in.GPUs, in.Degree, &p.Topologies[t], label)
		if err != nil {
			return nil, fmt.Errorf("topology %d: %w", t, err)
		}
		if s := p.Spans[t]; s < 0 || s > maxCost-r.Cost {
			return nil, fmt.Errorf("topology %d is kept for %g µs, which is too long", t, s.US())
		}
		w.configure(rows, p.Spans[t])
		for len(order) > 0 && int(p.Hops[order[0]].Topology) == t {
			if err := w.move(&p.Hops[order[0]]); err != nil {
				return nil, fmt.Errorf("topology %d, hop %d: %w", t, order[0], err)
			}
			order = order[1:]
			if r.Moves++; r.Moves%1024 == 0 {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
			}
		}
		r.Cost += p.Spans[t]
	}
	if len(order) > 0 {
		return nil, fmt.Errorf("hop %d is on topology %d: there are %d", order[0], p.Hops[order[0]].Topology, len(p.Topologies))
	}
	r.Messages, err = w.arrived()
	return r, err
}

// walk holds the places of chunks and the times until which links are busy.
type walk struct {
	in    *Instance
	rows  [][]int32
	span  Time
	first []int   // [flow] number of its first chunk
	place []int32 // [chunk] its GPU, or the one to which it is on its way
	ready []Time  // [chunk] its arrival there
	busy  []Time  // [GPU·k + switch]
}

func newWalk(in *Instance) *walk {
	n := in.GPUs
	w := &walk{in: in, first: make([]int, n*n+1), busy: make([]Time, n*in.Degree)}
	for flow := range n * n {
		chunks := in.Link.Chunks(in.size(flow/n, flow%n))
		w.first[flow+1] = w.first[flow] + int(chunks)
		for range chunks {
			w.place = append(w.place, int32(flow/n))
		}
	}
	w.ready = make([]Time, len(w.place))
	return w
}

// configure sets the switches. All chunks have arrived by then: move ensures it.
func (w *walk) configure(rows [][]int32, span Time) {
	w.rows, w.span = rows, span
	clear(w.ready)
	clear(w.busy)
}

// move sends a chunk over a link.
func (w *walk) move(h *Hop) error {
	n := w.in.GPUs
	if h.Flow < 0 || int(h.Flow) >= n*n || h.Switch < 0 || int(h.Switch) >= w.in.Degree {
		return fmt.Errorf("unknown flow %d or switch %d", h.Flow, h.Switch)
	}
	src, dst := int(h.Flow)/n, int(h.Flow)%n
	first, last := w.first[h.Flow]+int(h.Chunk), w.first[h.Flow]+int(h.Chunk)+1
	if h.Chunk == Whole {
		first, last = w.first[h.Flow], w.first[h.Flow+1]
	}
	if first < w.first[h.Flow] || first >= last || last > w.first[h.Flow+1] {
		return fmt.Errorf("the message from GPU %d to %d has no chunk %d, but %d", src, dst, h.Chunk, w.first[h.Flow+1]-w.first[h.Flow])
	}
	at := w.place[first]
	link := int(at)*w.in.Degree + int(h.Switch)
	done := h.Start
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("chunk %d from GPU %d to %d leaves GPU %d over switch %d at %g µs, "+format,
			append([]any{h.Chunk, src, dst, at, h.Switch, h.Start.US()}, args...)...)
	}
	switch {
	case h.Start < 0:
		return wrong("before the topology is configured")
	case h.Start > w.span:
		return wrong("when the topology has ended, at %g", w.span.US())
	case h.Start < w.busy[link]:
		return wrong("while another is on the link until %g", w.busy[link].US())
	}
	for c := first; c < last; c++ {
		if w.place[c] != at || h.Start < w.ready[c] {
			return wrong("before it has come there, at %g", w.ready[c].US())
		}
		done += w.in.Link.ChunkTime(min(w.in.Link.Chunk, w.in.size(src, dst)-int64(c-w.first[h.Flow])*w.in.Link.Chunk))
	}
	if done > w.span {
		return wrong("and is on its way until %g, when the topology has ended at %g", done.US(), w.span.US())
	}
	for c := first; c < last; c++ {
		w.place[c], w.ready[c] = w.rows[h.Switch][at], done
	}
	w.busy[link] = done
	return nil
}

// arrived counts the messages, all of whose chunks must have arrived.
func (w *walk) arrived() (int, error) {
	n, messages := w.in.GPUs, 0
	for flow := range n * n {
		for c := w.first[flow]; c < w.first[flow+1]; c++ {
			if int(w.place[c]) != flow%n {
				return 0, fmt.Errorf("chunk %d from GPU %d to %d ends at GPU %d", c-w.first[flow], flow/n, flow%n, w.place[c])
			}
		}
		if w.first[flow+1] > w.first[flow] {
			messages++
		}
	}
	return messages, nil
}
