package gpu

import "context"

// Piece is a stretch of a buffer that is sent to a peer or received from one. The
// pieces that one rank sends another in a step are, one after the other, those
// that the other receives from it in that step; their cuts may differ.
type Piece struct {
	Peer   Rank  `json:"peer"`
	Offset int64 `json:"offset"` // bytes from the buffer's beginning
	Bytes  int64 `json:"bytes"`
}

// Step is what a rank sends and receives inside its server. A piece whose peer is
// the rank itself is copied.
type Step struct {
	Send    []Piece `json:"send"`
	Receive []Piece `json:"receive"`
}

// Turn is what a rank sends or receives in a stage.
type Turn struct {
	Stage int `json:"stage"`
	Piece
}

// Program is what one rank does in an exchange. It has four buffers: its input,
// with its messages by destination, nothing between them; what it sends over its
// NIC; what comes in over it; and its output, with the messages to it by source.
type Program struct {
	Rank    Rank   `json:"rank"`
	Input   int64  `json:"input"`    // bytes of the buffers
	NICSend int64  `json:"nic_send"` // filled before the stages
	NICRecv int64  `json:"nic_receive"`
	Output  int64  `json:"output"`
	Before  Step   `json:"before"`  // from inputs to the NICs' sending buffers, before the stages
	Send    []Turn `json:"send"`    // from the NIC's sending buffer, by stage
	Receive []Turn `json:"receive"` // to the NIC's receiving buffer, by stage
	After   Step   `json:"after"`   // from the NICs' receiving buffers to outputs, after the stages
	Local   Step   `json:"local"`   // from inputs to outputs, at any time
}

// Programs is the plan as its ranks carry it out, [rank]. It fails soon after ctx ends
// and never else.
func (p *Plan) Programs(ctx context.Context) ([]Program, error) {
	ranks := p.Ranks()
	programs := make([]Program, ranks)
	for r := range programs {
		programs[r] = emptyProgram(Rank(r))
	}
	input, output := p.places(programs)
	streams := make([]struct{ from, to int64 }, ranks*ranks) // where they begin in the NICs' buffers
	for at := range p.Segments {
		if at%ranks == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		s := &p.Segments[at]
		message := int(s.Source)*ranks + int(s.Destination)
		source, out, in, destination := &programs[s.Source], &programs[s.Out], &programs[s.In], &programs[s.Destination]
		if at == 0 || s.Out != p.Segments[at-1].Out || s.In != p.Segments[at-1].In {
			x := &streams[int(s.Out)*ranks+int(s.In)]
			x.from, x.to = out.NICSend, in.NICRecv
		}
		source.Before.Send = join(source.Before.Send, Piece{s.Out, input[message] + s.Offset, s.Bytes})
		out.Before.Receive = join(out.Before.Receive, Piece{s.Source, out.NICSend, s.Bytes})
		in.After.Send = join(in.After.Send, Piece{s.Destination, in.NICRecv, s.Bytes})
		destination.After.Receive = join(destination.After.Receive, Piece{s.In, output[message] + s.Offset, s.Bytes})
		out.NICSend += s.Bytes
		in.NICRecv += s.Bytes
	}
	for i := range p.Stages {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, x := range p.Stages[i].Transfers {
			stream := &streams[int(x.From)*ranks+int(x.To)]
			from, to := &programs[x.From], &programs[x.To]
			from.Send = append(from.Send, Turn{i, Piece{x.To, stream.from + x.Offset, x.Bytes}})
			to.Receive = append(to.Receive, Turn{i, Piece{x.From, stream.to + x.Offset, x.Bytes}})
		}
	}
	for _, x := range p.Local {
		message := int(x.Source)*ranks + int(x.Destination)
		source, destination := &programs[x.Source].Local, &programs[x.Destination].Local
		source.Send = append(source.Send, Piece{x.Destination, input[message], x.Bytes})
		destination.Receive = append(destination.Receive, Piece{x.Source, output[message], x.Bytes})
	}
	return programs, nil
}

// emptyProgram does nothing. Its lists are empty, not nil, which JSON would show.
func emptyProgram(r Rank) Program {
	step := Step{[]Piece{}, []Piece{}}
	return Program{Rank: r, Before: step, Send: []Turn{}, Receive: []Turn{}, After: step, Local: step}
}

// places tells where each message, [source][destination], begins in the input of
// its source and in the output of its destination, and sets these buffers' sizes.
func (p *Plan) places(programs []Program) (input, output []int64) {
	ranks := p.Ranks()
	input, output = make([]int64, ranks*ranks), make([]int64, ranks*ranks)
	for at := range p.Segments {
		s := &p.Segments[at]
		input[int(s.Source)*ranks+int(s.Destination)] += s.Bytes
	}
	for _, x := range p.Local {
		input[int(x.Source)*ranks+int(x.Destination)] += x.Bytes
	}
	for source := range ranks {
		for destination := range ranks {
			message := source*ranks + destination
			bytes := input[message]
			input[message] = programs[source].Input
			output[message] = programs[destination].Output
			programs[source].Input += bytes
			programs[destination].Output += bytes
		}
	}
	return input, output
}

// join appends a piece to a list, to its last one if it goes on where that ends.
func join(list []Piece, x Piece) []Piece {
	if n := len(list); n > 0 && list[n-1].Peer == x.Peer && list[n-1].Offset+list[n-1].Bytes == x.Offset {
		list[n-1].Bytes += x.Bytes
		return list
	}
	return append(list, x)
}
