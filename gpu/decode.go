package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// View reads the binary form of an exchange. It keeps the data, which must not
// change.
type View struct {
	Cluster
	TokenBytes              int64 // of an exchange of tokens, or 0
	Returns                 bool  // the way back of tokens
	Length, Bound           int64
	MovesBefore, MovesAfter int64
	Lengths                 []int64 // [stage]
	data                    []byte
	index                   int // offset of the index
}

// Decode checks data as a whole: the header, the checksum, the lengths and the
// index. Program checks the section of a rank.
func Decode(data []byte) (*View, error) {
	if len(data) > atVersion && string(data[:atVersion]) == magic && data[atVersion] != ofMessages && data[atVersion] != ofTokens {
		return nil, fmt.Errorf("this exchange has version %d, and this program reads versions %d and %d: plan it again", data[atVersion], ofMessages, ofTokens)
	}
	if len(data) < headerSize || string(data[:atVersion]) != magic {
		return nil, fmt.Errorf("this is not an exchange: want at least %d bytes that begin with %q", headerSize, magic)
	}
	le := binary.LittleEndian
	v := &View{Cluster: Cluster{int(le.Uint32(data[atServers:])), int(le.Uint32(data[atGPUs:]))}, data: data}
	if err := v.check(); err != nil {
		return nil, err
	}
	header := headerSize
	if data[atVersion] == ofTokens && len(data) >= headerSize+tokensSize {
		header += tokensSize
		returns := le.Uint32(data[atReturns:])
		if v.TokenBytes, v.Returns = int64(le.Uint32(data[atToken:])), returns == 1; v.TokenBytes < 1 || returns > 1 {
			return nil, fmt.Errorf("the header states tokens of %d bytes and direction %d: want one byte at least, and 0 or 1", v.TokenBytes, returns)
		}
	}
	stages := int(le.Uint32(data[atStages:]))
	v.index = header + 8*stages
	body := v.index + 8*(v.Ranks()+1)
	if body > len(data) {
		return nil, fmt.Errorf("an exchange of %d ranks in %d stages has %d bytes, want %d at least", v.Ranks(), stages, len(data), body)
	}
	if sum := checksum(data); sum != le.Uint32(data[atCRC:]) {
		return nil, fmt.Errorf("the checksum is %#x, want %#x: the exchange is damaged", sum, le.Uint32(data[atCRC:]))
	}
	for _, x := range []struct {
		at int
		to *int64
	}{{atLength, &v.Length}, {atBound, &v.Bound}, {atMoves, &v.MovesBefore}, {atMoves + 8, &v.MovesAfter}} {
		value := le.Uint64(data[x.at:])
		if value > maxTotal {
			return nil, fmt.Errorf("byte %d of the header: %d is beyond any exchange", x.at, value)
		}
		*x.to = int64(value)
	}
	total := uint64(0)
	for i := range stages {
		length := le.Uint64(data[header+8*i:])
		if length == 0 || length > maxTotal-total {
			return nil, fmt.Errorf("stage %d has length %d: want at least 1, and at most %d in all", i, length, int64(maxTotal))
		}
		total += length
		v.Lengths = append(v.Lengths, int64(length))
	}
	if int64(total) != v.Length {
		return nil, fmt.Errorf("the stages have a length of %d, but the header states %d", total, v.Length)
	}
	end := uint64(body)
	for r := range v.Ranks() + 1 {
		at := le.Uint64(data[v.index+8*r:])
		if r == 0 && at != end || at < end || at > uint64(len(data)) || r == v.Ranks() && at != uint64(len(data)) {
			return nil, fmt.Errorf("the section of rank %d is at byte %d, which is out of order or out of the exchange", r, at)
		}
		end = at
	}
	return v, nil
}

// Program reads the program of a rank.
func (v *View) Program(rank Rank) (*Program, error) {
	if rank < 0 || int(rank) >= v.Ranks() {
		return nil, fmt.Errorf("rank %d: want 0 to %d", rank, v.Ranks()-1)
	}
	le := binary.LittleEndian
	from, to := le.Uint64(v.data[v.index+8*int(rank):]), le.Uint64(v.data[v.index+8*int(rank)+8:])
	s := &section{v: v, data: v.data[from:to]}
	p := &Program{Rank: rank}
	for _, size := range []*int64{&p.Input, &p.NICSend, &p.NICRecv, &p.Output} {
		*size = s.number()
	}
	first := rank - rank%Rank(v.GPUs)
	for _, x := range []struct {
		moves         *Moves
		send, receive int64 // sizes of the buffers
	}{{&p.Before, p.Input, p.NICSend}, {&p.After, p.NICRecv, p.Output}, {&p.Local, p.Input, p.Output}} {
		x.moves.Send, x.moves.Receive = s.moves(first, x.send, false), s.moves(first, x.receive, v.Returns)
	}
	p.Send, p.Receive = s.turns(first, p.NICSend), s.turns(first, p.NICRecv)
	if s.err == nil && len(s.data) > 0 {
		s.fail(fmt.Errorf("%d bytes are left over", len(s.data)))
	}
	if s.err != nil {
		return nil, fmt.Errorf("section of rank %d: %w", rank, s.err)
	}
	return p, nil
}

// Programs reads the programs of all ranks.
func (v *View) Programs() ([]Program, error) {
	programs := make([]Program, v.Ranks())
	for r := range programs {
		p, err := v.Program(Rank(r))
		if err != nil {
			return nil, err
		}
		programs[r] = *p
	}
	return programs, nil
}

// section reads the numbers of a section and keeps the first error.
type section struct {
	v    *View
	data []byte
	err  error
}

func (s *section) fail(err error) {
	if s.err == nil {
		s.err, s.data = err, nil
	}
}

// number reads a number that is not negative.
func (s *section) number() int64 {
	value, n := binary.Uvarint(s.data)
	if n <= 0 || value > maxTotal {
		s.fail(errors.New("a number is cut off or too large"))
		return 0
	}
	s.data = s.data[n:]
	return int64(value)
}

// signed reads a number that may be negative.
func (s *section) signed() int64 {
	value, n := binary.Varint(s.data)
	if n <= 0 || value > maxTotal || value < -maxTotal {
		s.fail(errors.New("a number is cut off or too large"))
		return 0
	}
	s.data = s.data[n:]
	return value
}

// count reads the length of a list whose elements have at least so many bytes.
func (s *section) count(least int) int {
	n := s.number()
	if n > int64(len(s.data)/least) {
		s.fail(fmt.Errorf("a list of %d elements is longer than the section", n))
		return 0
	}
	return int(n)
}

// moves reads a list of moves of a buffer. The peers are in the server whose first rank
// is given; with adds, it has for each whether it is added.
func (s *section) moves(first Rank, size int64, adds bool) []Move {
	list := []Move{}
	beside, end := int64(-1), int64(0)
	for range s.count(4) {
		beside += s.number()
		x, added := s.piece(first, end, size), int64(0)
		if adds {
			added = s.number()
		}
		switch {
		case s.err != nil:
		case added > 1:
			s.fail(fmt.Errorf("a piece is added %d times: want 0 or 1", added))
		case beside > int64(len(s.v.Lengths)):
			s.fail(fmt.Errorf("a move during stage %d of %d", beside, len(s.v.Lengths)))
		case x.Peer >= first+Rank(s.v.GPUs):
			s.fail(fmt.Errorf("peer %d is not in the server of rank %d", x.Peer, first))
		}
		if s.err != nil {
			return nil
		}
		list, end = append(list, Move{int(beside), x, added == 1}), x.Offset+x.Bytes
	}
	return list
}

// turns reads a list of turns of a NIC in the server whose first rank is given.
func (s *section) turns(first Rank, size int64) []Turn {
	list := []Turn{}
	next, end := int64(0), int64(0)
	for range s.count(4) {
		stage := next + s.number()
		x := s.piece(0, end, size)
		switch {
		case s.err != nil:
		case stage >= int64(len(s.v.Lengths)):
			s.fail(fmt.Errorf("a turn in stage %d of %d", stage, len(s.v.Lengths)))
		case x.Bytes > s.v.Lengths[stage]:
			s.fail(fmt.Errorf("stage %d: %d bytes in a stage of %d", stage, x.Bytes, s.v.Lengths[stage]))
		case x.Peer >= first && x.Peer < first+Rank(s.v.GPUs):
			s.fail(fmt.Errorf("stage %d: peer %d is in the server of rank %d", stage, x.Peer, first))
		}
		if s.err != nil {
			return nil
		}
		list = append(list, Turn{int(stage), x})
		next, end = stage+1, x.Offset+x.Bytes
	}
	return list
}

// piece reads a piece of a buffer.
func (s *section) piece(first Rank, end, size int64) Piece {
	peer, offset, bytes := s.number(), end+s.signed(), s.number()
	if s.err == nil && peer >= int64(s.v.Ranks())-int64(first) {
		s.fail(fmt.Errorf("peer %d does not exist", int64(first)+peer))
	}
	if s.err == nil && (bytes < 1 || offset < 0 || offset > size || bytes > size-offset) {
		s.fail(fmt.Errorf("%d bytes at %d are not in a buffer of %d", bytes, offset, size))
	}
	if s.err != nil {
		return Piece{}
	}
	return Piece{first + Rank(peer), offset, bytes}
}
