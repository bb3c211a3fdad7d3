// Package packets simulates the packets of an exchange on a whole fabric: links with
// credits, switches whose inputs have one queue or one for each output, adapters with
// several messages in flight, static tables or adaptive routing, ranks with jitter. It
// follows the tables of the fabric, and works for any topology.
//
// A link carries one packet at a time. A packet can be passed on when its beginning has
// arrived, if the output is free and the next input buffer has room for all of it, and it
// leaves its buffer when its end has been sent. An output serves the inputs that wait for it
// in turn; an adapter serves its messages in turn. Receivers accept packets at the speed of
// their link. Credits return without delay. There is one virtual lane.
//
// The queues of a switch decide most. With FIFO, an input port has one queue, and a packet
// that waits for its output keeps those behind it waiting (head-of-line blocking); how many
// packets it passes on at once is the speed-up of the switch. With VOQ, an input port has a
// queue for each output (virtual output queues), which share its buffer.
package packets

import (
	"fmt"
	"math/rand/v2"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/topology"
)

// Queues is the organisation of a switch's input buffers.
type Queues uint8

// The organisations of input buffers.
const (
	VOQ Queues = iota
	FIFO
)

func (q Queues) String() string { return [...]string{"voq", "fifo"}[q] }

// Config is the hardware of a simulation. Times are in picoseconds.
type Config struct {
	Queues Queues
	// Speedup is how many packets a queue passes on at once, to different outputs; 0 is 1. With
	// 1, an input drains no faster than its link, and a backlog stays.
	Speedup int
	Packet  int   // bytes of a full packet
	Buffer  int   // packets in an input buffer
	Latency int64 // from the beginning of a packet on a link to the moment the next switch can pass it on
	Byte    int64 // time of a byte on a link
	// Adaptive makes a switch choose, for each packet, the shortest queue among its ports on
	// a shortest path to the destination: among equal ones that of the tables, or one at
	// random.
	Adaptive bool
	// Delay is the age of the queue lengths by which an adaptive switch chooses.
	Delay int64
	// Slow divides the speed of the link that leaves by a port.
	Slow map[topology.PortRef]float64
	Seed uint64
}

// HDR is a fabric of 200 Gb/s links: packets of 4 KiB, 16 packets in a buffer, 0.2 µs for
// each hop.
var HDR = Config{Packet: 4096, Buffer: 16, Latency: 200_000, Byte: 40}

// Message is the data that one server sends to another.
type Message struct {
	Phase    int32 // sends of a server are in the order of phases
	Src, Dst ib.GUID
	DLID     ib.LID
	Bytes    int
}

// Of are the transfers of a schedule as messages of the same size.
func Of(rows []sim.Row, bytes int) []Message {
	messages := make([]Message, len(rows))
	for i, r := range rows {
		messages[i] = Message{r.Phase, r.Src, r.Dst, r.DLID, bytes}
	}
	return messages
}

// Result is the outcome of an exchange.
type Result struct {
	Time  int64 // picoseconds until the last message has arrived
	Ideal int64 // least time that the servers' own links allow
	// Share is Ideal / Time.
	Share float64
	// Took is the time of each message from when its sender posted it to its arrival.
	Took []int64
}

// queue is a FIFO of packets at an input of a switch, linked by next.
type queue struct {
	head, tail int32 // packets, -1 if the queue is empty
	input      int32 // link into the switch
	sending    int32 // packets of it that are being sent
	waits      bool  // for the output of its first packet
}

type packet struct {
	next    int32
	message int32
	bytes   int32
	hop     int8
	in, out int32 // links by which it came and goes
	end     int64 // time at which its end has arrived
}

// link is one direction of a cable.
type link struct {
	target  int32 // node, -1 without a cable
	host    int32 // host at its end, -1 for a switch
	rate    int64 // time of a byte
	free    int32 // room in the input buffer at its end, in packets
	serving int32 // packet that it carries, -1 while it is idle
	from    int32 // requester of that packet: a queue, or -1-message
	waiting ring  // requesters
	queued  int32 // packets at its switch that will leave by it
	shown   int32 // queued, as adaptive routing knows it
	seen    int64 // time of shown
}

// message is the state of a Message.
type message struct {
	*Message
	src, dst  int32   // hosts
	route     []int32 // links; with adaptive routing the first and the last one
	unsent    int     // bytes that have not begun to leave the adapter
	unarrived int     // bytes
	posted    int64
	took      int64
}

type simulation struct {
	Config
	net      *network
	links    []link
	queues   []queue
	packets  []packet
	unused   int32 // list of packets, -1 at its end
	messages []message
	events   heap
	now      int64
	last     int64 // arrival of the last message so far
	arrived  int   // messages
	rng      *rand.Rand
	pacer    pacer
}

// Run simulates an exchange of messages under a pacing. It returns an error if a message has
// no route, or if packets wait for each other for ever.
func Run(f *topology.Fabric, tables *lft.Tables, cfg Config, pacing Pacing, messages []Message) (Result, error) {
	s := &simulation{Config: cfg, unused: -1, rng: rand.New(rand.NewPCG(cfg.Seed, 2))}
	var err error
	if s.net, err = newNetwork(f, tables); err == nil {
		err = s.prepare(messages)
	}
	if err == nil {
		s.pacer, err = newPacer(s, pacing)
	}
	if err != nil {
		return Result{}, fmt.Errorf("simulate packets: %w", err)
	}
	s.pacer.start()
	for s.events.len() > 0 {
		e := s.events.pop()
		s.now = e.at
		switch e.kind {
		case sent:
			s.sent(e.what)
		case header:
			s.header(e.what)
		case delivered:
			s.delivered(e.what)
		case wake:
			s.pacer.wake(e.what)
		}
	}
	if s.arrived < len(s.messages) {
		return Result{}, fmt.Errorf("simulate packets: %d of %d messages have not arrived: packets wait for each other", len(s.messages)-s.arrived, len(s.messages))
	}
	r := Result{Time: s.last, Ideal: s.ideal(), Share: 1}
	for i := range s.messages {
		r.Took = append(r.Took, s.messages[i].took)
	}
	if r.Time > 0 {
		r.Share = float64(r.Ideal) / float64(r.Time)
	}
	return r, nil
}

func (s *simulation) prepare(messages []Message) error {
	s.links = make([]link, len(s.net.target))
	for i := range s.links {
		l := &s.links[i]
		*l = link{target: s.net.target[i], host: -1, rate: s.Byte, free: int32(s.Buffer), serving: -1}
		if l.target >= 0 {
			l.host = s.net.host[l.target]
		}
	}
	s.queues = make([]queue, len(s.links))
	if s.Queues == VOQ {
		s.queues = make([]queue, s.net.pairs)
	}
	for i := range s.queues {
		s.queues[i] = queue{head: -1, tail: -1}
	}
	s.messages = make([]message, len(messages))
	for i := range messages {
		s.messages[i] = message{Message: &messages[i], unsent: messages[i].Bytes, unarrived: messages[i].Bytes}
		if err := s.net.route(&s.messages[i], s.Adaptive); err != nil {
			return err
		}
	}
	for port, by := range s.Slow {
		s.links[s.net.first[port.Node]+int32(port.Port)].rate = int64(float64(s.Byte) * by)
	}
	return nil
}

// ideal is the longest time for which one link of a server is busy.
func (s *simulation) ideal() (most int64) {
	busy := make([]int64, len(s.links))
	for i := range s.messages {
		m := &s.messages[i]
		for _, l := range [2]int32{m.route[0], m.route[len(m.route)-1]} {
			busy[l] += int64(m.Bytes) * s.links[l].rate
			most = max(most, busy[l])
		}
	}
	return most
}

// post hands a message to its adapter.
func (s *simulation) post(i int32) {
	m := &s.messages[i]
	m.posted = s.now
	if m.Bytes == 0 {
		s.events.push(event{at: s.now + s.Latency, kind: delivered, what: i})
		return
	}
	s.links[m.route[0]].waiting.push(-1 - i)
	s.serve(m.route[0])
}

// serve starts the next packet on a link if the link is idle, a packet waits for it, and the
// next buffer has room.
func (s *simulation) serve(l int32) {
	out := &s.links[l]
	if out.serving >= 0 || out.waiting.n == 0 || out.free == 0 {
		return
	}
	from := out.waiting.pop()
	var p int32
	if from >= 0 {
		p = s.dequeue(from)
	} else {
		p = s.inject(-1 - from)
	}
	pk := &s.packets[p]
	end := max(s.now+int64(pk.bytes)*out.rate, pk.end)
	pk.in, pk.end = l, end+s.Latency
	out.serving, out.from = p, from
	if from >= 0 {
		s.request(from)
	}
	if out.host < 0 {
		out.free--
		s.events.push(event{at: s.now + s.Latency, kind: header, what: p})
	}
	s.events.push(event{at: end, kind: sent, what: l})
}

// inject makes the next packet of a message.
func (s *simulation) inject(i int32) int32 {
	p := s.unused
	if p < 0 {
		p = int32(len(s.packets))
		s.packets = append(s.packets, packet{})
	} else {
		s.unused = s.packets[p].next
	}
	m := &s.messages[i]
	n := min(m.unsent, s.Packet)
	m.unsent -= n
	s.packets[p] = packet{next: -1, message: i, bytes: int32(n), in: -1}
	return p
}

// dequeue takes the first packet out of a queue.
func (s *simulation) dequeue(q int32) int32 {
	from := &s.queues[q]
	p := from.head
	from.head = s.packets[p].next
	if from.head < 0 {
		from.tail = -1
	}
	from.sending++
	from.waits = false
	return p
}

// sent ends a packet's time on a link.
func (s *simulation) sent(l int32) {
	out := &s.links[l]
	p, from := out.serving, out.from
	out.serving = -1
	if from < 0 {
		if s.messages[-1-from].unsent > 0 {
			out.waiting.push(from)
		}
	} else {
		out.queued--
		q := &s.queues[from]
		q.sending--
		s.links[q.input].free++
		s.serve(q.input)
		s.request(from)
	}
	if out.host >= 0 {
		s.receive(p)
	}
	s.serve(l)
}

// request makes a queue wait for the output of its first packet, if it may pass on one more.
func (s *simulation) request(q int32) {
	if from := &s.queues[q]; from.head >= 0 && !from.waits && int(from.sending) < max(1, s.Speedup) {
		from.waits = true
		out := s.packets[from.head].out
		s.links[out].waiting.push(q)
		s.serve(out)
	}
}

// header is the arrival of a packet's beginning at a switch.
func (s *simulation) header(p int32) {
	pk := &s.packets[p]
	pk.hop++
	pk.out = s.choose(pk)
	s.links[pk.out].queued++
	q := pk.in
	if s.Queues == VOQ {
		q = s.net.queue(pk.in, pk.out)
	}
	pk.next = -1
	to := &s.queues[q]
	to.input = pk.in
	if to.tail >= 0 {
		s.packets[to.tail].next, to.tail = p, p
		return
	}
	to.head, to.tail = p, p
	s.request(q)
}

// choose is the link on which a packet leaves the switch that it has reached.
func (s *simulation) choose(pk *packet) int32 {
	m := &s.messages[pk.message]
	if !s.Adaptive {
		return m.route[pk.hop]
	}
	at := s.links[pk.in].target
	best, own, ties := int32(-1), s.net.next(at, m.DLID), 0
	for _, l := range s.net.ways(at, m.dst) {
		out := &s.links[l]
		if s.now-out.seen >= s.Delay {
			out.shown, out.seen = out.queued, s.now
		}
		switch {
		case best < 0 || out.shown < s.links[best].shown:
			best, ties = l, 1
		case out.shown > s.links[best].shown || best == own:
		case l == own:
			best = l
		default:
			if ties++; s.rng.IntN(ties) == 0 {
				best = l
			}
		}
	}
	return best
}

// receive is the arrival of a packet's end at an adapter.
func (s *simulation) receive(p int32) {
	pk := &s.packets[p]
	m := &s.messages[pk.message]
	if m.unarrived -= int(pk.bytes); m.unarrived == 0 {
		s.events.push(event{at: pk.end, kind: delivered, what: pk.message})
	}
	pk.next, s.unused = s.unused, p
}

func (s *simulation) delivered(i int32) {
	s.arrived++
	s.last = s.now
	s.messages[i].took = s.now - s.messages[i].posted
	s.pacer.delivered(i)
}
