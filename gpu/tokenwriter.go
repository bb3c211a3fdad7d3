package gpu

// tokenBuffers sets the sizes of the inputs and outputs: an input has the rank's tokens in rows,
// an output a row for each token that the rank needs, by source and then in the input's order.
func (w *writer) tokenBuffers() {
	x := w.p.Tokens
	for at := range w.programs {
		r := w.first + Rank(at)
		w.programs[at].Input = int64(x.first[r+1]-x.first[r]) * x.Bytes
		w.programs[at].Output = int64(x.count[r]) * x.Bytes
	}
}

// offset is the place of a token in the input of its source.
func (w *writer) offset(source Rank, token int32) int64 {
	return int64(int(token)-w.p.Tokens.first[source]) * w.p.Tokens.Bytes
}

// handOn writes the moves of a stretch of a batch that is sent in a stage: from the source's input
// to offset from in the sending NIC's buffer, and from offset to in the receiving one's to the
// GPUs that need the tokens. out and in are nil if their programs are not written.
func (w *writer) handOn(stage int, s *Segment, out, in *Program, from, to int64) {
	x, unit := w.p.Tokens, w.p.Tokens.Bytes
	tokens := x.stretch(s.Source, s.Destination, s.Offset, s.Bytes)
	if r, ok := w.of(s.Source); ok {
		list := &w.programs[r].Before.Send
		for _, token := range tokens {
			*list = join(*list, Move{Beside: stage - 1, Piece: Piece{s.Out, w.offset(s.Source, token), unit}})
		}
	}
	if out != nil {
		out.Before.Receive = join(out.Before.Receive, Move{Beside: stage - 1, Piece: Piece{s.Source, from, s.Bytes}})
	}
	first := s.In - s.In%Rank(x.GPUs)
	for peer := first; peer < first+Rank(x.GPUs); peer++ {
		r, ok := w.of(peer)
		if !ok && in == nil {
			continue
		}
		for at, token := range tokens {
			row, needed := x.row(peer, token)
			if needed && in != nil {
				in.After.Send = join(in.After.Send, Move{Beside: stage + 1, Piece: Piece{peer, to + int64(at)*unit, unit}})
			}
			if needed && ok {
				list := &w.programs[r].After.Receive
				*list = join(*list, Move{Beside: stage + 1, Piece: Piece{s.In, row * unit, unit}})
			}
		}
	}
}

// localTokens writes the moves of tokens to GPUs of their own server.
func (w *writer) localTokens() {
	x, unit := w.p.Tokens, w.p.Tokens.Bytes
	for _, l := range w.p.Local {
		for _, token := range x.stretch(l.Source, l.Destination, l.Offset, l.Bytes) {
			if r, ok := w.of(l.Source); ok {
				list := &w.programs[r].Local.Send
				*list = join(*list, Move{Beside: l.Beside, Piece: Piece{l.Destination, w.offset(l.Source, token), unit}})
			}
			if r, ok := w.of(l.Destination); ok {
				row, _ := x.row(l.Destination, token)
				list := &w.programs[r].Local.Receive
				*list = join(*list, Move{Beside: l.Beside, Piece: Piece{l.Source, row * unit, unit}})
			}
		}
	}
}

// reversed returns the program of the way back: each piece goes back to where it came from, in
// the reverse order of steps. Where pieces of one token came from the same bytes, the first is
// received and the others are added to it. A row of the output whose token is nowhere needed
// gets nothing.
func reversed(p *Program, stages int, unit int64) Program {
	b := Program{Rank: p.Rank, Input: p.Output, NICSend: p.NICRecv, NICRecv: p.NICSend, Output: p.Input}
	b.Before = Moves{backwards(p.After.Receive, stages), backwards(p.After.Send, stages)}
	b.After = Moves{backwards(p.Before.Receive, stages), backwards(p.Before.Send, stages)}
	b.Local = Moves{backwards(p.Local.Receive, stages), backwards(p.Local.Send, stages)}
	b.Send, b.Receive = turnsBackwards(p.Receive, stages), turnsBackwards(p.Send, stages)
	full := make([]bool, b.NICSend/unit)
	list := b.Before.Receive
	b.Before.Receive = []Move{}
	for at, x := range list {
		if at > 0 && x.Beside != list[at-1].Beside {
			clear(full)
		}
		b.Before.Receive = add(b.Before.Receive, x, full, unit)
	}
	full = make([]bool, b.Output/unit)
	after, local := b.After.Receive, b.Local.Receive
	b.After.Receive, b.Local.Receive = []Move{}, []Move{}
	for len(after)+len(local) > 0 {
		if len(local) == 0 || len(after) > 0 && after[0].Beside <= local[0].Beside {
			b.After.Receive, after = add(b.After.Receive, after[0], full, unit), after[1:]
		} else {
			b.Local.Receive, local = add(b.Local.Receive, local[0], full, unit), local[1:]
		}
	}
	return b
}

// add appends a move into a buffer to a list, with Add for the tokens of the buffer that are
// full, and marks the others as full.
func add(list []Move, x Move, full []bool, unit int64) []Move {
	for offset := x.Offset; offset < x.Offset+x.Bytes; offset += unit {
		row := &full[offset/unit]
		list = join(list, Move{x.Beside, Piece{x.Peer, offset, unit}, *row})
		*row = true
	}
	return list
}

// backwards puts moves into the reverse order of steps; those of a step keep their order.
func backwards(list []Move, stages int) []Move {
	out := make([]Move, 0, len(list))
	for end := len(list); end > 0; {
		first := end
		for first > 0 && list[first-1].Beside == list[end-1].Beside {
			first--
		}
		for _, x := range list[first:end] {
			x.Beside = stages - 1 - x.Beside
			out = append(out, x)
		}
		end = first
	}
	return out
}

func turnsBackwards(list []Turn, stages int) []Turn {
	out := make([]Turn, 0, len(list))
	for at := len(list) - 1; at >= 0; at-- {
		out = append(out, Turn{stages - 1 - list[at].Stage, list[at].Piece})
	}
	return out
}
