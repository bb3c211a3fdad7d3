package api

import (
	"errors"
	"fmt"
	"log"
	"net"
	"sync"
	"syscall"
	"time"
)

// lateEvery is how often an address that is not there is tried again.
const lateEvery = 2 * time.Second

// lateListener listens on an address that this machine does not have yet, as soon as it has.
type lateListener struct {
	addr   string
	log    *log.Logger
	mu     sync.Mutex // guards what follows
	bound  net.Listener
	closed chan struct{}
}

// listenTCP listens on an address; where the machine does not have it yet, later.
func listenTCP(addr string, l *log.Logger) (net.Listener, error) {
	bound, err := net.Listen("tcp", addr)
	var name *net.DNSError
	if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.As(err, &name) && name.IsTemporary {
		if l == nil {
			l = log.Default()
		}
		l.Printf("%v: trying again every %s", err, lateEvery)
		return &lateListener{addr: addr, log: l, closed: make(chan struct{})}, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w: another program listens there, which ss -ltnp names: end it, or set api.listen to another port", err)
	}
	return bound, err
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
			l.log.Printf("listening on %s now", l.addr)
			continue
		}
		select {
		case <-time.After(lateEvery):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// adopt listens by a listener, unless this one has been closed.
func (l *lateListener) adopt(next net.Listener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		_ = next.Close() // nobody has used it
		return false
	default:
	}
	l.bound = next
	return true
}

// Close ends the wait, and the listener that came of it.
func (l *lateListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return net.ErrClosed
	default:
	}
	close(l.closed)
	if l.bound != nil {
		return l.bound.Close()
	}
	return nil
}

// Addr is the address, without a port before it is there.
func (l *lateListener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bound != nil {
		return l.bound.Addr()
	}
	return &net.TCPAddr{}
}
