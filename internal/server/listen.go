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

	"github.com/forsd/forsd/internal/access"
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
	socket *rights.Listener
	tcp    net.Listener // nil without TCP
	tls    net.Listener // nil without TLS
	unix   *http.Server
	remote *http.Server
	secure *http.Server
	stop   context.CancelFunc

	limiter *access.Limiter // nil without limits
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
	s := &Server{socket: socket, stop: stop, unix: httpServer(ctx, Handler(c, false), l.Log)}
	if c.Access != nil {
		s.limiter = c.Access.Limiter
	}
	if l.TCP != "" {
		s.tcp = listenTCP(l.TCP, func(err error) { l.Note("api.listen", err) })
		s.remote = httpServer(ctx, Handler(c, true), l.Log)
	}
	if l.TLS != "" {
		s.tls = listenTCP(l.TLS, func(err error) { l.Note("api.tls.listen", err) })
		s.secure = httpServer(ctx, newService(c, byTLS), l.Log)
		s.secure.TLSConfig = c.Access.TLS()
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

// Addr returns the TCP address that is listened on, nil without one.
func (s *Server) Addr() net.Addr {
	if s.tcp == nil {
		return nil
	}
	return s.tcp.Addr()
}

// Serve answers requests until ctx ends. Then it ends streams, long polls and
// changes under way by their contexts, lets answers be read for half a second, and
// removes the socket. It returns an error when it ended for another reason.
func (s *Server) Serve(ctx context.Context) error {
	tcp, unix := connections(descriptors())
	remote := make(chan struct{}, tcp) // with TLS and without
	servers := map[*http.Server]net.Listener{s.unix: &boundedListener{s.socket, make(chan struct{}, unix), s.limiter}}
	if s.tcp != nil {
		servers[s.remote] = &boundedListener{s.tcp, remote, s.limiter}
	}
	if s.tls != nil {
		servers[s.secure] = &boundedListener{s.tls, remote, s.limiter}
	}
	ended := make(chan error, len(servers))
	for server, l := range servers {
		go func() {
			if server.TLSConfig != nil {
				ended <- server.ServeTLS(l, "", "")
				return
			}
			ended <- server.Serve(l)
		}()
	}
	var err error
	running := len(servers)
	select {
	case <-ctx.Done():
	case err = <-ended:
		running--
	}
	s.stop()
	grace, cancel := context.WithTimeout(context.Background(), shutdownWithin)
	defer cancel()
	var wg sync.WaitGroup
	for server := range servers {
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
