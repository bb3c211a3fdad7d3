package adapter

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// The parts of a puppet's memory. Later requests may overtake the data of a read or an
// atomic operation: so each kind of operation has a part of its own.
const (
	receives = iota * partSize // received messages
	sends                      // data of messages and writes
	targets                    // written and read by the peer
	landing                    // results of reads and atomic operations
	partSize = memory / 4
)

// depth is how many requests may be in a queue of the model's pairs.
const depth = 16

// side is one end of a connection in the model.
type side struct {
	*puppet
	pair
	memory  []byte
	posted  []buffer     // receive requests
	expects []completion // since the last look
	failed  bool
}

type buffer struct{ id, at, size uint64 }

// model is a connection and its expected state.
type model struct {
	*rapid.T
	sides [2]*side
	id    uint64
	spoil []buffer // parts of the memory whose content is undefined, by side in id
}

func (m *model) draw(most int, what string) uint64 {
	return uint64(rapid.IntRange(0, most).Draw(m.T, what))
}

// expect records a completion that must come.
func (s *side) expect(id uint64, status, opcode, bytes int) {
	if status != success {
		opcode, bytes = 0, 0
	}
	s.expects = append(s.expects, completion{id, status, opcode, bytes, s.qpn})
}

// Opcodes of completions, by their numbers in verbs.h.
const (
	wcSend    = 0
	wcWrite   = 1
	wcRead    = 2
	wcSwap    = 3
	wcAdd     = 4
	wcReceive = 128
)

// receive posts a receive request, or one too many.
func (m *model) receive(s *side) {
	b := buffer{m.id, receives + m.draw(partSize-3000, "at"), 3000}
	m.id++
	said := s.tell("receive %d %d %d %d", s.i, b.id, b.at, b.size)
	want := "ok"
	if len(s.posted) == depth {
		want = "error 12"
	} else {
		s.posted = append(s.posted, b)
	}
	if said != want {
		m.Fatalf("receive %+v after %d others: %s, want %s", b, len(s.posted), said, want)
	}
}

// take takes a side's oldest receive request.
func (s *side) take() buffer {
	b := s.posted[0]
	s.posted = s.posted[1:]
	return b
}

// operate posts an operation on one side and carries it out in the model. The last one of
// a batch is signalled.
func (m *model) operate(s, peer *side, last bool) {
	id := m.id
	m.id++
	from, size := sends+m.draw(partSize-3000, "from"), m.draw(3000, "size")
	remote, local := targets+m.draw(partSize-3000, "remote"), landing+m.draw(partSize-3000, "local")
	kind := rapid.SampledFrom([]string{"send", "send", "write", "read", "add", "swap"}).Draw(m.T, "kind")
	if kind == "send" && len(peer.posted) == 0 {
		kind = "write"
	}
	switch kind {
	case "send":
		how := rapid.SampledFrom([]string{"loud", "plain", "inline"}).Draw(m.T, "how")
		if last {
			how = "loud"
		}
		if how == "inline" {
			size = min(size, 64)
		}
		s.does("send %d %d %d %d %s 0", s.i, id, from, size, how)
		if s.failed {
			s.expect(id, flushed, 0, 0)
			return
		}
		b := peer.take()
		copy(peer.memory[b.at:], s.memory[from:from+size])
		peer.expect(b.id, success, wcReceive, int(size))
		if how == "loud" {
			s.expect(id, success, wcSend, 0)
		}
	case "write":
		s.does("write %d %d %d %d %d %d 0", s.i, id, from, size, peer.address+remote, peer.key)
		if !s.failed {
			copy(peer.memory[remote:], s.memory[from:from+size])
		}
		s.done(id, wcWrite)
	case "read":
		remote = remote - targets + landing // the results of the peer's own reads
		s.does("read %d %d %d %d %d %d 0", s.i, id, local, size, peer.address+remote, peer.key)
		if !s.failed {
			copy(s.memory[local:], peer.memory[remote:remote+size])
		}
		s.done(id, wcRead)
	case "add", "swap":
		m.atomic(s, peer, id, kind, remote&^7, local&^7)
	}
}

// done records the completion of an operation that is always signalled.
func (s *side) done(id uint64, opcode int) {
	if s.failed {
		s.expect(id, flushed, 0, 0)
	} else {
		s.expect(id, success, opcode, 0)
	}
}

func (m *model) atomic(s, peer *side, id uint64, kind string, remote, local uint64) {
	was := binary.LittleEndian.Uint64(peer.memory[remote:])
	value, with := rapid.Uint64().Draw(m.T, "value"), rapid.Uint64().Draw(m.T, "with")
	opcode, is := wcAdd, was+value
	if kind == "swap" {
		opcode, is = wcSwap, was
		if rapid.Bool().Draw(m.T, "equal") {
			value = was
		}
		if value == was {
			is = with
		}
	}
	s.does("%s %d %d %d %d %d %d %d", kind, s.i, id, local, peer.address+remote, peer.key, value, with)
	if !s.failed {
		binary.LittleEndian.PutUint64(peer.memory[remote:], is)
		binary.LittleEndian.PutUint64(s.memory[local:], was)
	}
	s.done(id, opcode)
}

// mistake posts an operation that must fail, and end the connection.
func (m *model) mistake(s, peer *side) {
	id := m.id
	m.id++
	kinds := []string{"key", "range", "local"}
	if len(peer.posted) > 0 {
		kinds = append(kinds, "long")
	}
	ends := true // the peer's side, too
	switch kind := rapid.SampledFrom(kinds).Draw(m.T, "mistake"); kind {
	case "key":
		s.does("write %d %d %d 8 %d %d 0", s.i, id, sends, peer.address+targets, peer.key^1)
		s.expect(id, remAccessErr, 0, 0)
	case "range":
		s.does("read %d %d %d 8 %d %d 0", s.i, id, landing, peer.address+memory-7, peer.key)
		s.expect(id, remAccessErr, 0, 0)
	case "local":
		s.does("send %d %d %d 9 loud 0", s.i, id, memory-8)
		s.expect(id, locProtErr, 0, 0)
		ends = false
	case "long":
		s.does("send %d %d %d 3001 loud 0", s.i, id, sends)
		s.expect(id, remInvReqErr, 0, 0)
		b := peer.take()
		peer.expect(b.id, locLenErr, 0, 0)
		for k := range m.sides {
			if m.sides[k] == peer {
				m.spoil = append(m.spoil, buffer{uint64(k), b.at, b.size})
			}
		}
	}
	for _, x := range []*side{s, peer} {
		if x == peer && !ends {
			continue
		}
		x.failed = true
		for len(x.posted) > 0 {
			x.expect(x.take().id, flushed, 0, 0)
		}
	}
}

// look compares the completions, and the memory, with the model.
func (m *model) look() {
	for k, s := range m.sides {
		got := s.poll(len(s.expects), withinRetryTime)
		if s.failed { // receives and sends are flushed in any order
			order := func(a, b completion) int { return int(a.id) - int(b.id) }
			slices.SortFunc(got, order)
			slices.SortFunc(s.expects, order)
		}
		if !slices.Equal(got, s.expects) {
			m.Fatalf("side %d completes\n%+v, want\n%+v", k, got, s.expects)
		}
		s.expects = nil
	}
	for k, s := range m.sides {
		is, err := hex.DecodeString(s.tell("peek 0 %d", memory))
		if err != nil {
			m.Fatal(err)
		}
		for _, b := range m.spoil {
			if b.id == uint64(k) {
				copy(s.memory[b.at:b.at+b.size], is[b.at:])
			}
		}
		for at := 0; !bytes.Equal(is, s.memory); at++ {
			if is[at] != s.memory[at] {
				m.Fatalf("side %d has %#x at %d, want %#x", k, is[at], at, s.memory[at])
			}
		}
	}
}

// TestModel drives connections through random sequences of operations, with cables that are
// pulled for a moment and mistakes at their ends, and compares completions and memory with a
// model that carries the operations out one after the other.
func TestModel(t *testing.T) {
	w := up(t, small, 500_000_000)
	sides := [2]*side{}
	for k, host := range []string{"Hca0000", "Hca0003"} {
		sides[k] = &side{puppet: w.puppet(host), memory: make([]byte, memory)}
		for at := 0; at < memory; at += 1024 {
			text := bytes.Repeat([]byte(fmt.Sprintf("%d.%05d,", k, at)), 128)
			s := hex.EncodeToString(text[:1024])
			sides[k].does("poke %d %s", at, s)
			copy(sides[k].memory[at:], text[:1024])
		}
	}
	pulled := w.fabric.Clone()
	for p := range pulled.Nodes[pulled.Find(fabgen.LeafGUID)].Ports {
		pulled.Nodes[pulled.Find(fabgen.LeafGUID)].Ports[p].State = topology.Down
	}
	sequences, operations := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		m := &model{T: r, sides: sides}
		for _, s := range sides {
			s.pair, s.posted, s.expects, s.failed = s.puppet.pair(depth, "own"), nil, nil, false
		}
		join(sides[0].puppet, sides[1].puppet, sides[0].pair, sides[1].pair, uint32(m.draw(1, "lane")), patience{14, 7, 7})
		for range 1 + m.draw(3, "batches") {
			k := m.draw(1, "side")
			s, peer := sides[k], sides[1-k]
			for range m.draw(6, "receives") {
				m.receive(peer)
			}
			n := 1 + m.draw(7, "operations")
			wrong := m.draw(9, "mistake") == 0
			cut := m.draw(9, "cut") == 0
			if cut { // packets are lost until half of the operations are posted
				w.must(w.SetLinks(pulled))
				w.must(w.Sync(t.Context()))
			}
			for i := range n {
				if cut && i == n/2 {
					w.must(w.SetLinks(w.fabric))
				}
				m.operate(s, peer, i == n-1 && !wrong)
			}
			if wrong {
				m.mistake(s, peer)
				for range m.draw(3, "after it") {
					m.operate(s, peer, true)
				}
			}
			operations += int(n)
			m.look()
			if wrong {
				break
			}
		}
		for _, s := range sides {
			s.does("destroy %d", s.i)
		}
		sequences++
	})
	t.Logf("%d sequences, %d operations", sequences, operations)
	for _, s := range sides {
		s.end()
	}
}
