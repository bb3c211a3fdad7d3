package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/rights"
)

// What all requests together may hold in memory. Both are of the process, as its
// memory is: there is one service in it, on two listeners.
var (
	bodies  = budget{free: 32 << 20, kept: 8 << 20}  // requests' bodies, but for those of smallBody bytes
	answers = budget{free: 64 << 20, kept: 16 << 20} // answers made for one client
)

// making has places for answers that are made for others than operators, and writing for parts
// of long answers that are copied into the kernel.
var making, writing = newPlaces(), newPlaces()

// places let few do something at a time, and each place is used for a quarter of the time at most:
// the process has processors for its own work.
type places struct {
	taken chan struct{}
	used  atomic.Int64 // nanoseconds, since a place rested
}

func newPlaces() *places { return &places{taken: make(chan struct{}, max(1, runtime.NumCPU()-1))} }

// rests is how long places are used before one rests for three times as long: a timer is much
// later than after the microseconds that a part of an answer takes.
const rests = time.Millisecond

// use does something as soon as there is a place, and reports whether there was one before
// ends.
func (p *places) use(ends <-chan struct{}, f func()) bool {
	select {
	case p.taken <- struct{}{}:
	case <-ends:
		return false
	}
	began := time.Now()
	defer func() {
		used := p.used.Add(int64(time.Since(began)))
		if used < int64(rests) {
			<-p.taken
			return
		}
		p.used.Add(-used)
		time.AfterFunc(3*time.Duration(used), func() { <-p.taken })
	}()
	f()
	return true
}

// smallBody is what a body may have that is taken in any case: an operator's request
// comes through while others fill the memory for bodies.
const smallBody = 16 << 10

// budget is a number of bytes that requests share. A part is kept for operators: those of
// others do not use that up. While requests hold no more than that, one of an operator may take
// more than there is: the other forsd reads tables of any size.
type budget struct {
	mu               sync.Mutex
	free, kept, held int64
}

// allows reports whether a request may take so many bytes. The lock is held.
func (b *budget) allows(ctx context.Context, n int64) bool {
	switch c := access.CallerOf(ctx); {
	case c == nil:
		return n <= b.free
	case c.Role < api.Operator && !c.Peer:
		return n+b.kept <= b.free
	}
	return n <= b.free || b.held <= b.kept
}

// reserve takes n bytes until ctx ends, which for a request's context is when it has been
// answered, and reports whether they were available.
func (b *budget) reserve(ctx context.Context, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.allows(ctx, n) {
		return false
	}
	take := func(n int64) { b.free, b.held = b.free-n, b.held+n }
	take(n)
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		take(-n)
		b.mu.Unlock()
	})
	return true
}

// has reports whether a request may take so many bytes.
func (b *budget) has(ctx context.Context, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.allows(ctx, n)
}

// ReadBody reads the body of a request of at most limit bytes. Its bytes are counted before
// they are read, until the request has been answered: if all requests together have too
// many, it is rejected. Bytes not yet received are not counted, because a slow client would
// keep the memory from others. Its errors are those of the API.
func ReadBody(r *http.Request, limit int64) ([]byte, error) {
	n := r.ContentLength
	tooLong := api.Errorf(api.CodeTooLarge, "the request is longer than %d bytes", limit)
	busy := api.Busy("other requests fill the memory for requests: ask again later")
	switch {
	case n > limit:
		return nil, tooLong
	case n > smallBody && !bodies.has(r.Context(), n):
		return nil, busy
	case n < 0:
		n = limit // it does not say how long it is
	}
	body := make([]byte, 0, min(n, smallBody))
	counted := int64(0)
	for {
		have, err := io.ReadFull(r.Body, body[len(body):cap(body)])
		body = body[:len(body)+have]
		if (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && r.ContentLength < 0 {
			return body, nil
		} else if err != nil {
			return nil, api.BadRequest("read request: %v", err)
		}
		if int64(len(body)) == n {
			break
		}
		next := min(n, 4*int64(cap(body)))
		if !bodies.reserve(r.Context(), next-counted) {
			return nil, busy
		}
		counted = next
		body = append(make([]byte, 0, next), body...)
	}
	if more, _ := r.Body.Read(make([]byte, 1)); more > 0 {
		return nil, tooLong
	}
	return body, nil
}

// Descriptors that connections leave for the process's own work, and how many
// connections there may be however many descriptors there are.
const (
	ownDescriptors = 128
	mostConns      = 8192
)

// connections returns how many a process with so many descriptors serves at a time over TCP
// and on the Unix socket: there is room on each when the other is full.
func connections(descriptors uint64) (tcp, unix int) {
	all := int(min(mostConns, max(descriptors, ownDescriptors+4)-ownDescriptors))
	return all - all/4, all / 4
}

// descriptors returns how many the process may have.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // what most systems give
	}
	return limit.Cur
}

// boundedListener refuses connections beyond its room with an answer. The limiter, which may be
// nil, gives the connections of each host their turns.
type boundedListener struct {
	net.Listener
	room    chan struct{}
	limiter *access.Limiter
}

// full is the answer on a connection too many.
const full = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" +
	`{"code":"` + api.CodeBusy + `","error":"too many connections are open: ask again later"}` + "\n"

// Accept gives the next connection that there is room for.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		runtime.Gosched() // those that have come are answered before there are more
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.room <- struct{}{}:
			gone, left := context.WithCancel(context.Background())
			who, _ := rights.PeerOf(c) // nil over TCP
			return &boundedConn{Conn: c, peer: who, wait: l.turn(c, who), leave: sync.OnceFunc(func() { <-l.room }), gone: gone.Done(), left: left}, nil
		default:
			_, _ = c.Write([]byte(full)) // a new socket takes that without waiting
			_ = c.Close()
		}
	}
}

// turn returns how long a new connection waits for its turn. Those of root and of the daemon's own
// user do not wait.
func (l *boundedListener) turn(c net.Conn, who *rights.Peer) time.Duration {
	switch {
	case l.limiter == nil || who != nil && (who.Uid == 0 || int(who.Uid) == os.Geteuid()):
		return 0
	case who != nil:
		return l.limiter.Connect(fmt.Sprint("uid ", who.Uid), time.Now())
	}
	return l.limiter.Connect(keyOf(c.RemoteAddr().String()), time.Now())
}

// boundedConn gives its place back when it is closed. Nothing waits to be written to a client
// that has left.
type boundedConn struct {
	net.Conn
	peer  *rights.Peer  // on the Unix socket
	wait  time.Duration // before anything is read
	leave func()
	gone  <-chan struct{}
	left  func() // closes gone
}

// Read reads when the connection has its turn, and notices that the client has left.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.wait > 0 {
		time.Sleep(c.wait)
		c.wait = 0
		_ = c.SetReadDeadline(time.Now().Add(headersWithin))
	}
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.left()
	}
	return n, err
}

// mostWritten is what one call writes. A call that copies megabytes is a thread in addition to those
// that the process works with, and hundreds of them would leave it no processor. Answers of up to
// shortAnswer bytes do not wait for others, and do not count as memory.
const (
	mostWritten = 64 << 10
	shortAnswer = 16 << 10
)

// Write writes a long answer part by part, few at a time.
func (c *boundedConn) Write(p []byte) (n int, err error) {
	raw, is := c.Conn.(syscall.Conn)
	for is && err == nil && len(p)-n > shortAnswer {
		var part int
		part, err = c.writePart(raw, p[n:min(n+mostWritten, len(p))])
		n += part
	}
	if err == nil && n < len(p) {
		var rest int
		rest, err = c.Conn.Write(p[n:])
		n += rest
	}
	return n, err
}

// writePart writes what the kernel takes without waiting, as soon as it takes something.
func (c *boundedConn) writePart(to syscall.Conn, p []byte) (n int, err error) {
	raw, err := to.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		if !writing.use(c.gone, func() { n, failed = syscall.Write(int(fd), p) }) {
			failed = net.ErrClosed
		}
		return !errors.Is(failed, syscall.EAGAIN) && !errors.Is(failed, syscall.EINTR)
	})
	return max(n, 0), errors.Join(err, failed)
}

// Close closes the connection.
func (c *boundedConn) Close() error {
	c.left()
	defer c.leave()
	return c.Conn.Close()
}
