package umad

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/forsd/forsd/ib"
)

// wire sends and receives datagrams by a local port. One goroutine uses it.
type wire interface {
	// send hands a datagram to the port; dlid is where it goes.
	send(m *mad, dlid uint16) error
	// receive waits at most the given time for a datagram and returns false if none came.
	// If one is returned undelivered, lost is true, and m is the sent datagram up to its
	// transaction ID.
	receive(m *mad, wait time.Duration) (ok, lost bool, err error)
	close() error
}

// Limits on concurrent questions, and on their time.
type limits struct {
	window  int           // datagrams at once
	perNode int           // of them to one node
	timeout time.Duration // for an answer
	tries   int           // of one question on one way
}

// patience is how long the loop waits for an answer before it looks for new
// bursts and for ends of contexts.
const patience = 2 * time.Millisecond

// errClosed ends the bursts that are under way when their reader is closed.
var errClosed = errors.New("the port was closed")

// question is one SubnGet.
type question struct {
	node int // index into the burst's peers
	attr uint16
	mod  uint32

	tries    int
	tid      uint32
	deadline time.Time
	of       *burst
}

// peer is a node that a burst asks. It is asked who it is before anything else,
// and again whenever the way to it changes: a LID or a route that was learnt
// before may lead elsewhere now.
type peer struct {
	guid    ib.GUID  // who it must be; 0 means anybody
	ways    []way    // to be tried in order; the first is in use
	info    nodeInfo // once it has said who it is
	queue   []question
	held    []question // until it has said again who it is
	waiting int        // questions sent and not answered
	err     error
}

// burst is a set of questions to nodes that are asked in parallel. Its functions
// are called on the loop's goroutine, and ask (further) questions. An error of
// theirs is the node's end.
type burst struct {
	ctx    context.Context
	urgent bool // its questions go before those of others
	peers  []peer
	known  func(node int) error                     // the node has identified itself; nil if it is not asked
	answer func(q question, attribute []byte) error // it has answered a question

	next int // the peer whose turn it is
	err  error
	done chan struct{}
}

// ask puts a question into a node's queue.
func (b *burst) ask(node int, attr uint16, mod uint32) {
	b.peers[node].queue = append(b.peers[node].queue, question{node: node, attr: attr, mod: mod, of: b})
}

// loop carries out bursts on one wire. Everything below it belongs to the one
// goroutine that runs it.
type loop struct {
	wire   wire
	limits limits
	bursts chan *burst
	quit   chan struct{} // closed to end the loop
	ended  chan struct{} // closed when it has ended

	closing  sync.Once
	closeErr error

	under []*burst   // under way, urgent ones first
	sent  []question // and not answered
	tid   uint32
	buf   mad
}

func newLoop(w wire, l limits) *loop {
	x := &loop{wire: w, limits: l, bursts: make(chan *burst), quit: make(chan struct{}), ended: make(chan struct{})}
	go x.run()
	return x
}

// do carries a burst out. Its error is that of the context or of the wire; how
// each node fared stands in peers.
func (x *loop) do(b *burst) error {
	if b.ctx.Err() != nil { // otherwise it may still begin
		return context.Cause(b.ctx)
	}
	b.done = make(chan struct{})
	for node := range b.peers {
		if b.peers[node].err == nil && b.known != nil {
			b.ask(node, attrNodeInfo, 0)
		}
	}
	select {
	case x.bursts <- b:
	case <-x.ended:
		return errClosed
	case <-b.ctx.Done():
		return context.Cause(b.ctx)
	}
	<-b.done
	return b.err
}

func (x *loop) run() {
	defer close(x.ended)
	for x.admit() {
		err := x.fill()
		if err == nil && len(x.sent) > 0 {
			err = x.receiveOne()
		}
		x.expire(time.Now())
		x.finish(err)
	}
	x.finish(errClosed)
}

// admit takes new bursts, and waits for one if none is under way. It returns false at the
// loop's end.
func (x *loop) admit() bool {
	for len(x.under) == 0 {
		select {
		case <-x.quit:
			return false
		case b := <-x.bursts:
			x.insert(b)
		}
	}
	for {
		select {
		case <-x.quit:
			return false
		case b := <-x.bursts:
			x.insert(b)
		default:
			return true
		}
	}
}

// insert puts a burst among those under way.
func (x *loop) insert(b *burst) {
	if b.urgent {
		x.under = slices.Insert(x.under, 0, b)
	} else {
		x.under = append(x.under, b)
	}
}

// fill sends questions as long as there is room for them, node by node in turn.
func (x *loop) fill() error {
	for _, b := range x.under {
		for idle := 0; idle < len(b.peers) && len(x.sent) < x.limits.window; {
			p := &b.peers[b.next]
			b.next = (b.next + 1) % len(b.peers)
			if len(p.queue) == 0 || p.waiting >= x.limits.perNode {
				idle++
				continue
			}
			idle = 0
			q := p.queue[0]
			p.queue = p.queue[1:]
			if err := x.send(q); err != nil {
				return err
			}
		}
	}
	return nil
}

// send puts a question on the wire.
func (x *loop) send(q question) error {
	p := &q.of.peers[q.node]
	x.tid++
	q.tid, q.tries, q.deadline = x.tid, q.tries+1, time.Now().Add(x.limits.timeout)
	x.buf.get(p.ways[0], q.tid, q.attr, q.mod)
	dlid := uint16(permissive)
	if lid := p.ways[0].lid; lid != 0 {
		dlid = uint16(lid)
	}
	if err := x.wire.send(&x.buf, dlid); err != nil {
		return fmt.Errorf("send %s: %w", attributeName(p.ways[0].class(), q.attr), err)
	}
	p.waiting++
	x.sent = append(x.sent, q)
	return nil
}

// receiveOne receives one datagram, if one comes in time, and lets it answer its question.
// Datagrams that answer no question are late or meant for another program.
func (x *loop) receiveOne() error {
	wait := max(time.Millisecond, min(patience, time.Until(x.sent[0].deadline)))
	ok, lost, err := x.wire.receive(&x.buf, wait)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if !ok {
		return nil
	}
	i := slices.IndexFunc(x.sent, func(q question) bool { return q.tid == x.buf.tid() })
	if i < 0 || !lost && !x.answers(&x.sent[i]) {
		return nil
	}
	q := x.remove(i)
	switch status := x.buf.status(); {
	case lost || status == statusBusy:
		x.retry(q)
	case status != 0:
		x.fail(q, fmt.Errorf("it answers %s %d with status %#04x", attributeName(x.buf.class(), q.attr), q.mod, status))
	case q.attr == attrNodeInfo && q.of.known != nil:
		x.identify(q)
	default:
		if err := q.of.answer(q, x.buf.data()); err != nil {
			x.fail(q, err)
		}
	}
	return nil
}

// identify goes on with a node that has said who it is, if it is the right one.
func (x *loop) identify(q question) {
	p := &q.of.peers[q.node]
	first := p.info.guid == 0
	info, err := parseNodeInfo(x.buf.data())
	if err == nil && p.guid != 0 && info.guid != p.guid {
		err = fmt.Errorf("%s is %s now", p.ways[0], info.guid)
		if len(p.ways) > 1 {
			x.detour(q)
			return
		}
	}
	if err == nil {
		p.info = info
		p.queue, p.held = append(p.queue, p.held...), nil
		if first {
			err = q.of.known(q.node)
		}
	}
	if err != nil {
		x.fail(q, err)
	}
}

// answers reports whether the datagram received is of the kind that answers q.
func (x *loop) answers(q *question) bool {
	w := q.of.peers[q.node].ways[0]
	if x.buf.method() != methodGetResp || x.buf.class() != w.class() || x.buf.attribute() != q.attr {
		return false
	}
	if w.counters {
		return q.attr == attrClassPortInfo || uint32(x.buf.data()[1]) == q.mod
	}
	return x.buf.modifier() == q.mod
}

// remove takes a question off the list of those sent.
func (x *loop) remove(i int) question {
	q := x.sent[i]
	x.sent = slices.Delete(x.sent, i, i+1)
	q.of.peers[q.node].waiting--
	return q
}

// retry asks again, after the last try on the next way, and gives the node up
// after the last way.
func (x *loop) retry(q question) {
	p := &q.of.peers[q.node]
	switch {
	case q.tries < x.limits.tries:
		p.queue = slices.Insert(p.queue, 0, q)
	case len(p.ways) > 1:
		x.detour(q)
	default:
		x.fail(q, fmt.Errorf("it does not answer %s %d by %s, asked %d times", attributeName(p.ways[0].class(), q.attr), q.mod, p.ways[0], q.tries))
	}
}

// detour asks a node by the next way: first who it is, then q and all that was
// not answered before.
func (x *loop) detour(q question) {
	p := &q.of.peers[q.node]
	p.ways = p.ways[1:]
	p.held = slices.Concat(p.held, []question{q}, x.withdraw(q.of, q.node), p.queue)
	p.held = slices.DeleteFunc(p.held, func(q question) bool { return q.attr == attrNodeInfo })
	for i := range p.held {
		p.held[i].tries = 0
	}
	p.queue = nil
	q.of.ask(q.node, attrNodeInfo, 0)
}

// withdraw takes back what was sent to a node and not answered.
func (x *loop) withdraw(b *burst, node int) []question {
	var back []question
	for i := len(x.sent) - 1; i >= 0; i-- {
		if q := &x.sent[i]; q.of == b && q.node == node {
			back = append(back, x.remove(i))
		}
	}
	return back
}

// fail ends the questions to a node.
func (x *loop) fail(q question, err error) {
	p := &q.of.peers[q.node]
	x.withdraw(q.of, q.node)
	p.queue, p.held, p.err = nil, nil, err
}

// expire asks again what was not answered in time.
func (x *loop) expire(now time.Time) {
	for len(x.sent) > 0 && !now.Before(x.sent[0].deadline) {
		x.retry(x.remove(0))
	}
}

// finish ends the bursts that have no question left, whose context is over, or,
// after an error of the wire, all of them.
func (x *loop) finish(err error) {
	x.under = slices.DeleteFunc(x.under, func(b *burst) bool {
		switch {
		case err != nil:
			b.err = err
		case b.ctx.Err() != nil:
			b.err = context.Cause(b.ctx)
		case slices.ContainsFunc(b.peers, func(p peer) bool { return p.waiting > 0 || len(p.queue) > 0 }):
			return false
		}
		for i := range b.peers {
			x.withdraw(b, i)
		}
		close(b.done)
		return true
	})
}

// close ends the loop and closes the wire. More calls wait for the first.
func (x *loop) close() error {
	x.closing.Do(func() {
		close(x.quit)
		<-x.ended
		x.closeErr = x.wire.close()
	})
	return x.closeErr
}
