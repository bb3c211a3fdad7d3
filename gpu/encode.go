package gpu

import (
	"context"
	"encoding/binary"
	"hash/crc32"
)

// The binary form of an exchange, documented in docs/gpu.md: a header, the lengths of
// the stages, an index, and one section per rank, which can be read by itself.
const (
	magic      = "FORSGPU"
	atVersion  = 7 // byte
	ofMessages = 2 // version
	ofTokens   = 3 // version whose header goes on with the size of a token and the direction
	headerSize = 56
	tokensSize = 8
	// Offsets in the header; all numbers are little-endian.
	atServers = 8  // uint32
	atGPUs    = 12 // uint32
	atStages  = 16 // uint32
	atCRC     = 20 // uint32, CRC-32 (IEEE) of everything but itself
	atLength  = 24 // uint64
	atBound   = 32 // uint64
	atMoves   = 40 // uint64 each, before and after the stages
	atToken   = 56 // uint32
	atReturns = 60 // uint32, 1 on the way back
)

// Encode returns the plan's programs in binary form. It fails as Programs does.
func (p *Plan) Encode(ctx context.Context) ([]byte, error) {
	programs, err := p.Programs(ctx)
	if err != nil {
		return nil, err
	}
	return p.encode(programs), nil
}

func (p *Plan) encode(programs []Program) []byte {
	ranks := len(programs)
	header := headerSize
	if p.Tokens != nil {
		header += tokensSize
	}
	out := make([]byte, header+8*len(p.Stages)+8*(ranks+1))
	le := binary.LittleEndian
	copy(out, magic)
	out[atVersion] = ofMessages
	if p.Tokens != nil {
		out[atVersion] = ofTokens
		le.PutUint32(out[atToken:], uint32(p.Tokens.Bytes))
		if p.Returns {
			out[atReturns] = 1
		}
	}
	le.PutUint32(out[atServers:], uint32(p.Servers))
	le.PutUint32(out[atGPUs:], uint32(p.GPUs))
	le.PutUint32(out[atStages:], uint32(len(p.Stages)))
	le.PutUint64(out[atLength:], uint64(p.Length))
	le.PutUint64(out[atBound:], uint64(p.Bound))
	le.PutUint64(out[atMoves:], uint64(p.MovesBefore))
	le.PutUint64(out[atMoves+8:], uint64(p.MovesAfter))
	for i := range p.Stages {
		le.PutUint64(out[header+8*i:], uint64(p.Stages[i].Length))
	}
	index := header + 8*len(p.Stages)
	for r := range programs {
		le.PutUint64(out[index+8*r:], uint64(len(out)))
		out = programs[r].encode(out, p.GPUs, p.Returns)
	}
	le.PutUint64(out[index+8*ranks:], uint64(len(out)))
	le.PutUint32(out[atCRC:], checksum(out))
	return out
}

// checksum is the CRC of everything but the field that holds it.
func checksum(data []byte) uint32 {
	sum := crc32.ChecksumIEEE(data[:atCRC])
	return crc32.Update(sum, crc32.IEEETable, data[atCRC+4:])
}

// encode appends the section of a rank. On the way back it has for each piece received in a
// move whether it is added.
func (p *Program) encode(out []byte, m int, returns bool) []byte {
	for _, size := range []int64{p.Input, p.NICSend, p.NICRecv, p.Output} {
		out = binary.AppendUvarint(out, uint64(size))
	}
	first := p.Rank - p.Rank%Rank(m)
	for _, moves := range []*Moves{&p.Before, &p.After, &p.Local} {
		for side, list := range [][]Move{moves.Send, moves.Receive} {
			out = binary.AppendUvarint(out, uint64(len(list)))
			beside, end := -1, int64(0)
			for _, x := range list {
				out = binary.AppendUvarint(out, uint64(x.Beside-beside))
				out = x.encode(out, first, end)
				if returns && side == 1 {
					out = append(out, 0)
					if x.Add {
						out[len(out)-1] = 1
					}
				}
				beside, end = x.Beside, x.Offset+x.Bytes
			}
		}
	}
	for _, list := range [][]Turn{p.Send, p.Receive} {
		out = binary.AppendUvarint(out, uint64(len(list)))
		next, end := 0, int64(0)
		for _, x := range list {
			out = binary.AppendUvarint(out, uint64(x.Stage-next))
			out = x.encode(out, 0, end)
			next, end = x.Stage+1, x.Offset+x.Bytes
		}
	}
	return out
}

// encode appends a piece: its peer relative to a rank, its offset relative to the end of
// the previous piece, and its bytes.
func (x *Piece) encode(out []byte, first Rank, end int64) []byte {
	out = binary.AppendUvarint(out, uint64(x.Peer-first))
	out = binary.AppendVarint(out, x.Offset-end)
	return binary.AppendUvarint(out, uint64(x.Bytes))
}
