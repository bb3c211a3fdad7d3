package gpu

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Verify carries a plan's programs out and tells what is wrong: a byte of the
// traffic that does not arrive, or twice, or at another place; a NIC that sends or
// receives more than one transfer in a stage, or more than the stage's length; a
// length or an amount of moves that is not what the plan says. It knows nothing of
// how plans are made. It fails soon after ctx ends, too.
func Verify(ctx context.Context, t *Traffic, p *Plan) error {
	lengths := make([]int64, len(p.Stages))
	for i := range p.Stages {
		lengths[i] = p.Stages[i].Length
	}
	programs, err := p.Programs(ctx)
	if err != nil {
		return err
	}
	return verify(ctx, t, lengths, programs, summary{p.Length, p.Bound, p.MovesBefore, p.MovesAfter})
}

// Verify does as the function Verify does, with an exchange in binary form.
func (v *View) Verify(ctx context.Context, t *Traffic) error {
	programs, err := v.Programs()
	if err != nil {
		return err
	}
	return verify(ctx, t, v.Lengths, programs, summary{v.Length, v.Bound, v.MovesBefore, v.MovesAfter})
}

// summary is what plans and exchanges say of themselves.
type summary struct{ length, bound, before, after int64 }

func verify(ctx context.Context, t *Traffic, lengths []int64, programs []Program, says summary) error {
	if err := Replay(ctx, t, lengths, programs); err != nil {
		return err
	}
	is := summary{bound: t.Bound()}
	for _, v := range lengths {
		is.length += v
	}
	for r := range programs {
		is.before += moved(Rank(r), programs[r].Before.Send)
		is.after += moved(Rank(r), programs[r].After.Send)
	}
	switch {
	case says.length != is.length:
		return fmt.Errorf("the plan's length is %d, its stages' %d", says.length, is.length)
	case says.before != is.before || says.after != is.after:
		return fmt.Errorf("the plan says that it moves %d and %d bytes inside servers, and moves %d and %d", says.before, says.after, is.before, is.after)
	case says.bound != is.bound:
		return fmt.Errorf("the plan's bound is %d, Eq. 26 gives %d", says.bound, is.bound)
	}
	return nil
}

// moved is how many bytes of the pieces go to another rank.
func moved(self Rank, list []Piece) int64 {
	sum := int64(0)
	for _, x := range list {
		if x.Peer != self {
			sum += x.Bytes
		}
	}
	return sum
}

// Replay carries out programs, [rank], whose stages have these lengths, and tells
// what is wrong. Bytes are followed by the stretches of messages that they belong
// to, so it takes no more time for large messages than for small ones. It fails
// soon after ctx ends, too.
func Replay(ctx context.Context, t *Traffic, lengths []int64, programs []Program) error {
	if err := t.check(); err != nil {
		return err
	}
	if len(programs) != t.Ranks() {
		return fmt.Errorf("there are programs for %d ranks, want %d", len(programs), t.Ranks())
	}
	r := &replay{t: t, programs: programs}
	stages := func(ctx context.Context) error { return r.stages(ctx, lengths) }
	for _, run := range []func(context.Context) error{r.load, r.before, stages, r.after, r.arrived} {
		if err := run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// replay is the state of an exchange.
type replay struct {
	t                         *Traffic
	programs                  []Program
	input, send, recv, output []buffer // [rank]
	moving                    []span   // of a transfer
}

// span is a stretch of a message at a place of a buffer.
type span struct {
	at                  int64
	source, destination Rank
	offset, bytes       int64 // of the message
}

// buffer is memory of a rank.
type buffer struct {
	size  int64
	spans []span  // what has been written, by place once sealed
	taken []Piece // what has been read
}

// put writes spans from a place on.
func (b *buffer) put(at int64, list []span) {
	for _, s := range list {
		s.at = at
		b.spans = append(b.spans, s)
		at += s.bytes
	}
}

// seal tells whether every byte of the buffer has been written just once.
func (b *buffer) seal() error {
	if !slices.IsSortedFunc(b.spans, func(x, y span) int { return cmp.Compare(x.at, y.at) }) {
		slices.SortFunc(b.spans, func(x, y span) int { return cmp.Compare(x.at, y.at) })
	}
	end := int64(0)
	for _, s := range b.spans {
		if s.at != end {
			return fmt.Errorf("writes end at byte %d and go on at %d", end, s.at)
		}
		end += s.bytes
	}
	if end != b.size {
		return fmt.Errorf("%d bytes are written of %d", end, b.size)
	}
	return nil
}

// get appends what a piece of the buffer holds to a list.
func (b *buffer) get(x Piece, list []span) ([]span, error) {
	if x.Bytes <= 0 || x.Offset < 0 || x.Offset > b.size || x.Bytes > b.size-x.Offset {
		return nil, fmt.Errorf("%d bytes at %d are not in a buffer of %d", x.Bytes, x.Offset, b.size)
	}
	i, found := slices.BinarySearchFunc(b.spans, x.Offset, func(s span, at int64) int { return cmp.Compare(s.at, at) })
	if !found {
		i--
	}
	b.taken = append(b.taken, x)
	for at, end := x.Offset, x.Offset+x.Bytes; at < end; i++ {
		s := b.spans[i]
		skip := at - s.at
		s.offset, s.bytes = s.offset+skip, min(s.bytes-skip, end-at)
		at += s.bytes
		list = append(list, s)
	}
	return list, nil
}

// used tells whether every byte of the buffer has been read just once.
func (b *buffer) used() error {
	slices.SortFunc(b.taken, func(x, y Piece) int { return cmp.Compare(x.Offset, y.Offset) })
	end := int64(0)
	for _, x := range b.taken {
		if x.Offset != end {
			return fmt.Errorf("reads end at byte %d and go on at %d", end, x.Offset)
		}
		end += x.Bytes
	}
	if end != b.size {
		return fmt.Errorf("%d bytes are read of %d", end, b.size)
	}
	return nil
}

// load fills the inputs with the messages.
func (r *replay) load(ctx context.Context) error {
	ranks := r.t.Ranks()
	for _, list := range []*[]buffer{&r.input, &r.send, &r.recv, &r.output} {
		*list = make([]buffer, ranks)
	}
	for source := range ranks {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, in := &r.programs[source], &r.input[source]
		if int(p.Rank) != source {
			return fmt.Errorf("the program of rank %d says that it is rank %d's", source, p.Rank)
		}
		for destination, bytes := range r.t.Bytes[source*ranks : (source+1)*ranks] {
			if bytes > 0 {
				in.spans = append(in.spans, span{in.size, Rank(source), Rank(destination), 0, bytes})
				in.size += bytes
			}
		}
		if p.Input != in.size {
			return fmt.Errorf("the input of rank %d has %d bytes in its program, and the traffic has %d", source, p.Input, in.size)
		}
		r.send[source].size, r.recv[source].size, r.output[source].size = p.NICSend, p.NICRecv, p.Output
	}
	return nil
}

// before carries out the moves before the stages.
func (r *replay) before(ctx context.Context) error {
	if err := r.exchange(ctx, "before the stages", func(p *Program) *Step { return &p.Before }, r.input, r.send); err != nil {
		return err
	}
	return r.each(ctx, "sending buffer", r.send, (*buffer).seal)
}

// after carries out the moves after the stages, and what stays inside servers.
func (r *replay) after(ctx context.Context) error {
	if err := r.exchange(ctx, "after the stages", func(p *Program) *Step { return &p.After }, r.recv, r.output); err != nil {
		return err
	}
	if err := r.exchange(ctx, "inside servers", func(p *Program) *Step { return &p.Local }, r.input, r.output); err != nil {
		return err
	}
	if err := r.each(ctx, "input", r.input, (*buffer).used); err != nil {
		return err
	}
	if err := r.each(ctx, "receiving buffer", r.recv, (*buffer).used); err != nil {
		return err
	}
	return r.each(ctx, "output", r.output, (*buffer).seal)
}

// each asks the buffers of all ranks.
func (r *replay) each(ctx context.Context, what string, list []buffer, ask func(*buffer) error) error {
	for rank := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := ask(&list[rank]); err != nil {
			return fmt.Errorf("%s of rank %d: %w", what, rank, err)
		}
	}
	return nil
}

// exchange carries out a step inside servers.
func (r *replay) exchange(ctx context.Context, when string, step func(*Program) *Step, from, to []buffer) error {
	m := r.t.GPUs
	mail := make([][]span, m*m) // [sender][receiver] under way inside a server
	for i := range r.t.Servers {
		for l := range m {
			if err := ctx.Err(); err != nil {
				return err
			}
			rank := i*m + l
			for _, x := range step(&r.programs[rank]).Send {
				peer := int(x.Peer) - i*m
				if peer < 0 || peer >= m {
					return fmt.Errorf("%s: rank %d sends to rank %d, which is not in its server", when, rank, x.Peer)
				}
				var err error
				if mail[l*m+peer], err = from[rank].get(x, mail[l*m+peer]); err != nil {
					return fmt.Errorf("%s: rank %d sends to rank %d: %w", when, rank, x.Peer, err)
				}
			}
		}
		for l := range m {
			rank := i*m + l
			for _, x := range step(&r.programs[rank]).Receive {
				peer := int(x.Peer) - i*m
				if peer < 0 || peer >= m {
					return fmt.Errorf("%s: rank %d receives from rank %d, which is not in its server", when, rank, x.Peer)
				}
				box := &mail[peer*m+l]
				list, rest, ok := cut(*box, x.Bytes)
				if !ok {
					return fmt.Errorf("%s: rank %d receives %d bytes from rank %d, which sends fewer", when, rank, x.Bytes, x.Peer)
				}
				to[rank].put(x.Offset, list)
				*box = rest
			}
		}
		for box, list := range mail {
			if len(list) > 0 {
				return fmt.Errorf("%s: rank %d sends rank %d more than it receives", when, i*m+box/m, i*m+box%m)
			}
			mail[box] = nil
		}
	}
	return nil
}

// cut divides spans after some bytes.
func cut(list []span, bytes int64) (head, tail []span, ok bool) {
	if bytes <= 0 {
		return nil, nil, false
	}
	for i := range list {
		if s := list[i]; bytes < s.bytes {
			head = append(head, list[:i]...)
			first := s
			first.bytes = bytes
			s.offset, s.bytes = s.offset+bytes, s.bytes-bytes
			list[i] = s
			return append(head, first), list[i:], true
		} else if bytes -= s.bytes; bytes == 0 {
			return list[:i+1], list[i+1:], true
		}
	}
	return nil, nil, false
}

// stages carries out the stages, in which each NIC sends to one other at most and
// receives from one at most, no more than the length of the stage.
func (r *replay) stages(ctx context.Context, lengths []int64) error {
	ranks := r.t.Ranks()
	sent, received := make([]int, ranks), make([]int, ranks) // turns taken
	for stage, length := range lengths {
		if err := ctx.Err(); err != nil {
			return err
		}
		for rank := range ranks {
			p := &r.programs[rank]
			if sent[rank] == len(p.Send) || p.Send[sent[rank]].Stage != stage {
				continue
			}
			x := p.Send[sent[rank]]
			sent[rank]++
			if err := r.transfer(rank, x, length, received); err != nil {
				return fmt.Errorf("stage %d: %w", stage, err)
			}
		}
		for rank := range ranks {
			p := &r.programs[rank]
			if received[rank] < len(p.Receive) && p.Receive[received[rank]].Stage == stage {
				return fmt.Errorf("stage %d: rank %d waits for rank %d, which sends it nothing", stage, rank, p.Receive[received[rank]].Peer)
			}
		}
	}
	for rank := range ranks {
		if p := &r.programs[rank]; sent[rank] < len(p.Send) || received[rank] < len(p.Receive) {
			return fmt.Errorf("rank %d has more turns than one a stage, or out of order", rank)
		}
	}
	if err := r.each(ctx, "sending buffer", r.send, (*buffer).used); err != nil {
		return err
	}
	return r.each(ctx, "receiving buffer", r.recv, (*buffer).seal)
}

// transfer carries out what a rank sends in a stage.
func (r *replay) transfer(rank int, x Turn, length int64, received []int) error {
	m, to := r.t.GPUs, int(x.Peer)
	if to < 0 || to >= len(r.programs) || to/m == rank/m {
		return fmt.Errorf("rank %d sends to rank %d, which is not in another server", rank, to)
	}
	p := &r.programs[to]
	if received[to] == len(p.Receive) {
		return fmt.Errorf("rank %d sends to rank %d, which receives nothing more", rank, to)
	}
	y := p.Receive[received[to]]
	if y.Stage != x.Stage || int(y.Peer) != rank || y.Bytes != x.Bytes {
		return fmt.Errorf("rank %d sends %d bytes to rank %d, which receives %d from rank %d in stage %d", rank, x.Bytes, to, y.Bytes, y.Peer, y.Stage)
	}
	if x.Bytes > length {
		return fmt.Errorf("rank %d sends %d bytes in a stage of %d", rank, x.Bytes, length)
	}
	received[to]++
	var err error
	if r.moving, err = r.send[rank].get(x.Piece, r.moving[:0]); err != nil {
		return fmt.Errorf("rank %d sends to rank %d: %w", rank, to, err)
	}
	r.recv[to].put(y.Offset, r.moving)
	return nil
}

// arrived tells whether each output holds the messages to its rank by source, each
// from its first byte to its last.
func (r *replay) arrived(ctx context.Context) error {
	ranks := r.t.Ranks()
	for rank := range ranks {
		if err := ctx.Err(); err != nil {
			return err
		}
		list := r.output[rank].spans
		for source := range ranks {
			for got, want := int64(0), r.t.Bytes[source*ranks+rank]; got < want; {
				if len(list) == 0 {
					return fmt.Errorf("rank %d misses the message from rank %d from byte %d on", rank, source, got)
				}
				s := list[0]
				list = list[1:]
				if int(s.source) != source || int(s.destination) != rank || s.offset != got {
					return fmt.Errorf("output of rank %d: where byte %d of the message from rank %d belongs, there is byte %d of that from rank %d to rank %d",
						rank, got, source, s.offset, s.source, s.destination)
				}
				got += s.bytes
			}
		}
		if len(list) > 0 {
			return fmt.Errorf("output of rank %d has more than the messages to it", rank)
		}
	}
	return nil
}
