package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// lateEvery is how often an address that cannot be listened on is tried again.
const lateEvery = 2 * time.Second

// lateListener listens on an address as soon as possible: the machine may not have the
// address yet, or another program may use it. Neither should end forsd.
type lateListener struct {
	addr string
	note func(error) // told why it does not listen, and nil when it does

	closed context.Context // done when it is closed
	close  context.CancelFunc
	mu     sync.Mutex // guards bound
	bound  net.Listener
}

// listenTCP listens on an address, now or later.
func listenTCP(addr string, note func(error)) net.Listener {
	bound, err := net.Listen("tcp", addr)
	if err == nil {
		return bound
	}
	note(whyNot(err))
	closed, cancel := context.WithCancel(context.Background())
	return &lateListener{addr: addr, note: note, closed: closed, close: cancel}
}

// whyNot says what to do where an address cannot be listened on.
func whyNot(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another program listens there, which ss -ltnp names: end it, or set another port", err)
	}
	return err
}

// CanListen returns the reason why an address cannot be listened on now, or nil.
func CanListen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return whyNot(err)
	}
	return l.Close()
}

// Accept waits for the address, and then for a connection.
func (l *lateListener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		bound := l.bound
		l.mu.Unlock()
		if bound != nil {
			return bound.Accept()
		}
		if next, err := net.Listen("tcp", l.addr); err == nil && !l.adopt(next) {
			return nil, net.ErrClosed
		} else if err == nil {
			l.note(nil)
			continue
		}
		select {
		case <-time.After(lateEvery):
		case <-l.closed.Done():
			return nil, net.ErrClosed
		}
	}
}

// adopt listens by a listener, unless this one has been closed.
func (l *lateListener) adopt(next net.Listener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Err() != nil {
		_ = next.Close() // it has not been used
		return false
	}
	l.bound = next
	return true
}

// Close ends the wait, and the listener that came of it.
func (l *lateListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
	if l.bound != nil {
		return l.bound.Close()
	}
	return nil
}

// Addr returns the address, without a port before it is there.
func (l *lateListener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bound != nil {
		return l.bound.Addr()
	}
	return &net.TCPAddr{}
}
