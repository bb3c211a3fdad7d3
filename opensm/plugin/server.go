package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/forsd/forsd/internal/rights"
	"github.com/forsd/forsd/lft"
)

// Config is where a Server listens, whom it serves, and its callbacks.
type Config struct {
	Path string      // of the socket; its directory must exist
	Mode fs.FileMode // of the socket; 0 means 0600
	// Tables answers a request. Its context ends at the deadline, when the plugin stops
	// waiting, at the next request and with the connection; an error declines. The tables
	// must not be changed afterwards: the next ones are sent as changes of them. It runs
	// concurrently with Event, which has returned for all earlier messages.
	Tables func(context.Context, Request) (*lft.Tables, error)
	// Event is told of everything, in order, and must return soon: what the
	// plugin sends next waits for it.
	Event func(Event)
	// Complain receives the errors of rejected connections; may be nil.
	Complain func(error)
}

const (
	helloWithin = time.Second // from connecting to hello
	writeWithin = time.Second // for a message to be taken
)

// ErrNotConnected means that no plugin is connected.
var ErrNotConnected = errors.New("no OpenSM plugin is connected")

// Server serves the plugin in one OpenSM at a time.
type Server struct {
	config   Config
	listener *rights.Listener

	mu      sync.Mutex
	session *session // nil while no plugin is connected
}

// Listen binds the socket.
func Listen(c Config) (*Server, error) {
	if c.Mode == 0 {
		c.Mode = 0o600
	}
	if c.Complain == nil {
		c.Complain = func(error) {}
	}
	l, err := rights.Listen(c.Path, c.Mode)
	if err != nil {
		return nil, fmt.Errorf("for OpenSM's plugin: %w", err)
	}
	return &Server{config: c, listener: l}, nil
}

// Serve serves plugins until ctx ends; then it closes the socket, removes it, and
// returns nil once the last Event and Tables have returned.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := s.listener.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) {
				s.config.Complain(fmt.Errorf("accept OpenSM's plugin: %w", err))
				select {
				case <-ctx.Done():
				case <-time.After(writeWithin):
				}
				continue
			}
			cancel()
			return fmt.Errorf("accept OpenSM's plugin: %w", err)
		}
		wg.Go(func() {
			if err := s.serve(ctx, conn); err != nil {
				s.config.Complain(fmt.Errorf("turn away OpenSM's plugin: %w", err))
			}
		})
	}
}

// serve greets a plugin and serves it to its end. The error says why it was
// turned away.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	uid, err := s.userOf(conn)
	if err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(helloWithin)); err != nil {
		return err
	}
	hello, err := readFrame(conn)
	if err != nil {
		return fmt.Errorf("read hello: %w", err)
	}
	peer, state, err := readHello(hello)
	if err != nil {
		return err
	}
	peer.UID = uid
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	e := &session{server: s, conn: conn, peer: peer, ended: make(chan struct{}), gone: make(chan struct{})}
	if err := s.admit(e); err != nil {
		return err
	}
	defer s.dismiss()
	e.run(ctx, state)
	return nil
}

// admit welcomes the plugin and makes e the session in force, if there is none.
// One that has ended is given the time to say so.
func (s *Server) admit(e *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.session != nil {
		old := s.session
		select {
		case <-old.ended:
		default:
			return fmt.Errorf("process %d (%s): that of process %d is connected", e.peer.PID, e.peer.Version, old.peer.PID)
		}
		s.mu.Unlock()
		<-old.gone
		s.mu.Lock()
	}
	if err := e.write(finish(appendWelcome(newFrame(kindWelcome, time.Now())))); err != nil {
		return err
	}
	s.session = e
	return nil
}

// dismiss ends the session in force.
func (s *Server) dismiss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.session.gone)
	s.session = nil
}

// userOf returns the user of the process at the other end, if it is served.
func (s *Server) userOf(conn *net.UnixConn) (uint32, error) {
	cred, err := rights.PeerOf(conn)
	if err != nil {
		return 0, fmt.Errorf("look who is there: %w", err)
	}
	if cred.Uid != 0 && cred.Uid != uint32(os.Geteuid()) {
		return 0, fmt.Errorf("process %d is of user %d: only OpenSM's user may connect", cred.Pid, cred.Uid)
	}
	return cred.Uid, nil
}

// Resweep makes the connected OpenSM sweep. A manager that is not the master does nothing.
// The error wraps ErrNotConnected if none is connected.
func (s *Server) Resweep(how Resweep) error {
	s.mu.Lock()
	e := s.session
	s.mu.Unlock()
	if e == nil {
		return fmt.Errorf("have OpenSM sweep: %w", ErrNotConnected)
	}
	if err := e.write(finish(append(newFrame(kindResweep, time.Now()), byte(how)))); err != nil {
		return fmt.Errorf("have OpenSM sweep: %w", err)
	}
	return nil
}
