package gpu

import (
	"context"
	"fmt"
)

// Replay executes programs, [rank], with stages of these lengths, and returns the first error.
// It goes step by step: before the stages, during each, and after them. Data that is read in a
// step must be there before it, and data that is written in it must not overwrite data that is
// read in this step or later. Replay tracks stretches of messages rather than bytes, so large
// messages take no more time than small ones. It also fails soon after ctx ends.
func Replay(ctx context.Context, t *Traffic, lengths []int64, programs []Program) error {
	_, err := carryOut(ctx, t, lengths, programs, itself)
	return err
}

func itself(r Rank) Rank { return r }

// carryOut implements Replay, and returns how many bytes the busiest GPU sends or receives
// inside its server, [step]. Ranks with the same home are of the same GPU.
func carryOut(ctx context.Context, t *Traffic, lengths []int64, programs []Program, home func(Rank) Rank) ([]int64, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if len(programs) != t.Ranks() {
		return nil, fmt.Errorf("there are programs for %d ranks, want %d", len(programs), t.Ranks())
	}
	r := &replay{t: t, lengths: lengths, programs: programs, home: home}
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	for stage := -1; stage <= len(lengths); stage++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.step(stage); err != nil {
			return nil, err
		}
	}
	return r.busiest, r.end(ctx)
}

// replay is the state of an exchange.
type replay struct {
	t                         *Traffic
	lengths                   []int64
	programs                  []Program
	input, send, recv, output []buffer // [rank]
	done                      []progress
	moving                    []span   // of a transfer
	mail                      [][]span // [sender][receiver] in transit inside a server
	home                      func(Rank) Rank
	loads                     [][2]int64 // [rank] bytes sent and received inside servers in this step
	busiest                   []int64
}

// progress counts the elements of its lists that a rank has executed.
type progress struct {
	moves      [3][2]int // [before, after, local][send, receive]
	sent, came int       // turns
}

// kinds are the three kinds of moves.
var kinds = [3]struct {
	name string
	list func(*Program) *Moves
}{
	{"to NICs", func(p *Program) *Moves { return &p.Before }},
	{"from NICs", func(p *Program) *Moves { return &p.After }},
	{"inside servers", func(p *Program) *Moves { return &p.Local }},
}

// load fills the inputs with the messages.
func (r *replay) load(ctx context.Context) error {
	ranks := r.t.Ranks()
	for _, list := range []*[]buffer{&r.input, &r.send, &r.recv, &r.output} {
		*list = make([]buffer, ranks)
	}
	r.done, r.loads = make([]progress, ranks), make([][2]int64, ranks)
	r.mail = make([][]span, r.t.GPUs*r.t.GPUs)
	for source := range ranks {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, in := &r.programs[source], &r.input[source]
		if int(p.Rank) != source {
			return fmt.Errorf("the program of rank %d has rank %d", source, p.Rank)
		}
		for destination, bytes := range r.t.Bytes[source*ranks : (source+1)*ranks] {
			if bytes > 0 {
				in.holds = append(in.holds, span{in.size, Rank(source), Rank(destination), 0, bytes})
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

// step executes a stage, if it exists, and the moves during it.
func (r *replay) step(stage int) error {
	when := fmt.Sprintf("during stage %d", stage)
	clear(r.loads)
	for kind, buffers := range [3][2][]buffer{{r.input, r.send}, {r.recv, r.output}, {r.input, r.output}} {
		for first := 0; first < r.t.Ranks(); first += r.t.GPUs {
			if err := r.exchange(kind, stage, first, buffers[0], buffers[1]); err != nil {
				return fmt.Errorf("%s, %s: %w", when, kinds[kind].name, err)
			}
		}
	}
	if stage >= 0 && stage < len(r.lengths) {
		if err := r.stage(stage); err != nil {
			return fmt.Errorf("stage %d: %w", stage, err)
		}
	}
	most := int64(0)
	for rank := range r.programs {
		if err := r.send[rank].turn(); err != nil {
			return fmt.Errorf("%s: sending buffer of rank %d: %w", when, rank, err)
		}
		if err := r.recv[rank].turn(); err != nil {
			return fmt.Errorf("%s: receiving buffer of rank %d: %w", when, rank, err)
		}
		most = max(most, r.loads[rank][0], r.loads[rank][1])
	}
	r.busiest = append(r.busiest, most)
	return nil
}

// next returns the next element of a list if it belongs to a stage, or nil.
func next[T any](list []T, done *int, stage int, of func(*T) int) *T {
	if *done == len(list) || of(&list[*done]) != stage {
		return nil
	}
	*done++
	return &list[*done-1]
}

func besideOf(x *Move) int { return x.Beside }
func stageOf(x *Turn) int  { return x.Stage }

// exchange executes the moves of a kind during a stage in the server whose first rank is first.
func (r *replay) exchange(kind, stage, first int, from, to []buffer) error {
	m := r.t.GPUs
	busy := false
	for l := range m {
		rank := first + l
		list, done := kinds[kind].list(&r.programs[rank]).Send, &r.done[rank].moves[kind][0]
		for x := next(list, done, stage, besideOf); x != nil; x = next(list, done, stage, besideOf) {
			peer := int(x.Peer) - first
			if peer < 0 || peer >= m {
				return fmt.Errorf("rank %d sends to rank %d, which is not in its server", rank, x.Peer)
			}
			var err error
			if r.mail[l*m+peer], err = from[rank].get(x.Piece, r.mail[l*m+peer]); err != nil {
				return fmt.Errorf("rank %d sends to rank %d: %w", rank, x.Peer, err)
			}
			if from, to := r.home(Rank(rank)), r.home(x.Peer); from != to {
				r.loads[from][0] += x.Bytes
				r.loads[to][1] += x.Bytes
			}
			busy = true
		}
	}
	for l := range m {
		rank := first + l
		list, done := kinds[kind].list(&r.programs[rank]).Receive, &r.done[rank].moves[kind][1]
		for x := next(list, done, stage, besideOf); x != nil; x = next(list, done, stage, besideOf) {
			peer := int(x.Peer) - first
			if peer < 0 || peer >= m {
				return fmt.Errorf("rank %d receives from rank %d, which is not in its server", rank, x.Peer)
			}
			box := &r.mail[peer*m+l]
			list, rest, ok := cut(*box, x.Bytes)
			if !ok {
				return fmt.Errorf("rank %d receives %d bytes from rank %d, which sends fewer", rank, x.Bytes, x.Peer)
			}
			if err := to[rank].write(x.Offset, list); err != nil {
				return fmt.Errorf("rank %d receives from rank %d: %w", rank, x.Peer, err)
			}
			*box = rest
		}
	}
	for box := 0; busy && box < len(r.mail); box++ {
		if len(r.mail[box]) > 0 {
			return fmt.Errorf("rank %d sends rank %d more than it receives", first+box/m, first+box%m)
		}
		r.mail[box] = nil
	}
	return nil
}

// stage executes the transfers of a stage, in which each NIC sends to at most one other and
// receives from at most one, at most as many bytes as the stage is long.
func (r *replay) stage(stage int) error {
	for rank := range r.programs {
		x := next(r.programs[rank].Send, &r.done[rank].sent, stage, stageOf)
		if x == nil {
			continue
		}
		if err := r.transfer(rank, x, stage); err != nil {
			return err
		}
	}
	for rank := range r.programs {
		if x := next(r.programs[rank].Receive, &r.done[rank].came, stage, stageOf); x != nil {
			return fmt.Errorf("rank %d waits for rank %d, which sends it nothing", rank, x.Peer)
		}
	}
	return nil
}

// transfer executes the turn of a rank that sends in a stage.
func (r *replay) transfer(rank int, x *Turn, stage int) error {
	m, to := r.t.GPUs, int(x.Peer)
	if to < 0 || to >= len(r.programs) || to/m == rank/m {
		return fmt.Errorf("rank %d sends to rank %d, which is not in another server", rank, to)
	}
	y := next(r.programs[to].Receive, &r.done[to].came, stage, stageOf)
	if y == nil || int(y.Peer) != rank || y.Bytes != x.Bytes {
		return fmt.Errorf("rank %d sends %d bytes to rank %d, which does not receive that from it", rank, x.Bytes, to)
	}
	if length := r.lengths[stage]; x.Bytes > length {
		return fmt.Errorf("rank %d sends %d bytes in a stage of %d", rank, x.Bytes, length)
	}
	var err error
	if r.moving, err = r.send[rank].get(x.Piece, r.moving[:0]); err != nil {
		return fmt.Errorf("rank %d sends to rank %d: %w", rank, to, err)
	}
	if err := r.recv[to].write(y.Offset, r.moving); err != nil {
		return fmt.Errorf("rank %d receives from rank %d: %w", to, rank, err)
	}
	return nil
}

// end checks that all programs are complete and all messages have arrived.
func (r *replay) end(ctx context.Context) error {
	for rank := range r.programs {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, done := &r.programs[rank], &r.done[rank]
		for kind := range kinds {
			if list := kinds[kind].list(p); done.moves[kind][0] < len(list.Send) || done.moves[kind][1] < len(list.Receive) {
				return fmt.Errorf("rank %d has moves %s that are out of order or belong to no stage", rank, kinds[kind].name)
			}
		}
		if done.sent < len(p.Send) || done.came < len(p.Receive) {
			return fmt.Errorf("rank %d has more turns than one a stage, or out of order", rank)
		}
		for _, x := range []struct {
			what string
			err  error
		}{{"input", r.input[rank].used()}, {"sending buffer", r.send[rank].empty()}, {"receiving buffer", r.recv[rank].empty()}, {"output", r.output[rank].full()}} {
			if x.err != nil {
				return fmt.Errorf("%s of rank %d: %w", x.what, rank, x.err)
			}
		}
		if err := r.arrived(rank); err != nil {
			return err
		}
	}
	return nil
}

// arrived checks that the output of a rank holds the messages to it by source, each from its
// first byte to its last.
func (r *replay) arrived(rank int) error {
	ranks := r.t.Ranks()
	list := r.output[rank].put
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
	return nil
}
