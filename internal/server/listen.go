package server

import (
	"context"
	"errors"
	"io/fs"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/forsd/forsd/internal/rights"
)

// Listeners is where a Server listens.
type Listeners struct {
	Socket string      // path of the Unix socket; its directory must exist
	Mode   fs.FileMode // permissions of the socket: who may write to it may change things
	TCP    string      // host:port, or empty; without TLS, read-only
	TLS    string      // host:port, or empty; accepts Config.Access.Certificates
	Log    *log.Logger // connection errors; if nil, the standard logger
	// Note receives a setting and the error if its address cannot be listened on, which is
	// retried, and a nil error when that succeeds. It may be nil for a service without
	// addresses.
	Note func(setting string, err error)
}

// Server serves an API on its listeners.
type Server struct {
	socket  *rights.Listener
	tcp     net.Listener // nil without TCP
	servers map[*http.Server]net.Listener
	stop    context.CancelFunc
}

const (
	headersWithin  = 5 * time.Second        // a request's headers come within this
	shutdownWithin = 500 * time.Millisecond // how long answers under way may go on after the end
)

// Listen binds the listeners: the socket at once, addresses as soon as that can be done.
func Listen(c Config, l Listeners) (*Server, error) {
	if l.Note == nil {
		l.Note = func(string, error) {}
	}
	socket, err := rights.Listen(l.Socket, l.Mode)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{socket: socket, servers: map[*http.Server]net.Listener{}, stop: stop}
	tcp, unix := connections(descriptors())
	remote := make(chan struct{}, tcp) // with TLS and without
	add := func(via via, of net.Listener, most chan struct{}) *http.Server {
		h, bounded := httpServer(ctx, newService(c, via), l.Log), &boundedListener{of, most, nil}
		if c.Access != nil {
			bounded.limiter = c.Access.Limiter
		}
		s.servers[h] = bounded
		return h
	}
	add(bySocket, socket, make(chan struct{}, unix))
	if l.TCP != "" {
		s.tcp = listenTCP(l.TCP, func(err error) { l.Note("api.listen", err) })
		add(byTCP, s.tcp, remote)
	}
	if l.TLS != "" {
		tls := listenTCP(l.TLS, func(err error) { l.Note("api.tls.listen", err) })
		add(byTLS, tls, remote).TLSConfig = c.Access.Certificates.Server()
	}
	return s, nil
}

// httpServer returns a server whose clients cannot hold it up: headers, bodies and answers
// have deadlines, which long polls and streams lift for themselves.
func httpServer(ctx context.Context, h http.Handler, l *log.Logger) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true) // with HTTP/2 bodies would be kept before they are counted
	return &http.Server{
		Handler:           h,
		Protocols:         protocols,
		ReadHeaderTimeout: headersWithin,
		ReadTimeout:       writeWithin,
		WriteTimeout:      writeWithin,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 14,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withCaller,
		ErrorLog:          l,
	}
}

// Addr returns the address at which it listens for Listeners.TCP.
func (s *Server) Addr() net.Addr { return s.tcp.Addr() }

// Serve answers requests until ctx ends. Then it ends streams, long polls and
// changes under way by their contexts, lets answers be read for half a second, and
// removes the socket. It returns an error when it ended for another reason.
func (s *Server) Serve(ctx context.Context) error {
	ended := make(chan error, len(s.servers))
	for server, l := range s.servers {
		go func() {
			if server.TLSConfig != nil {
				ended <- server.ServeTLS(l, "", "")
				return
			}
			ended <- server.Serve(l)
		}()
	}
	var err error
	running := len(s.servers)
	select {
	case <-ctx.Done():
	case err = <-ended:
		running--
	}
	s.stop()
	grace, cancel := context.WithTimeout(context.Background(), shutdownWithin)
	defer cancel()
	var wg sync.WaitGroup
	for server := range s.servers {
		wg.Go(func() {
			if server.Shutdown(grace) != nil {
				_ = server.Close() // the connections left have had their time
			}
		})
	}
	wg.Wait()
	for range running { // its listener is closed now, even if it had not begun to serve
		if late := <-ended; !errors.Is(late, http.ErrServerClosed) {
			err = errors.Join(err, late)
		}
	}
	return errors.Join(err, s.socket.Close())
}
