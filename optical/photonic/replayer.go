package photonic

import (
	"context"
	"fmt"
)

// literalMoves is the number of moves of messages over links that are replayed one by
// one; from then on one source stands for all.
const literalMoves = 1 << 26

// Replayer replays a plan round by round, so that a large plan does not have to fit in
// memory. It keeps only the position of each message, [class][source].
//
// All positions do the same, each rotated by its number, and a rotation maps each topology
// to itself. So the messages of a class, one from each position, are always at n
// different positions, and those of two classes meet on a link if and only if they take
// the same switch in the same hop. It is thus sufficient to follow the messages of one
// source. Replayer does so after literalMoves moves, since all would take hours: 4096
// GPUs on one cycle make 3.4·10¹⁰ moves.
type Replayer struct {
	in       *Instance
	label    []int32
	position []int32     // [GPU], the inverse of label
	rows     [][][]int32 // [topology][switch][GPU]
	offsets  [][]int
	at       [][]uint16 // [class][source position] the message's current GPU
	turned   []int      // [class] positions by which the message of a source has moved
	seen     []int      // [class] the last round in which it moved
	link     []int      // [GPU·k + switch] the last hop in which it was used
	used     []int      // [switch] likewise, for one source
	literal  int64      // see literalMoves
	topology int
	rounds   int
	hops     int
	out      Replayed
}

// NewReplayer prepares the replay of rounds on some topologies, which must be
// circulant. label is the GPU at each position; nil means the identity.
func NewReplayer(in *Instance, topologies []Topology, label []int32) (*Replayer, error) {
	n, k := in.GPUs, in.Degree
	r := &Replayer{in: in, literal: literalMoves, position: make([]int32, n), turned: make([]int, n), seen: make([]int, n), link: make([]int, n*k), used: make([]int, k)}
	var err error
	if r.label, err = labels(n, label); err != nil {
		return nil, err
	}
	for p, g := range r.label {
		r.position[g] = int32(p)
	}
	for i := range topologies {
		t := &topologies[i]
		if t.Offsets == nil {
			return nil, fmt.Errorf("topology %d has no offsets: rounds need them", i)
		}
		rows, err := wiring(n, k, t, r.label)
		if err != nil {
			return nil, fmt.Errorf("topology %d: %w", i, err)
		}
		r.rows, r.offsets = append(r.rows, rows), append(r.offsets, t.Offsets)
	}
	r.at = make([][]uint16, n)
	for x := range r.at {
		r.at[x] = make([]uint16, n)
		for p, g := range r.label {
			r.at[x][p] = uint16(g)
		}
	}
	return r, nil
}

// Round moves the messages of a round.
func (r *Replayer) Round(ctx context.Context, round *Round) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n := r.in.GPUs
	if round.Topology < r.topology || round.Topology >= len(r.rows) || round.Hops < 0 || round.Hops > n*n {
		return fmt.Errorf("%d hops on topology %d: want from 0 to %d hops, and a topology from %d to %d", round.Hops, round.Topology, n*n, r.topology, len(r.rows)-1)
	}
	r.topology = round.Topology
	r.rounds++
	largest, longest := int64(0), 0
	for _, path := range round.Paths {
		x := path.Class
		switch {
		case x < 1 || x >= n:
			return fmt.Errorf("class %d: want from 1 to %d", x, n-1)
		case r.seen[x] == r.rounds:
			return fmt.Errorf("class %d moves twice at a time", x)
		case len(path.Switches) > round.Hops:
			return fmt.Errorf("class %d takes %d hops of %d", x, len(path.Switches), round.Hops)
		}
		r.seen[x] = r.rounds
		longest = max(longest, len(path.Switches))
		if r.in.Sizes == nil {
			largest = r.in.Message
			continue
		}
		for p := range n {
			largest = max(largest, r.in.size(int(r.label[p]), int(r.label[(p+x)%n])))
		}
	}
	for t := range longest {
		r.hops++
		for _, path := range round.Paths {
			if t < len(path.Switches) && path.Switches[t] != Wait {
				if err := r.move(round, path.Class, int(path.Switches[t])); err != nil {
					return fmt.Errorf("hop %d: %w", t, err)
				}
			}
		}
	}
	t := r.in.Link.Time(largest)
	if Time(round.Hops) > (maxCost-r.out.Cost)/max(1, t) {
		return fmt.Errorf("%d hops of %g µs are too long", round.Hops, t.US())
	}
	r.out.Cost += Time(round.Hops) * t
	return nil
}

// move sends the messages of a class over one hop.
func (r *Replayer) move(round *Round, class, s int) error {
	n, k := r.in.GPUs, r.in.Degree
	if s < 0 || s >= k {
		return fmt.Errorf("class %d goes over switch %d: there are %d", class, s, k)
	}
	if r.used[s] == r.hops {
		return fmt.Errorf("class %d and another take switch %d at the same time", class, s)
	}
	r.used[s] = r.hops
	r.turned[class] = (r.turned[class] + r.offsets[round.Topology][s]) % n
	r.out.Moves += int64(n)
	if r.out.Symmetric {
		return nil
	}
	row, at := r.rows[round.Topology][s], r.at[class]
	for p, g := range at {
		link := int(g)*k + s
		if r.link[link] == r.hops {
			return fmt.Errorf("the message from GPU %d to %d meets another on switch %d at GPU %d", r.label[p], r.label[(p+class)%n], s, g)
		}
		r.link[link] = r.hops
		at[p] = uint16(row[g])
	}
	if r.out.Moves >= r.literal {
		r.out.Symmetric = true // all sources have moved alike: one is followed from then on
		return r.compare()
	}
	return nil
}

// compare checks the positions of the messages against turned.
func (r *Replayer) compare() error {
	n := r.in.GPUs
	for x := 1; x < n; x++ {
		for p, g := range r.at[x] {
			if want := (p + r.turned[x]) % n; int(r.position[g]) != want {
				return fmt.Errorf("the message from GPU %d to %d is at GPU %d, not %d", r.label[p], r.label[(p+x)%n], g, r.label[want])
			}
		}
	}
	return nil
}

// Done ends the replay: all messages must have arrived.
func (r *Replayer) Done() (*Replayed, error) {
	n := r.in.GPUs
	if !r.out.Symmetric {
		if err := r.compare(); err != nil {
			return nil, err
		}
	}
	for x := 1; x < n; x++ {
		for p, src := range r.label {
			dst := int(r.label[(p+x)%n])
			if r.in.size(int(src), dst) == 0 {
				continue
			}
			if r.turned[x] != x {
				return nil, fmt.Errorf("the message from GPU %d to %d ends at GPU %d", src, dst, r.label[(p+r.turned[x])%n])
			}
			r.out.Messages++
		}
	}
	return &r.out, nil
}
