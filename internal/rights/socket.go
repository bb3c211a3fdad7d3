package rights

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Listener listens on a socket. Closing it removes the file, unless another process has
// taken the path since.
type Listener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
	once sync.Once
	err  error
}

// Close stops listening and removes the socket file.
func (l *Listener) Close() error {
	l.once.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
			l.err = os.Remove(l.path)
		}
		l.err = errors.Join(l.err, l.UnixListener.Close())
	})
	return l.err
}

// Listen binds a Unix socket, which has the given permissions from the start; its directory must
// exist. A file without a listener, such as of a crash, is replaced; one that answers is an error,
// because another forsd is running then. A lock next to it serializes two that start at once.
func Listen(path string, mode fs.FileMode) (*Listener, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDONLY, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: open %s: %w: create its directory first", path, filepath.Dir(path), syscall.ENOENT)
	} else if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// The socket has its permissions before it has a name, so that it is never open to
	// others; chmod afterwards restores those that the umask removed.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), uint32(mode.Perm())) })
		return errors.Join(err, failed)
	}}
	bound, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l := &Listener{UnixListener: bound.(*net.UnixListener), path: path}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(path, mode.Perm()); err == nil {
		l.file, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.UnixListener.Close(), os.Remove(path))
	}
	return l, nil
}

// removeStale removes a socket file without a listener.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is a file that is not a socket: remove it or choose another path")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(errors.New("another process listens there: is this program running already?"), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether somebody listens there: %w", err)
	}
	return os.Remove(path)
}

// Peer is the process at the other end of a Unix socket, and its groups but for its first.
type Peer struct {
	*syscall.Ucred
	Groups []uint32
}

// PeerOf returns the process at the other end of a Unix socket, nil for other connections.
func PeerOf(c net.Conn) (*Peer, error) {
	unix, is := c.(*net.UnixConn)
	if !is {
		return nil, nil
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return nil, err
	}
	var p Peer
	cerr := raw.Control(func(fd uintptr) {
		if p.Ucred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			p.Groups, err = peerGroups(fd)
		}
	})
	if err = errors.Join(cerr, err); err != nil {
		return nil, err
	}
	return &p, nil
}

// peerGroups lists the groups of the process at the other end of a socket, except its
// first.
func peerGroups(fd uintptr) ([]uint32, error) {
	const soPeerGroups = 59
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups)) * 4
		_, _, e := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.SOL_SOCKET, soPeerGroups, uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case e == 0:
			return groups[:size/4], nil
		case errors.Is(e, syscall.ERANGE) && size > uint32(len(groups))*4:
			groups = make([]uint32, size/4)
		case errors.Is(e, syscall.ENOPROTOOPT):
			return nil, nil // a kernel older than 4.13
		default:
			return nil, e
		}
	}
}
