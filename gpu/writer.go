package gpu

import "context"

// Programs returns the programs of the ranks, [rank]. It fails only if ctx ends.
func (p *Plan) Programs(ctx context.Context) ([]Program, error) {
	there := p
	if p.Returns {
		there = p.Return()
	}
	w := newWriter(there, 0, Rank(p.Ranks()))
	if err := w.write(ctx); err != nil {
		return nil, err
	}
	for r := range w.programs {
		if p.Returns {
			w.programs[r] = reversed(&w.programs[r], len(p.Stages), p.Tokens.Bytes)
		}
	}
	return w.programs, nil
}

// writer writes the programs of the ranks from first up to last.
type writer struct {
	p           *Plan
	first, last Rank
	programs    []Program
	input       []int64    // [rank][destination] offsets of messages in the inputs
	output      []int64    // [rank][source] offsets of messages in the outputs
	send, recv  [][2]int64 // [rank] offsets of even and odd stages in the NICs' buffers
}

func newWriter(p *Plan, first, last Rank) *writer {
	w := &writer{p: p, first: first, last: last, programs: make([]Program, last-first)}
	for r := range w.programs {
		w.programs[r] = emptyProgram(first + Rank(r))
	}
	if p.Tokens != nil {
		w.tokenBuffers()
	} else {
		w.input, w.output = make([]int64, len(w.programs)*p.Ranks()), make([]int64, len(w.programs)*p.Ranks())
		w.places()
	}
	w.send, w.recv = p.halves(first, last)
	for r := range w.programs {
		x := &w.programs[r]
		x.NICSend, x.NICRecv = w.send[r][0]+w.send[r][1], w.recv[r][0]+w.recv[r][1]
		w.send[r], w.recv[r] = [2]int64{0, w.send[r][0]}, [2]int64{0, w.recv[r][0]}
	}
	return w
}

// emptyProgram returns an empty program. Its lists are empty, not nil, for JSON.
func emptyProgram(r Rank) Program {
	moves := Moves{[]Move{}, []Move{}}
	return Program{Rank: r, Before: moves, Send: []Turn{}, Receive: []Turn{}, After: moves, Local: moves}
}

// of returns the index of a rank, and whether its program is written.
func (w *writer) of(r Rank) (int, bool) { return int(r - w.first), r >= w.first && r < w.last }

// places computes the offset of each message in the input of its source and in the output of
// its destination, and sets the sizes of these buffers.
func (w *writer) places() {
	ranks := w.p.Ranks()
	add := func(source, destination Rank, bytes int64) {
		if r, ok := w.of(source); ok {
			w.input[r*ranks+int(destination)] += bytes
		}
		if r, ok := w.of(destination); ok {
			w.output[r*ranks+int(source)] += bytes
		}
	}
	for at := range w.p.Segments {
		s := &w.p.Segments[at]
		add(s.Source, s.Destination, s.Bytes)
	}
	for _, x := range w.p.Local {
		add(x.Source, x.Destination, x.Bytes)
	}
	for r := range w.programs {
		p := &w.programs[r]
		for at := r * ranks; at < (r+1)*ranks; at++ {
			w.input[at], p.Input = p.Input, p.Input+w.input[at]
			w.output[at], p.Output = p.Output, p.Output+w.output[at]
		}
	}
}

// halves returns how many bytes the ranks from first up to last need for even and for odd
// stages in their NICs' buffers.
func (p *Plan) halves(first, last Rank) (send, recv [][2]int64) {
	send, recv = make([][2]int64, last-first), make([][2]int64, last-first)
	for stage := range p.Stages {
		half := stage & 1
		for _, x := range p.Stages[stage].Transfers {
			if x.From >= first && x.From < last {
				send[x.From-first][half] = max(send[x.From-first][half], x.Bytes)
			}
			if x.To >= first && x.To < last {
				recv[x.To-first][half] = max(recv[x.To-first][half], x.Bytes)
			}
		}
	}
	return send, recv
}

func (w *writer) write(ctx context.Context) error {
	for stage := range w.p.Stages {
		if err := ctx.Err(); err != nil {
			return err
		}
		for at := range w.p.Stages[stage].Transfers {
			w.transfer(stage, &w.p.Stages[stage].Transfers[at])
		}
	}
	if w.p.Tokens != nil {
		w.localTokens()
		return nil
	}
	ranks := w.p.Ranks()
	for _, x := range w.p.Local {
		if r, ok := w.of(x.Source); ok {
			list := &w.programs[r].Local.Send
			*list = append(*list, Move{Beside: x.Beside, Piece: Piece{x.Destination, w.input[r*ranks+int(x.Destination)] + x.Offset, x.Bytes}})
		}
		if r, ok := w.of(x.Destination); ok {
			list := &w.programs[r].Local.Receive
			*list = append(*list, Move{Beside: x.Beside, Piece: Piece{x.Source, w.output[r*ranks+int(x.Source)] + x.Offset, x.Bytes}})
		}
	}
	return nil
}

// transfer writes a transfer of a stage, and the moves that it needs.
func (w *writer) transfer(stage int, x *Transfer) {
	var out, in *Program
	var from, to int64
	if r, ok := w.of(x.From); ok {
		out, from = &w.programs[r], w.send[r][stage&1]
		out.Send = append(out.Send, Turn{stage, Piece{x.To, from, x.Bytes}})
	}
	if r, ok := w.of(x.To); ok {
		in, to = &w.programs[r], w.recv[r][stage&1]
		in.Receive = append(in.Receive, Turn{stage, Piece{x.From, to, x.Bytes}})
	}
	ranks := w.p.Ranks()
	for c := newCursor(w.p.Segments, x); c.next(); {
		if w.p.Tokens != nil {
			w.handOn(stage, &c.Segment, out, in, from, to)
			from, to = from+c.Bytes, to+c.Bytes
			continue
		}
		if r, ok := w.of(c.Source); ok {
			list := &w.programs[r].Before.Send
			*list = join(*list, Move{Beside: stage - 1, Piece: Piece{c.Out, w.input[r*ranks+int(c.Destination)] + c.Offset, c.Bytes}})
		}
		if out != nil {
			out.Before.Receive = join(out.Before.Receive, Move{Beside: stage - 1, Piece: Piece{c.Source, from, c.Bytes}})
			from += c.Bytes
		}
		if in != nil {
			in.After.Send = join(in.After.Send, Move{Beside: stage + 1, Piece: Piece{c.Destination, to, c.Bytes}})
			to += c.Bytes
		}
		if r, ok := w.of(c.Destination); ok {
			list := &w.programs[r].After.Receive
			*list = join(*list, Move{Beside: stage + 1, Piece: Piece{c.In, w.output[r*ranks+int(c.Source)] + c.Offset, c.Bytes}})
		}
	}
}

// join appends a move to a list, or extends the last one if the move continues it.
func join(list []Move, x Move) []Move {
	if n := len(list); n > 0 {
		last := &list[n-1]
		if last.Beside == x.Beside && last.Peer == x.Peer && last.Offset+last.Bytes == x.Offset && last.Add == x.Add {
			last.Bytes += x.Bytes
			return list
		}
	}
	return append(list, x)
}
