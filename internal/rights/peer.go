package rights

import (
	"errors"
	"net"
	"syscall"
	"unsafe"
)

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
