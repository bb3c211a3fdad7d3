package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// tokenReplay is the state of an exchange of tokens.
type tokenReplay struct {
	x        *Tokens
	lengths  []int64
	programs []Program
	home     func(Rank) Rank
	buffers  [4][]rows  // [input, NIC send, NIC receive, output][rank]
	want     [][]uint64 // [rank] the output
	done     []progress
	mail     [][]uint64 // [sender][GPU of the receiver] in transit inside a server
	wire     []transit  // [rank] in transit over its NIC
	loads    [][2]int64 // [rank] bytes sent and received inside servers in this step
	busiest  []int64
	is       summary
	crossed  int64 // bytes that NICs have sent
}

// rows is a buffer of a rank in the replay: a number for each token, or 0.
type rows struct {
	holds []uint64
	top   int64   // end of the rows used so far
	taken []int64 // rows read in this step
	read  []int   // [row] the latest step in which it was read, from 1 on
}

type transit struct {
	numbers []uint64
	from    Rank
}

// sides lists the buffers that the kinds of moves lead from and to.
var sides = [3][2]int{{0, 1}, {2, 3}, {0, 3}}

// replayTokens executes programs and compares the stated figures with the actual ones. It returns
// how many bytes the busiest GPU moves inside its server, [step]. Ranks with the same home
// are of the same GPU.
func replayTokens(ctx context.Context, x *Tokens, returns bool, lengths []int64, programs []Program, says summary, bound int64, home func(Rank) Rank) ([]int64, error) {
	if len(programs) != x.Ranks() {
		return nil, fmt.Errorf("there are programs for %d ranks, want %d", len(programs), x.Ranks())
	}
	r := &tokenReplay{x: x, lengths: lengths, home: home, is: summary{bound: bound}, programs: programs, done: make([]progress, x.Ranks()),
		mail: make([][]uint64, x.Ranks()*x.GPUs), wire: make([]transit, x.Ranks()), loads: make([][2]int64, x.Ranks())}
	if err := r.load(returns); err != nil {
		return nil, err
	}
	for stage := -1; stage <= len(lengths); stage++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.execute(stage); err != nil {
			return nil, fmt.Errorf("during stage %d: %w", stage, err)
		}
	}
	return r.busiest, cmp.Or(r.end(), r.check(says))
}

// number is what stands for a token at a rank.
func number(token int, r Rank) uint64 {
	v := uint64(token)<<16 ^ uint64(r) + 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31 | 1
}

// load fills the inputs and computes the outputs to expect.
func (r *tokenReplay) load(returns bool) error {
	x := r.x
	sources, needed := make([][]uint64, x.Ranks()), make([][]uint64, x.Ranks())
	for source := range Rank(x.Ranks()) {
		for token := x.first[source]; token < x.first[source+1]; token++ {
			own, sum := number(token, source), uint64(0)
			begin, end := x.of(token)
			for _, to := range x.needs[begin:end] {
				if returns {
					needed[to] = append(needed[to], number(token, to))
					sum += number(token, to)
				} else {
					needed[to] = append(needed[to], own)
				}
			}
			if returns {
				own = sum
			}
			sources[source] = append(sources[source], own)
		}
	}
	inputs := sources
	if r.want = needed; returns {
		inputs, r.want = needed, sources
	}
	for b := range r.buffers {
		r.buffers[b] = make([]rows, x.Ranks())
	}
	for rank := range r.programs {
		p := &r.programs[rank]
		if int(p.Rank) != rank || p.Input != int64(len(inputs[rank]))*x.Bytes || p.Output != int64(len(r.want[rank]))*x.Bytes {
			return fmt.Errorf("the program of rank %d has rank %d, an input of %d bytes and an output of %d, want %d and %d tokens", rank, p.Rank, p.Input, p.Output, len(inputs[rank]), len(r.want[rank]))
		}
		for b, size := range []int64{p.Input, p.NICSend, p.NICRecv, p.Output} {
			if most := int64(2*len(x.needs)+len(x.ends)) * x.Bytes; size < 0 || size > most || size%x.Bytes != 0 {
				return fmt.Errorf("a buffer of rank %d has %d bytes: want a multiple of %d up to %d, two stages of all tokens", rank, size, x.Bytes, most)
			}
			r.buffers[b][rank] = rows{holds: make([]uint64, size/x.Bytes), read: make([]int, size/x.Bytes)}
		}
		copy(r.buffers[0][rank].holds, inputs[rank])
	}
	return nil
}

// execute executes a stage, if it exists, and the moves during it.
func (r *tokenReplay) execute(stage int) error {
	clear(r.loads)
	if stage >= 0 && stage < len(r.lengths) {
		if err := r.turns(stage); err != nil {
			return err
		}
	}
	for kind := range kinds {
		if err := r.move(kind, stage); err != nil {
			return fmt.Errorf("%s: %w", kinds[kind].name, err)
		}
	}
	most := int64(0)
	for rank := range r.programs {
		for _, b := range []*rows{&r.buffers[1][rank], &r.buffers[2][rank]} {
			for _, row := range b.taken {
				b.holds[row] = 0
			}
			b.taken = b.taken[:0]
		}
		most = max(most, r.loads[rank][0], r.loads[rank][1])
	}
	r.busiest = append(r.busiest, most)
	return nil
}

// turns executes the turns of a stage.
func (r *tokenReplay) turns(stage int) error {
	for rank := range r.programs {
		if x := next(r.programs[rank].Send, &r.done[rank].sent, stage, stageOf); x != nil {
			if err := r.send(Rank(rank), x); err != nil {
				return fmt.Errorf("rank %d sends to rank %d: %w", rank, x.Peer, err)
			}
		}
	}
	for rank := range r.programs {
		x := next(r.programs[rank].Receive, &r.done[rank].came, stage, stageOf)
		w := &r.wire[rank]
		if x == nil && w.numbers == nil {
			continue
		}
		if x == nil || w.from != x.Peer || int64(len(w.numbers))*r.x.Bytes != x.Bytes {
			return fmt.Errorf("rank %d sends %d tokens to rank %d, which does not receive that from it", w.from, len(w.numbers), rank)
		}
		if err := r.buffers[2][rank].write(x.Offset, w.numbers, false, r.x.Bytes, stage); err != nil {
			return fmt.Errorf("rank %d receives from rank %d: %w", rank, x.Peer, err)
		}
		*w = transit{}
	}
	return nil
}

// send sends a rank's turn.
func (r *tokenReplay) send(rank Rank, x *Turn) error {
	if x.Peer < 0 || int(x.Peer) >= r.x.Ranks() || r.x.server(x.Peer) == r.x.server(rank) {
		return errors.New("it is not in another server")
	}
	if length := r.lengths[x.Stage]; x.Bytes > length {
		return fmt.Errorf("%d bytes in a stage of %d", x.Bytes, length)
	}
	w := &r.wire[x.Peer]
	if w.numbers != nil {
		return fmt.Errorf("rank %d sends to it too", w.from)
	}
	var err error
	w.from = rank
	w.numbers, err = r.buffers[1][rank].get(x.Piece, nil, r.x.Bytes, x.Stage)
	r.crossed += x.Bytes
	return err
}

// move executes the moves of a kind during a stage.
func (r *tokenReplay) move(kind, stage int) error {
	m := r.x.GPUs
	for rank := range r.programs {
		list, done := kinds[kind].list(&r.programs[rank]).Send, &r.done[rank].moves[kind][0]
		for x := next(list, done, stage, besideOf); x != nil; x = next(list, done, stage, besideOf) {
			if x.Peer < 0 || int(x.Peer)/m != rank/m {
				return fmt.Errorf("rank %d sends to rank %d, which is not in its server", rank, x.Peer)
			}
			box := &r.mail[rank*m+int(x.Peer)%m]
			var err error
			if *box, err = r.buffers[sides[kind][0]][rank].get(x.Piece, *box, r.x.Bytes, stage); err != nil {
				return fmt.Errorf("rank %d sends to rank %d: %w", rank, x.Peer, err)
			}
			if from, to := r.home(Rank(rank)), r.home(x.Peer); from != to {
				r.loads[from][0] += x.Bytes
				r.loads[to][1] += x.Bytes
				*[...]*int64{&r.is.before, &r.is.after, new(int64)}[kind] += x.Bytes
			}
		}
	}
	for rank := range r.programs {
		list, done := kinds[kind].list(&r.programs[rank]).Receive, &r.done[rank].moves[kind][1]
		for x := next(list, done, stage, besideOf); x != nil; x = next(list, done, stage, besideOf) {
			if x.Peer < 0 || int(x.Peer)/m != rank/m {
				return fmt.Errorf("rank %d receives from rank %d, which is not in its server", rank, x.Peer)
			}
			box := &r.mail[int(x.Peer)*m+rank%m]
			tokens := x.Bytes / r.x.Bytes
			if x.Bytes < 1 || x.Bytes%r.x.Bytes != 0 || tokens > int64(len(*box)) {
				return fmt.Errorf("rank %d receives %d bytes from rank %d, which sends %d tokens more", rank, x.Bytes, x.Peer, len(*box))
			}
			if err := r.buffers[sides[kind][1]][rank].write(x.Offset, (*box)[:tokens], x.Add, r.x.Bytes, stage); err != nil {
				return fmt.Errorf("rank %d receives from rank %d: %w", rank, x.Peer, err)
			}
			*box = (*box)[tokens:]
		}
	}
	for box := range r.mail {
		if len(r.mail[box]) > 0 {
			return fmt.Errorf("rank %d sends rank %d more than it receives", box/m, box/m/m*m+box%m)
		}
		r.mail[box] = nil
	}
	return nil
}

// get reads a piece and appends its numbers to a list.
func (b *rows) get(x Piece, list []uint64, unit int64, stage int) ([]uint64, error) {
	if x.Bytes < 1 || x.Offset < 0 || x.Bytes%unit != 0 || x.Offset%unit != 0 || x.Offset > int64(len(b.holds))*unit-x.Bytes {
		return nil, fmt.Errorf("%d bytes at %d are not tokens of a buffer of %d", x.Bytes, x.Offset, len(b.holds))
	}
	for row := x.Offset / unit; row < (x.Offset+x.Bytes)/unit; row++ {
		if b.holds[row] == 0 {
			return nil, fmt.Errorf("row %d of the buffer holds nothing then", row)
		}
		list = append(list, b.holds[row])
		b.read[row] = stage + 2
		b.taken = append(b.taken, row)
	}
	return list, nil
}

// write writes numbers, or adds them to those that the buffer holds.
func (b *rows) write(offset int64, numbers []uint64, add bool, unit int64, stage int) error {
	if offset < 0 || offset%unit != 0 || offset/unit > int64(len(b.holds)-len(numbers)) {
		return fmt.Errorf("%d tokens at byte %d are not in a buffer of %d", len(numbers), offset, len(b.holds))
	}
	for at, v := range numbers {
		row := offset/unit + int64(at)
		switch {
		case b.read[row] == stage+2:
			return fmt.Errorf("row %d is written while it is sent", row)
		case add != (b.holds[row] != 0):
			return fmt.Errorf("row %d holds %d, and add is %t", row, b.holds[row], add)
		}
		b.holds[row] += v
	}
	b.top = max(b.top, offset/unit+int64(len(numbers)))
	return nil
}

// end checks that all programs are complete, that no token is left at a NIC, and the outputs.
func (r *tokenReplay) end() error {
	for rank := range r.programs {
		p, done := &r.programs[rank], &r.done[rank]
		for kind := range kinds {
			if list := kinds[kind].list(p); done.moves[kind][0] < len(list.Send) || done.moves[kind][1] < len(list.Receive) {
				return fmt.Errorf("rank %d has moves %s that are out of order or belong to no stage", rank, kinds[kind].name)
			}
		}
		if done.sent < len(p.Send) || done.came < len(p.Receive) {
			return fmt.Errorf("rank %d has more turns than one a stage, or out of order", rank)
		}
		for _, b := range []*rows{&r.buffers[1][rank], &r.buffers[2][rank]} {
			if left := slices.IndexFunc(b.holds, func(v uint64) bool { return v != 0 }); left >= 0 || b.top != int64(len(b.holds)) {
				return fmt.Errorf("a NIC's buffer of rank %d has %d tokens, %d used, and row %d is left there", rank, len(b.holds), b.top, left)
			}
		}
		for row, v := range r.buffers[3][rank].holds {
			if v != r.want[rank][row] {
				return fmt.Errorf("row %d of the output of rank %d is %d, want %d", row, rank, v, r.want[rank][row])
			}
		}
	}
	return nil
}

// check compares the figures that a plan states with the actual ones. Every token that a server needs has come
// there, so it came once if NICs have sent no more.
func (r *tokenReplay) check(says summary) error {
	for _, v := range r.lengths {
		r.is.length += v
	}
	if says != r.is {
		return fmt.Errorf("the plan states length, bound and moves %d, but has %d", says, r.is)
	}
	sum := int64(0)
	for _, v := range r.x.distinct().Bytes {
		sum += v * r.x.Bytes
	}
	if r.crossed != sum {
		return fmt.Errorf("NICs send %d bytes, want %d: each token once to each other server", r.crossed, sum)
	}
	return nil
}
