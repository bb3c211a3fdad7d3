package plugin

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// session is a connection with a plugin.
type session struct {
	server *Server
	conn   net.Conn
	peer   Peer
	sight  Sight         // the latest fabric; its generation is 0 before the first
	ended  chan struct{} // closed when no more is read
	gone   chan struct{} // closed after the last event

	writing sync.Mutex // also guards holds
	holds   sent

	answers sync.WaitGroup
	cancel  context.CancelCauseFunc // of the latest request, nil before the first
	latest  uint64                  // number of the latest request, guarded by writing
}

// These end the work for a request that the plugin no longer waits for.
var (
	errSuperseded = errors.New("OpenSM asks for tables anew")
	errConcluded  = errors.New("OpenSM has gone on")
)

// run passes on the plugin's messages until the connection ends.
func (e *session) run(ctx context.Context, state State) {
	ctx, cancel := context.WithCancel(ctx)
	tell := e.server.config.Event
	now := time.Now()
	tell(Connected{At: now, Peer: e.peer})
	tell(Mastership{At: now, State: state})
	r := bufio.NewReaderSize(e.conn, 1<<16)
	var err error
	for err == nil {
		var f frame
		if f, err = readFrame(r); err != nil {
			break
		}
		f.at = happened(f.at, time.Now())
		if err = e.handle(ctx, f); err != nil {
			err = fmt.Errorf("read message %#x of OpenSM's plugin: %w", uint8(f.kind), err)
		}
	}
	close(e.ended)
	_ = e.conn.Close()
	cancel()
	e.answers.Wait()
	tell(Disconnected{At: time.Now(), Err: err})
}

// stale is the age from which on a message is rather taken for one from before the clock was
// stepped.
const stale = time.Second

// happened returns when something happened by forsd's monotonic clock, so that it can be
// compared with times that forsd took itself even if the system clock was set. said is the
// time of the event by the system clock, and now is when forsd received it. If the clock
// was stepped in between, or stands still, it happened now.
func happened(said, now time.Time) time.Time {
	age := now.Round(0).Sub(said)
	if age < 0 || age > stale {
		age = 0
	}
	return now.Add(-age)
}

func appendWelcome(buf []byte) []byte {
	buf = binary.LittleEndian.AppendUint16(append(buf, magic...), version)
	return append(buf, 0, 0)
}

// handle acts on a message.
func (e *session) handle(ctx context.Context, f frame) error {
	if f.kind == kindRequest {
		return e.request(ctx, f)
	}
	if f.kind == kindFabric {
		sight, err := readFabric(f.body)
		if err == nil && sight.Generation <= e.sight.Generation {
			err = fmt.Errorf("generation %d comes after %d", sight.Generation, e.sight.Generation)
		}
		e.sight = sight
		return err
	}
	event, err := e.event(f)
	if o, ok := event.(Outcome); ok && err == nil && e.cancel != nil && o.Request == e.latest {
		e.cancel(errConcluded)
	}
	if err == nil {
		e.server.config.Event(event)
	}
	return err
}

// event reads a message that is an event.
func (e *session) event(f frame) (Event, error) {
	switch f.kind {
	case kindState:
		c := cursor{rest: f.body}
		m := Mastership{f.at, State(c.u8())}
		return m, errors.Join(c.end(), checkState(m.State))
	case kindSweep:
		c := cursor{rest: f.body}
		return SweepStart{f.at}, c.end()
	case kindDiscovered:
		sight, err := e.seen(f)
		return Discovered{f.at, sight}, err
	case kindTrap:
		return readTrap(f)
	case kindOutcome:
		return readOutcome(f)
	case kindRouted:
		return readRouted(f)
	case kindUp:
		sight, err := e.seen(f)
		return SubnetUp{f.at, sight}, err
	}
	return nil, errors.New("there is no such message")
}

// seen returns the fabric that a message names by its generation.
func (e *session) seen(f frame) (Sight, error) {
	c := cursor{rest: f.body}
	g := c.u64() // the message has nothing else
	if err := c.end(); err != nil {
		return Sight{}, err
	}
	return e.sight, e.named(g)
}

// named checks that a generation is that of the latest fabric.
func (e *session) named(generation uint64) error {
	if generation == 0 || generation != e.sight.Generation {
		return fmt.Errorf("it names generation %d, the latest fabric has %d", generation, e.sight.Generation)
	}
	return nil
}

// request has the tables made, concurrently with other messages of the plugin.
func (e *session) request(ctx context.Context, f frame) error {
	r, err := readRequest(f)
	if err != nil {
		return err
	}
	if err := e.named(r.generation); err != nil {
		return err
	}
	if e.cancel != nil {
		e.cancel(errSuperseded)
	}
	e.writing.Lock()
	e.latest = r.number
	if r.held == 0 {
		e.holds = sent{}
	}
	e.writing.Unlock()
	limited, stop := context.WithTimeout(ctx, r.left)
	limited, e.cancel = context.WithCancelCause(limited)
	q := Request{At: f.at, Number: r.number, MaxLID: r.maxLID, Sight: e.sight}
	e.answers.Go(func() {
		defer stop()
		e.answer(limited, q)
	})
	return nil
}

// answer makes the tables and sends them, or declines. Late tables are sent too, unless
// OpenSM has asked again: the next ones will be a change of them.
func (e *session) answer(ctx context.Context, q Request) {
	if q.Err != nil {
		e.decline(q.Number, q.Err)
		return
	}
	tables, err := e.server.config.Tables(ctx, q)
	if err != nil {
		e.decline(q.Number, err)
		return
	}
	e.writing.Lock()
	defer e.writing.Unlock()
	if e.latest != q.Number {
		return
	}
	buf, holds, err := encodeTables(q.Number, tables, e.holds)
	if err == nil {
		e.holds = holds
		_ = e.send(buf)
		return
	}
	_ = e.send(appendNone(q.Number, err))
}

// decline sends the reason for the lack of tables.
func (e *session) decline(number uint64, why error) {
	e.writing.Lock()
	defer e.writing.Unlock()
	if e.latest == number {
		_ = e.send(appendNone(number, why))
	}
}

func appendNone(number uint64, why error) []byte {
	buf := binary.LittleEndian.AppendUint64(newFrame(kindNone, time.Now()), number)
	return finish(appendText(buf, why.Error()))
}

// write sends a message.
func (e *session) write(buf []byte) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	return e.send(buf)
}

// send sends a message; the caller holds writing. After an error the connection
// is closed, and its reader ends.
func (e *session) send(buf []byte) error {
	err := e.conn.SetWriteDeadline(time.Now().Add(writeWithin))
	if err == nil {
		_, err = e.conn.Write(buf)
	}
	if err != nil {
		_ = e.conn.Close()
		return fmt.Errorf("write to OpenSM's plugin: %w", err)
	}
	return nil
}
