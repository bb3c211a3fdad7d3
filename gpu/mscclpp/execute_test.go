package mscclpp_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
)

// This file executes plans as MSCCL++'s executor does, with byte slices as the memory of GPUs.
// It follows that executor's sources and shares no code with the package.

type chunkJSON struct {
	Type   *string `json:"type"`
	Buffer *int    `json:"buffer_id"`
	Index  int64   `json:"index"`
	Size   int64   `json:"size"`
}

type opJSON struct {
	Name       string      `json:"name"`
	Type       string      `json:"channel_type"`
	Channels   []int       `json:"channel_ids"`
	From       []chunkJSON `json:"src_buff"`
	To         []chunkJSON `json:"dst_buff"`
	Semaphores []int       `json:"semaphore_ids"`
}

type blockJSON struct {
	ID       int      `json:"id"`
	Ops      []opJSON `json:"ops"`
	Channels []struct {
		Type string `json:"channel_type"`
		IDs  []int  `json:"channel_ids"`
	} `json:"channels"`
	Buffers []struct {
		Type string `json:"access_channel_type"`
		IDs  []int  `json:"remote_buffer_ids"`
	} `json:"remote_buffer_refs"`
}

type gpuJSON struct {
	ID       int         `json:"id"`
	Input    int64       `json:"input_chunks"`
	Output   int64       `json:"output_chunks"`
	Scratch  int64       `json:"scratch_chunks"`
	Blocks   []blockJSON `json:"threadblocks"`
	Channels []struct {
		Type  string `json:"channel_type"`
		Peers []int  `json:"connected_to"`
	} `json:"channels"`
	Buffers []struct {
		Rank   int      `json:"rank"`
		Type   string   `json:"type"`
		Access []string `json:"access_channel_types"`
	} `json:"remote_buffers"`
	Semaphores []struct {
		Value int `json:"init_value"`
	} `json:"semaphores"`
}

type planJSON struct {
	Name       string    `json:"name"`
	Collective string    `json:"collective"`
	Protocol   string    `json:"protocol"`
	InPlace    *bool     `json:"inplace"`
	Alignment  int64     `json:"buffer_alignment"`
	GPUs       []gpuJSON `json:"gpus"`
}

// executor has the state of the GPUs and their signals.
type executor struct {
	plan    planJSON
	servers int // GPUs of a server
	chunk   int64
	buffers []map[string][]byte // [rank][type]
	signals map[[2]any]int      // [receiver, channel] signals not waited for yet
	sems    [][]int             // [rank]
	pc      [][]int             // [rank][block]
}

// load reads a plan and checks it against the executor's limits.
func load(data []byte, m int, chunk int64) (*executor, error) {
	x := &executor{servers: m, chunk: chunk}
	if err := json.Unmarshal(data, &x.plan); err != nil {
		return nil, err
	}
	p := &x.plan
	if p.Name == "" || p.Collective == "" || p.Protocol != "Simple" || p.InPlace == nil || *p.InPlace || p.Alignment != 16 || chunk%p.Alignment != 0 {
		return nil, fmt.Errorf("the head is %q, %q, %q, alignment %d", p.Name, p.Collective, p.Protocol, p.Alignment)
	}
	for r := range p.GPUs {
		if err := x.checkGPU(r); err != nil {
			return nil, fmt.Errorf("rank %d: %w", r, err)
		}
		g := &p.GPUs[r]
		x.buffers = append(x.buffers, map[string][]byte{"i": make([]byte, g.Input*chunk), "o": make([]byte, g.Output*chunk), "s": make([]byte, g.Scratch*chunk)})
		sems := make([]int, len(g.Semaphores))
		for i := range sems {
			sems[i] = g.Semaphores[i].Value
		}
		x.sems, x.pc = append(x.sems, sems), append(x.pc, make([]int, len(g.Blocks)))
	}
	x.signals = map[[2]any]int{}
	return x, nil
}

func (x *executor) checkGPU(r int) error {
	g := &x.plan.GPUs[r]
	if g.ID != r || g.Input < 1 || g.Output < 1 || len(g.Blocks) > 132 {
		return fmt.Errorf("it is %d, with %d and %d chunks and %d thread blocks", g.ID, g.Input, g.Output, len(g.Blocks))
	}
	for _, b := range g.Buffers {
		if !slices.Equal(b.Access, []string{access(r, b.Rank, x.servers)}) {
			return fmt.Errorf("buffer %s of rank %d by %v", b.Type, b.Rank, b.Access)
		}
	}
	for _, c := range g.Channels {
		for _, peer := range c.Peers {
			// Channels are joined in the order of the two lists, so their numbers must agree.
			if peer == r || access(r, peer, x.servers) != c.Type || count(g, c.Type, peer) != count(&x.plan.GPUs[peer], c.Type, r) {
				return fmt.Errorf("channels %s to %d", c.Type, peer)
			}
		}
	}
	for i := range g.Blocks {
		b := &g.Blocks[i]
		if b.ID != i || len(b.Ops) > 64 {
			return fmt.Errorf("thread block %d is %d with %d operations", i, b.ID, len(b.Ops))
		}
		if at := unsynchronized(b.Ops); at >= 0 {
			return fmt.Errorf("thread block %d: the threads have to meet before operation %d", i, at)
		}
		for _, c := range b.Channels {
			if len(c.IDs) > 16 {
				return fmt.Errorf("thread block %d has %d channels", i, len(c.IDs))
			}
		}
		for _, c := range b.Buffers {
			if len(c.IDs) > 16 {
				return fmt.Errorf("thread block %d has %d buffers", i, len(c.IDs))
			}
		}
	}
	return nil
}

// unsynchronized finds an operation that some threads of a block might begin before others have
// finished the previous ones: a nop must precede moves of bytes that one thread has waited for,
// and signals about bytes that all threads have moved.
func unsynchronized(ops []opJSON) int {
	waited, moved := false, false
	for i, o := range ops {
		switch o.Name {
		case "nop":
			waited, moved = false, false
		case "wait", "sem_acquire":
			waited = true
		case "signal", "sem_release":
			if waited || moved {
				return i
			}
		default:
			if waited {
				return i
			}
			moved = true
		}
	}
	return -1
}

// access is how GPUs reach each other: by memory inside a server, otherwise by NICs.
func access(a, b, m int) string {
	if a/m == b/m {
		return "memory"
	}
	return "port"
}

func count(g *gpuJSON, kind string, peer int) (n int) {
	for _, c := range g.Channels {
		for _, p := range c.Peers {
			if c.Type == kind && p == peer {
				n++
			}
		}
	}
	return n
}

// run executes the plan: thread blocks run in random order, some with long delays. It fails
// if all wait, or if signals are left over.
func (x *executor) run(rng *rand.Rand) error {
	type at struct{ rank, block int }
	var ready []at
	for r := range x.pc {
		for b := range x.pc[r] {
			x.pc[r][b] = 0
			ready = append(ready, at{r, b})
		}
	}
	rng.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	burst := 1 + rng.IntN(20) // operations that a block executes while the others pause
	for len(ready) > 0 {
		moved := false
		var rest []at
		for _, b := range ready {
			ops := x.plan.GPUs[b.rank].Blocks[b.block].Ops
			for range burst {
				if x.pc[b.rank][b.block] == len(ops) {
					break
				}
				done, err := x.execute(b.rank, b.block, &ops[x.pc[b.rank][b.block]])
				if err != nil {
					return fmt.Errorf("rank %d, thread block %d, operation %d: %w", b.rank, b.block, x.pc[b.rank][b.block], err)
				}
				if !done {
					break
				}
				x.pc[b.rank][b.block]++
				moved = true
			}
			if x.pc[b.rank][b.block] < len(ops) {
				rest = append(rest, b)
			} else {
				moved = true
			}
		}
		if !moved {
			return fmt.Errorf("%d thread blocks wait for each other", len(rest))
		}
		if ready = rest; rng.IntN(3) == 0 {
			rng.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
		}
	}
	for to, n := range x.signals {
		if n != 0 {
			return fmt.Errorf("%v has %d signals too many", to, n)
		}
	}
	for r := range x.sems {
		for i, v := range x.sems[r] {
			if v != x.plan.GPUs[r].Semaphores[i].Value {
				return fmt.Errorf("semaphore %d of rank %d is %d at the end", i, r, v)
			}
		}
	}
	return nil
}

// execute executes an operation, and reports whether it could.
func (x *executor) execute(r, b int, o *opJSON) (bool, error) {
	if len(o.Channels) > 8 || len(o.From) > 8 || len(o.To) > 8 || len(o.Semaphores) > 16 {
		return false, fmt.Errorf("%s has too many operands", o.Name)
	}
	switch o.Name {
	case "nop":
	case "signal":
		for _, c := range o.Channels {
			x.signals[x.far(r, b, o.Type, c)]++
		}
	case "wait":
		for _, c := range o.Channels {
			if x.signals[x.near(r, b, o.Type, c)] < 1 {
				return false, nil
			}
		}
		for _, c := range o.Channels {
			x.signals[x.near(r, b, o.Type, c)]--
		}
	case "sem_release":
		for _, s := range o.Semaphores {
			x.sems[r][s]++
		}
	case "sem_acquire":
		for _, s := range o.Semaphores {
			if x.sems[r][s] < 1 {
				return false, nil
			}
		}
		for _, s := range o.Semaphores {
			x.sems[r][s]--
		}
	case "copy", "put", "pwsf":
		return true, x.move(r, b, o)
	default:
		return false, fmt.Errorf("operation %q", o.Name)
	}
	return true, nil
}

// move copies pieces, and signals if the operation says so.
func (x *executor) move(r, b int, o *opJSON) error {
	if len(o.From) != len(o.To) || o.Name == "copy" && len(o.From) != 1 || (o.Type == "port") != (o.Name == "pwsf") || o.Name == "pwsf" && len(o.Channels) != len(o.To) {
		return fmt.Errorf("%s over %q from %d pieces to %d, %d channels", o.Name, o.Type, len(o.From), len(o.To), len(o.Channels))
	}
	for i, from := range o.From {
		to := o.To[i]
		// A put over memory reads all pieces out of the first one's buffer.
		if from.Size != to.Size || from.Size < 1 || *from.Type != *o.From[0].Type {
			return fmt.Errorf("%s has %d chunks for %d", o.Name, from.Size, to.Size)
		}
		target, rank := "", r
		if o.Name == "copy" {
			target = *to.Type
		} else {
			buffer := x.plan.GPUs[r].Buffers[x.local(r, b, o.Type, *to.Buffer)]
			target, rank = buffer.Type, buffer.Rank
		}
		src, dst := x.buffers[r][*from.Type], x.buffers[rank][target]
		if from.Index < 0 || to.Index < 0 || (from.Index+from.Size)*x.chunk > int64(len(src)) || (to.Index+to.Size)*x.chunk > int64(len(dst)) {
			return fmt.Errorf("%s of %d chunks at %d to %d is out of bounds", o.Name, from.Size, from.Index, to.Index)
		}
		copy(dst[to.Index*x.chunk:], src[from.Index*x.chunk:(from.Index+from.Size)*x.chunk])
		if o.Name == "pwsf" {
			far := x.far(r, b, o.Type, o.Channels[i])
			if far[0] != rank {
				return fmt.Errorf("it sends to rank %d and signals rank %v", rank, far[0])
			}
			x.signals[far]++
		}
	}
	return nil
}

// local is the GPU's number of a buffer that a thread block refers to.
func (x *executor) local(r, b int, kind string, id int) int {
	for _, refs := range x.plan.GPUs[r].Blocks[b].Buffers {
		if refs.Type == kind {
			return refs.IDs[id]
		}
	}
	panic("no buffers by " + kind)
}

// near names this end of a channel of a thread block, far the other one.
func (x *executor) near(r, b int, kind string, id int) [2]any {
	peer, nth := x.channel(r, b, kind, id)
	return [2]any{r, fmt.Sprint(kind, " ", peer, " ", nth)}
}

func (x *executor) far(r, b int, kind string, id int) [2]any {
	peer, nth := x.channel(r, b, kind, id)
	return [2]any{peer, fmt.Sprint(kind, " ", r, " ", nth)}
}

// channel returns the peer of a channel, and its index among those with that peer.
func (x *executor) channel(r, b int, kind string, id int) (peer, nth int) {
	for _, refs := range x.plan.GPUs[r].Blocks[b].Channels {
		if refs.Type == kind {
			id = refs.IDs[id]
		}
	}
	for _, c := range x.plan.GPUs[r].Channels {
		if c.Type == kind {
			for _, p := range c.Peers[:id] {
				if p == c.Peers[id] {
					nth++
				}
			}
			return c.Peers[id], nth
		}
	}
	panic("no channels " + kind)
}
