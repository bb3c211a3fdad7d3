package gpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var bg = context.Background()

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Decoding gives the plan that was encoded, and it carries out the exchange.
func TestEncode(t *testing.T) {
	for _, mode := range []Mode{Paper, Rails, MinMove, Bytes} {
		traffic, plan := good(t, mode)
		data := must(plan.Encode(bg))
		if !bytes.Equal(data, must(plan.Encode(bg))) {
			t.Fatal("the same plan has other bytes")
		}
		v, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		programs, err := v.Programs()
		if err != nil {
			t.Fatal(err)
		}
		if err := Replay(t.Context(), traffic, v.Lengths, programs); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(must(plan.Programs(bg)), programs); diff != "" {
			t.Errorf("mode %s: programs change (−encoded +decoded):\n%s", mode, diff)
		}
		if v.Cluster != plan.Cluster || v.Length != plan.Length || v.Bound != plan.Bound || v.MovesBefore != plan.MovesBefore || v.MovesAfter != plan.MovesAfter {
			t.Errorf("mode %s: the header says %+v", mode, v)
		}
	}
}

// Real bytes end as in an all-to-all exchange, if each rank knows only its binary section
// and the data that its peers send.
func TestExchangeOfBytes(t *testing.T) {
	for _, mode := range []Mode{Paper, Rails, MinMove, Bytes, None} {
		traffic, plan := good(t, mode)
		v, err := Decode(must(plan.Encode(bg)))
		if err != nil {
			t.Fatal(err)
		}
		programs, err := v.Programs()
		if err != nil {
			t.Fatal(err)
		}
		ranks := traffic.Ranks()
		input, want := make([][]byte, ranks), make([][]byte, ranks)
		for source := range ranks {
			for destination := range ranks {
				message := make([]byte, traffic.Bytes[source*ranks+destination])
				for at := range message {
					message[at] = byte(1 + (source*31+destination*17+at)%255)
				}
				input[source] = append(input[source], message...)
				want[destination] = append(want[destination], message...)
			}
		}
		send, receive, output := make([][]byte, ranks), make([][]byte, ranks), make([][]byte, ranks)
		for r, p := range programs {
			send[r], receive[r], output[r] = make([]byte, p.NICSend), make([]byte, p.NICRecv), make([]byte, p.Output)
		}
		for stage := -1; stage <= len(v.Lengths); stage++ {
			moves := func(list []Move) []Piece {
				return piecesOf(list, stage, func(x Move) (int, Piece) { return x.Beside, x.Piece })
			}
			turns := func(list []Turn) []Piece {
				return piecesOf(list, stage, func(x Turn) (int, Piece) { return x.Stage, x.Piece })
			}
			var deliver []func()
			for _, x := range []struct {
				from, to [][]byte
				lists    func(p *Program) (send, receive []Piece)
			}{
				{input, send, func(p *Program) ([]Piece, []Piece) { return moves(p.Before.Send), moves(p.Before.Receive) }},
				{send, receive, func(p *Program) ([]Piece, []Piece) { return turns(p.Send), turns(p.Receive) }},
				{receive, output, func(p *Program) ([]Piece, []Piece) { return moves(p.After.Send), moves(p.After.Receive) }},
				{input, output, func(p *Program) ([]Piece, []Piece) { return moves(p.Local.Send), moves(p.Local.Receive) }},
			} {
				deliver = append(deliver, move(programs, x.from, x.to, x.lists))
			}
			for _, run := range deliver {
				run()
			}
		}
		for r := range ranks {
			if !bytes.Equal(output[r], want[r]) {
				t.Fatalf("mode %s: rank %d has %v, want %v", mode, r, output[r], want[r])
			}
		}
	}
}

// piecesOf returns the pieces of a list that belong to a stage.
func piecesOf[T any](list []T, stage int, of func(T) (int, Piece)) (pieces []Piece) {
	for _, x := range list {
		if at, piece := of(x); at == stage {
			pieces = append(pieces, piece)
		}
	}
	return pieces
}

// move makes every rank send pieces of one buffer, and returns a function that makes the ranks
// receive these into another, in their order. Sending clears the pieces.
func move(programs []Program, from, to [][]byte, lists func(*Program) (send, receive []Piece)) func() {
	ranks := len(programs)
	mail := make([][]byte, ranks*ranks)
	for r := range programs {
		send, _ := lists(&programs[r])
		for _, x := range send {
			box := &mail[r*ranks+int(x.Peer)]
			*box = append(*box, from[r][x.Offset:x.Offset+x.Bytes]...)
			clear(from[r][x.Offset : x.Offset+x.Bytes])
		}
	}
	return func() {
		for r := range programs {
			_, receive := lists(&programs[r])
			for _, x := range receive {
				box := &mail[int(x.Peer)*ranks+r]
				copy(to[r][x.Offset:x.Offset+x.Bytes], (*box)[:x.Bytes])
				*box = (*box)[x.Bytes:]
			}
		}
	}
}

// No byte of an exchange can change without being noticed.
func TestDecodeFindsDamage(t *testing.T) {
	_, plan := good(t, Rails)
	data := must(plan.Encode(bg))
	for at := range data {
		damaged := slices.Clone(data)
		damaged[at] ^= 1 << (at % 8)
		if _, err := Decode(damaged); err == nil {
			t.Fatalf("a change of byte %d is not found", at)
		}
	}
	for size := range data {
		if _, err := Decode(data[:size]); err == nil {
			t.Fatalf("an exchange cut after %d bytes is taken", size)
		}
	}
}

// FuzzDecode corrects the checksum, so that the code behind it is reached. A decoded plan is
// consistent.
func FuzzDecode(f *testing.F) {
	var p Planner
	for _, c := range []Cluster{{1, 2}, {2, 1}, {3, 2}} {
		traffic := uniform(c, 1)
		traffic.Bytes[c.Ranks()-1] += 7
		plan, err := p.Plan(f.Context(), traffic, Options{})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(must(plan.Encode(bg)))
	}
	c := Cluster{2, 2}
	x := must(FromTopK(c, []float64{2, 3, 1, 0, -1, 2, 0, 2}, 2, must(c.Blocks(4)), 3))
	plan := must(p.PlanTokens(f.Context(), x, Options{}))
	f.Add(must(plan.Encode(bg)))
	f.Add(must(plan.Return().Encode(bg)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if data = slices.Clone(data); len(data) >= headerSize {
			binary.LittleEndian.PutUint32(data[atCRC:], checksum(data))
		}
		v, err := Decode(data)
		if err != nil {
			return
		}
		if v.TokenBytes > 0 {
			_ = v.VerifyTokens(t.Context(), x)
		}
		for r := range min(v.Ranks(), 64) {
			p, err := v.Program(Rank(r))
			if err != nil {
				continue
			}
			stage := -1
			for _, x := range p.Send {
				if x.Stage <= stage || x.Stage >= len(v.Lengths) || x.Bytes > v.Lengths[x.Stage] || x.Offset < 0 || x.Offset+x.Bytes > p.NICSend ||
					v.server(x.Peer) == v.server(Rank(r)) || int(x.Peer) >= v.Ranks() {
					t.Fatalf("rank %d has turn %+v", r, x)
				}
				stage = x.Stage
			}
			for _, x := range p.After.Receive {
				if v.server(x.Peer) != v.server(Rank(r)) || x.Bytes <= 0 || x.Offset < 0 || x.Offset+x.Bytes > p.Output {
					t.Fatalf("rank %d receives %+v in a buffer of %d", r, x, p.Output)
				}
			}
			if again := p.encode(nil, v.GPUs, v.Returns); len(again) > len(data) {
				t.Fatalf("rank %d has %d bytes, encoded again %d", r, len(data), len(again))
			}
		}
	})
}
