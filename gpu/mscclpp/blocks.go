package mscclpp

import (
	"fmt"
	"slices"

	"github.com/forsd/forsd/gpu"
)

// Limits of MSCCL++'s executor.
const (
	mostOps      = 64  // of a thread block
	mostRefs     = 16  // channels of a thread block, and buffers of peers, of each type
	mostPieces   = 8   // of an operation, and its channels
	mostWorkers  = 16  // semaphores of an operation
	mostBlocks   = 128 // a GPU must run all at once, since thread blocks wait for each other
	leastOfBlock = 16 << 10
)

// writer writes the program of a GPU. Its thread blocks form groups, each of which executes
// some steps: the first block of a group, the leader, sends over the NIC and waits for the
// other GPUs; the other blocks, the workers, copy pieces when the leader tells them to.
//
// In a step, a leader starts its workers; signals the NIC that sends to it in this stage that
// there is room; sends over its NIC as soon as there is room at the other end; and waits for
// incoming data, for its workers and for the other GPUs of the server. So a step reads only
// data that was there before it, as gpu.Program requires.
type writer struct {
	*device
	programs []gpu.Program
	p        *gpu.Program
	m        int
	unit     int64
	ports    map[gpu.Rank]int // first of the two channels with a peer
	workers  int
	leader   *block
	group    []*block // workers of the current group
	start    []int    // semaphores that start workers
	done     []int    // semaphores of workers that are done
}

// write writes the program of a GPU, with as many workers as there is room for.
func write(programs []gpu.Program, p *gpu.Program, steps [][]put, m int, unit int64) (*device, error) {
	for workers := mostWorkers; workers > 0; workers = workers * 3 / 4 {
		w := newWriter(programs, p, m, unit)
		w.workers = workers
		if w.steps(steps) {
			return w.device, nil
		}
	}
	return nil, fmt.Errorf("the program of rank %d in %d stages does not fit into the %d thread blocks of a GPU with %d operations each: plan with fewer stages (a larger grain)",
		p.Rank, len(steps)-2, mostBlocks, mostOps)
}

func newWriter(programs []gpu.Program, p *gpu.Program, m int, unit int64) *writer {
	w := &writer{programs: programs, p: p, m: m, unit: unit, ports: map[gpu.Rank]int{}, device: &device{
		ID: int(p.Rank), Input: max(1, p.Input/unit), Output: max(1, p.Output/unit), Scratch: (p.NICSend + p.NICRecv) / unit,
		Channels: []peers{}, Buffers: []remote{}, Semaphores: []semaphore{},
	}}
	if m > 1 {
		w.Channels = append(w.Channels, peers{memory, w.server()})
	}
	var others, twice []gpu.Rank
	for _, list := range [][]gpu.Turn{p.Send, p.Receive} {
		for _, x := range list {
			others = append(others, x.Peer)
		}
	}
	slices.Sort(others)
	for i, q := range slices.Compact(others) {
		w.ports[q] = 2 * i
		twice = append(twice, q, q)
	}
	if len(twice) > 0 {
		w.Channels = append(w.Channels, peers{port, twice})
	}
	return w
}

// server returns the other GPUs of the server.
func (w *writer) server() []gpu.Rank {
	first := w.p.Rank - w.p.Rank%gpu.Rank(w.m)
	var list []gpu.Rank
	for r := first; r < first+gpu.Rank(w.m); r++ {
		if r != w.p.Rank {
			list = append(list, r)
		}
	}
	return list
}

// channel returns the port channel for data from one rank to another, one of which is this rank.
// Two ranks have two channels, the first for data from the lower one. Signals that there is room
// go the opposite way.
func (w *writer) channel(from, to gpu.Rank) int {
	base := w.ports[to]
	if to == w.p.Rank {
		base = w.ports[from]
	}
	if from > to {
		return base + 1
	}
	return base
}

// steps writes all steps, and reports whether there was room.
func (w *writer) steps(steps [][]put) bool {
	w.next()
	w.meet() // a previous program may still use the others' buffers
	send, receive := w.p.Send, w.p.Receive
	for i, list := range steps {
		var out, in *gpu.Turn
		if len(send) > 0 && send[0].Stage == i-1 {
			out, send = &send[0], send[1:]
		}
		if len(receive) > 0 && receive[0].Stage == i-1 {
			in, receive = &receive[0], receive[1:]
		}
		parts := shares(list, w.workers, leastOfBlock/w.unit)
		undo := w.mark()
		w.step(parts, out, in)
		if w.fits() {
			continue
		}
		undo()
		w.next()
		if w.step(parts, out, in); !w.fits() {
			return false
		}
	}
	return len(w.Blocks) <= mostBlocks
}

// next begins a group of thread blocks, after the current one.
func (w *writer) next() {
	last := w.leader
	w.leader = w.block()
	w.group, w.start, w.done = nil, nil, nil
	if last != nil {
		id := w.semaphore()
		last.add(op{Name: "sem_release", Semaphores: []int{id}})
		w.leader.add(op{Name: "sem_acquire", Semaphores: []int{id}}, op{Name: "nop"})
	}
}

func (w *writer) block() *block {
	b := &block{ID: len(w.Blocks), Ops: []op{}, Channels: []channelIDs{}, Buffers: []bufferIDs{}}
	w.Blocks = append(w.Blocks, b)
	return b
}

func (w *writer) semaphore() int {
	w.Semaphores = append(w.Semaphores, semaphore{})
	return len(w.Semaphores) - 1
}

// mark saves the state of the writer, and returns a function that restores it.
func (w *writer) mark() (undo func()) {
	kept := make([]block, len(w.Blocks))
	for i, b := range w.Blocks {
		kept[i] = block{b.ID, b.Ops, slices.Clone(b.Channels), slices.Clone(b.Buffers)}
	}
	group, semaphores := len(w.group), len(w.Semaphores)
	return func() {
		w.Blocks, w.Semaphores = w.Blocks[:len(kept)], w.Semaphores[:semaphores]
		for i := range kept {
			*w.Blocks[i] = kept[i]
		}
		w.group, w.start, w.done = w.group[:group], w.start[:group], w.done[:group]
	}
}

// fits reports whether the blocks of the group are within the limit; the leader needs room to
// start the next one.
func (w *writer) fits() bool {
	ok := len(w.leader.Ops) < mostOps
	for _, b := range slices.Concat(w.group, []*block{w.leader}) {
		ok = ok && len(b.Ops) <= mostOps
		for _, x := range b.Channels {
			ok = ok && len(x.IDs) <= mostRefs
		}
		for _, x := range b.Buffers {
			ok = ok && len(x.IDs) <= mostRefs
		}
	}
	return ok
}

// step writes a step: the moves of each worker, and the turns of the NIC.
func (w *writer) step(parts [][]put, out, in *gpu.Turn) {
	for len(w.group) < len(parts) {
		w.group, w.start, w.done = append(w.group, w.block()), append(w.start, w.semaphore()), append(w.done, w.semaphore())
	}
	if len(parts) > 0 {
		w.leader.add(op{Name: "sem_release", Semaphores: slices.Clone(w.start[:len(parts)])})
	}
	for i, list := range parts {
		b := w.group[i]
		b.add(op{Name: "sem_acquire", Semaphores: []int{w.start[i]}}, op{Name: "nop"})
		w.copy(b, list)
		b.add(op{Name: "nop"}, op{Name: "sem_release", Semaphores: []int{w.done[i]}})
	}
	if in != nil {
		w.leader.add(w.sync("signal", port, w.channel(in.Peer, w.p.Rank)))
	}
	if out != nil {
		id := w.channel(w.p.Rank, out.Peer)
		into := w.programs[out.Peer].NICSend + w.arrives(out)
		w.leader.add(w.sync("wait", port, id), op{Name: "nop"}, op{
			Name: "pwsf", Type: port, Channels: []int{w.leader.channel(port, id)},
			From: []chunk{{Type: scratch, Index: out.Offset / w.unit, Size: out.Bytes / w.unit}},
			To:   []chunk{w.remote(w.leader, port, out.Peer, scratch, into/w.unit, out.Bytes/w.unit)},
		})
	}
	if in != nil {
		w.leader.add(w.sync("wait", port, w.channel(in.Peer, w.p.Rank)))
	}
	if len(parts) > 0 {
		w.leader.add(op{Name: "sem_acquire", Semaphores: slices.Clone(w.done[:len(parts)])})
	}
	w.meet()
}

// arrives is the offset in the peer's receiving buffer of the data sent in a turn.
func (w *writer) arrives(x *gpu.Turn) int64 {
	list := w.programs[x.Peer].Receive
	i, _ := slices.BinarySearchFunc(list, x.Stage, func(y gpu.Turn, stage int) int { return y.Stage - stage })
	return list[i].Offset
}

// meet is a barrier of the GPUs of the server.
func (w *writer) meet() {
	w.leader.add(op{Name: "nop"})
	for _, name := range []string{"signal", "wait"} {
		for first := 0; first < w.m-1; first += mostPieces {
			var ids []int
			for id := first; id < min(first+mostPieces, w.m-1); id++ {
				ids = append(ids, id)
			}
			w.leader.add(w.sync(name, memory, ids...))
		}
	}
	w.leader.add(op{Name: "nop"})
}

// sync returns an operation of the leader that signals over channels of the GPU, or waits.
func (w *writer) sync(name, kind string, ids ...int) op {
	x := op{Name: name, Type: kind}
	for _, id := range ids {
		x.Channels = append(x.Channels, w.leader.channel(kind, id))
	}
	return x
}

// copy makes a block move pieces: those from one buffer to peers, several at a time.
func (w *writer) copy(b *block, list []put) {
	for _, x := range list {
		from := chunk{Type: x.from, Index: x.at, Size: x.size}
		if x.peer == w.p.Rank {
			b.add(op{Name: "copy", From: []chunk{from}, To: []chunk{{Type: x.to, Index: x.into, Size: x.size}}})
			continue
		}
		to := w.remote(b, memory, x.peer, x.to, x.into, x.size)
		if last := &b.Ops[len(b.Ops)-1]; last.Name == "put" && last.From[0].Type == x.from && len(last.From) < mostPieces {
			last.From, last.To = append(last.From, from), append(last.To, to)
			continue
		}
		b.add(op{Name: "put", Type: memory, From: []chunk{from}, To: []chunk{to}})
	}
}

// remote returns a stretch of a peer's buffer, as a block refers to it.
func (w *writer) remote(b *block, kind string, peer gpu.Rank, buffer string, at, size int64) chunk {
	id := slices.IndexFunc(w.Buffers, func(x remote) bool { return x.Rank == peer && x.Type == buffer })
	if id < 0 {
		id = len(w.Buffers)
		w.Buffers = append(w.Buffers, remote{peer, buffer, []string{kind}})
	}
	i := slices.IndexFunc(b.Buffers, func(x bufferIDs) bool { return x.Type == kind })
	if i < 0 {
		i, b.Buffers = len(b.Buffers), append(b.Buffers, bufferIDs{Type: kind})
	}
	ref := place(&b.Buffers[i].IDs, id)
	return chunk{Buffer: &ref, Index: at, Size: size}
}

// channel is the block's own number of a channel of the GPU.
func (b *block) channel(kind string, id int) int {
	i := slices.IndexFunc(b.Channels, func(x channelIDs) bool { return x.Type == kind })
	if i < 0 {
		i, b.Channels = len(b.Channels), append(b.Channels, channelIDs{Type: kind})
	}
	return place(&b.Channels[i].IDs, id)
}

// place returns the index of a number in a list. It appends the number if it is missing.
func place(list *[]int, id int) int {
	at := slices.Index(*list, id)
	if at < 0 {
		at, *list = len(*list), append(*list, id)
	}
	return at
}

func (b *block) add(list ...op) { b.Ops = append(b.Ops, list...) }
