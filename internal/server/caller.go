package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
)

// withCaller notes who has made a connection.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	b, bounded := c.(*boundedConn)
	if !bounded || b.peer == nil {
		return ctx
	}
	p := b.peer
	who := &api.Caller{Way: api.WaySocket, User: users.name(p.Uid, time.Now()), UID: &p.Uid, PID: p.Pid, Groups: append(p.groups, p.Gid)}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid)); err == nil {
		who.Process = strings.TrimSpace(string(comm))
	}
	return access.With(ctx, &access.Request{Caller: who})
}

// peer is the process at the other end of a socket, and its groups but for its first.
type peer struct {
	*syscall.Ucred
	groups []uint32
}

// peerOf returns the process at the other end of a Unix socket, nil for other connections.
func peerOf(c net.Conn) *peer {
	unix, is := c.(*net.UnixConn)
	if !is {
		return nil
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return nil
	}
	var p peer
	if cerr := raw.Control(func(fd uintptr) {
		if p.Ucred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			p.groups, err = peerGroups(fd)
		}
	}); cerr != nil || err != nil {
		return nil
	}
	return &p
}

// users holds names of users.
var users userNames

// userNames are the names of users for a minute: to read them for each connection takes longer
// than most answers.
type userNames struct {
	mu    sync.Mutex // guards the fields below
	names map[uint32]string
	until time.Time
}

// name returns a user's name, "" if there is none.
func (n *userNames) name(uid uint32, now time.Time) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.After(n.until) {
		n.names, n.until = map[uint32]string{}, now.Add(time.Minute)
	}
	name, known := n.names[uid]
	if !known {
		if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
			name = u.Username
		}
		n.names[uid] = name
	}
	return name
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
