// Package mscclpp writes exchanges of package gpu as execution plans of MSCCL++ in JSON: the
// copies, sends, signals and waits of the thread blocks of every GPU. Moves inside servers
// are puts over memory channels, transfers between NICs puts over port channels.
package mscclpp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/forsd/forsd/gpu"
)

// Alignment is how many bytes MSCCL++ copies at a time.
const Alignment = 16

// file is a plan of MSCCL++. Indices and sizes of buffers are in chunks.
type file struct {
	Name       string    `json:"name"` // its executor keeps plans by name
	Collective string    `json:"collective"`
	Protocol   string    `json:"protocol"`
	InPlace    bool      `json:"inplace"`
	Reuse      bool      `json:"reuse_resources"`
	GPUs       []*device `json:"gpus"` // [rank]
	Threads    int       `json:"num_threads_per_block"`
	Double     bool      `json:"use_double_scratch_buffer"`
	Alignment  int       `json:"buffer_alignment"`
}

// device is the program of a GPU. Blocks refer to its channels, which are numbered
// separately for each type, to its buffers of peers and to its semaphores.
type device struct {
	ID         int         `json:"id"`
	Input      int64       `json:"input_chunks"`
	Output     int64       `json:"output_chunks"`
	Scratch    int64       `json:"scratch_chunks"` // the NIC's sending buffer, then its receiving one
	Blocks     []*block    `json:"threadblocks"`
	Channels   []peers     `json:"channels"`
	Buffers    []remote    `json:"remote_buffers"`
	Semaphores []semaphore `json:"semaphores"`
}

type peers struct {
	Type  string     `json:"channel_type"`
	Peers []gpu.Rank `json:"connected_to"`
}

type remote struct {
	Rank   gpu.Rank `json:"rank"`
	Type   string   `json:"type"`
	Access []string `json:"access_channel_types"`
}

type semaphore struct {
	Value int `json:"init_value"`
}

// block is a thread block. Its operations hold indices into its own lists.
type block struct {
	ID       int          `json:"id"`
	Ops      []op         `json:"ops"`
	Channels []channelIDs `json:"channels"`
	Buffers  []bufferIDs  `json:"remote_buffer_refs"`
}

type channelIDs struct {
	Type string `json:"channel_type"`
	IDs  []int  `json:"channel_ids"`
}

type bufferIDs struct {
	Type string `json:"access_channel_type"`
	IDs  []int  `json:"remote_buffer_ids"`
}

type op struct {
	Name       string  `json:"name"`
	From       []chunk `json:"src_buff,omitempty"`
	To         []chunk `json:"dst_buff,omitempty"`
	Channels   []int   `json:"channel_ids,omitempty"`
	Type       string  `json:"channel_type,omitempty"`
	Semaphores []int   `json:"semaphore_ids,omitempty"`
}

// chunk is a stretch of a buffer: the GPU's own, by type, or a peer's, by its number.
type chunk struct {
	Type   string `json:"type,omitempty"`
	Buffer *int   `json:"buffer_id,omitempty"`
	Index  int64  `json:"index"`
	Size   int64  `json:"size"`
}

// The types of buffers and of channels.
const (
	input, output, scratch = "i", "o", "s"
	memory, port           = "memory", "port"
)

// Encode returns a plan as MSCCL++ executes it, and the bytes of a chunk: the file has the
// sizes of the input and the output of a rank in chunks, at least one. Pieces must begin and
// end at multiples of 16 bytes. It also fails soon after ctx ends.
func Encode(ctx context.Context, p *gpu.Plan) (data []byte, chunkBytes int64, err error) {
	if p.Tokens != nil {
		return nil, 0, errors.New("the exchange is of tokens that are handed on inside servers: plan them once to each GPU")
	}
	if p.Site != nil {
		return nil, 0, errors.New("MSCCL++ has a NIC for each GPU, and this plan is for servers that are not all alike")
	}
	programs, err := p.Programs(ctx)
	if err != nil {
		return nil, 0, err
	}
	unit := common(programs)
	if unit%Alignment != 0 {
		return nil, 0, fmt.Errorf("this plan cuts messages at multiples of %d bytes, and MSCCL++ copies %d at a time: "+
			"make messages multiples of %d bytes, %d for each GPU of a server, and plan with such a grain", unit, Alignment, Alignment*p.GPUs, Alignment)
	}
	f := &file{Collective: "alltoall", Protocol: "Simple", GPUs: make([]*device, len(programs)), Threads: 1024, Alignment: Alignment}
	steps := puts(programs, p.GPUs, len(p.Stages), unit)
	for r := range programs {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		x := &programs[r]
		if most := max(x.Input, x.Output, x.NICSend+x.NICRecv); most > math.MaxUint32 {
			return nil, 0, fmt.Errorf("rank %d has a buffer of %d bytes: MSCCL++ takes %d at most", r, most, math.MaxUint32)
		}
		if f.GPUs[r], err = write(programs, x, steps[r], p.GPUs, unit); err != nil {
			return nil, 0, err
		}
	}
	if data, err = json.Marshal(f.GPUs); err != nil {
		return nil, 0, err
	}
	f.Name = fmt.Sprintf("forsd %d×%d %08x", p.Servers, p.GPUs, crc32.ChecksumIEEE(data))
	data, err = json.Marshal(f)
	return append(data, '\n'), unit, err
}

// common is the largest number of bytes that divides all offsets and sizes.
func common(programs []gpu.Program) int64 {
	unit := int64(0)
	add := func(x gpu.Piece) { unit = gcd(gcd(unit, x.Offset), x.Bytes) }
	for r := range programs {
		p := &programs[r]
		for _, moves := range []*gpu.Moves{&p.Before, &p.After, &p.Local} {
			for _, list := range [][]gpu.Move{moves.Send, moves.Receive} {
				for _, x := range list {
					add(x.Piece)
				}
			}
		}
		for _, list := range [][]gpu.Turn{p.Send, p.Receive} {
			for _, x := range list {
				add(x.Piece)
			}
		}
	}
	if unit == 0 {
		return Alignment // nothing is sent
	}
	return unit
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
