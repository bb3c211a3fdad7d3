package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Listeners is where a Server listens.
type Listeners struct {
	Socket string      // path of the Unix socket; its directory must exist
	Mode   fs.FileMode // permissions of the socket: who may write to it may change things
	TCP    string      // host:port, empty for none
	Log    *log.Logger // what goes wrong with connections; nil for the standard logger
}

// Server serves an API on its listeners.
type Server struct {
	socket *unixListener
	tcp    net.Listener // nil without TCP
	unix   *http.Server
	remote *http.Server
	stop   context.CancelFunc
}

// shutdownWithin is how long answers under way may go on after the end.
const shutdownWithin = 2 * time.Second

// Listen binds the listeners. A socket file that nobody listens on any more is
// replaced; one that answers is an error, since another forsd is running then.
func Listen(c Config, l Listeners) (*Server, error) {
	socket, err := listenUnix(l.Socket, l.Mode)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{socket: socket, stop: stop, unix: httpServer(ctx, Handler(c, false), l.Log)}
	if l.TCP != "" {
		if s.tcp, err = net.Listen("tcp", l.TCP); err != nil {
			stop()
			return nil, errors.Join(fmt.Errorf("listen for HTTP: %w", err), socket.Close())
		}
		s.remote = httpServer(ctx, Handler(c, true), l.Log)
	}
	return s, nil
}

// httpServer is a server whose clients cannot hold it up: headers, bodies and
// answers have deadlines, which long polls and streams lift for themselves.
func httpServer(ctx context.Context, h http.Handler, l *log.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       writeWithin,
		WriteTimeout:      writeWithin,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 14,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          l,
	}
}

// Addr is the TCP address that is listened on, nil without one.
func (s *Server) Addr() net.Addr {
	if s.tcp == nil {
		return nil
	}
	return s.tcp.Addr()
}

// Serve answers requests until ctx ends. Then it ends streams, long polls and
// changes under way by their contexts, lets answers be read for two seconds, and
// removes the socket. It returns an error when it ended for another reason.
func (s *Server) Serve(ctx context.Context) error {
	tcp, unix := connections(descriptors())
	servers := map[*http.Server]net.Listener{s.unix: &boundedListener{s.socket, make(chan struct{}, unix)}}
	if s.tcp != nil {
		servers[s.remote] = &boundedListener{s.tcp, make(chan struct{}, tcp)}
	}
	ended := make(chan error, len(servers))
	for server, l := range servers {
		go func() { ended <- server.Serve(l) }()
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
				_ = server.Close() // whoever is left has had its time
			}
		})
	}
	wg.Wait()
	for range running {
		<-ended // its listener is closed now, even if it had not begun to serve
	}
	return errors.Join(err, s.socket.err)
}

// unixListener removes its socket file when closed, unless another has taken the
// path meanwhile.
type unixListener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
	once sync.Once
	err  error
}

// Close stops listening and removes the socket file.
func (l *unixListener) Close() error {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
			l.err = os.Remove(l.path)
		}
		l.err = errors.Join(l.err, l.UnixListener.Close())
	})
	return l.err
}

// listenUnix binds a Unix socket with the given permissions. Two that start at
// once are kept apart by a lock on the directory.
func listenUnix(path string, mode fs.FileMode) (*unixListener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w: create its directory first", path, err)
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir.Name(), err)
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// The socket has its permissions before it has a name, so that nobody slips
	// in; chmod afterwards gives it those that the umask took away.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
		return errors.Join(err, failed)
	}}
	bound, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l := &unixListener{UnixListener: bound.(*net.UnixListener), path: path}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(path, mode.Perm()); err == nil {
		l.file, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.UnixListener.Close(), os.Remove(path))
	}
	return l, nil
}

// removeStale removes a socket file that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is a file that is no socket: remove it or choose another path")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(errors.New("another process listens there: is forsd running already?"), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether somebody listens there: %w", err)
	}
	return os.Remove(path)
}
