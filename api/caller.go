package api

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// Caller is who asked for something over the Unix socket, as the kernel knows it.
type Caller struct {
	UID     uint32 `json:"uid"`
	User    string `json:"user,omitempty"`
	PID     int32  `json:"pid"`
	Process string `json:"process,omitempty"`
}

// String names the caller: anna (uid 1000) by forsctl (process 4711).
func (c *Caller) String() string {
	if c == nil {
		return "unknown"
	}
	text := fmt.Sprintf("uid %d", c.UID)
	if c.User != "" {
		text = fmt.Sprintf("%s (uid %d)", c.User, c.UID)
	}
	if c.Process != "" {
		return fmt.Sprintf("%s by %s (process %d)", text, c.Process, c.PID)
	}
	return fmt.Sprintf("%s by process %d", text, c.PID)
}

// Name is what the caller is called in the history: the user's name, or "uid 1000" where
// it has none.
func (c *Caller) Name() string {
	switch {
	case c == nil:
		return "unknown"
	case c.User != "":
		return c.User
	}
	return fmt.Sprintf("uid %d", c.UID)
}

// callerKey is the key of the caller in a request's context.
type callerKey struct{}

// CallerOf is who sent the request of a context, nil where that is not known: over TCP.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// epochKey is the key of the epoch that was in force when a request came.
type epochKey struct{}

// EpochBefore is the epoch that was in force when the request of a context came, 0 for
// none.
func EpochBefore(ctx context.Context) uint64 {
	n, _ := ctx.Value(epochKey{}).(uint64)
	return n
}

// withEpoch notes the epoch in force.
func withEpoch(ctx context.Context, plans *Plans) context.Context {
	p := plans.Current()
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, epochKey{}, p.Epoch)
}

// withCaller notes who has made a connection.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	if b, bounded := c.(*boundedConn); bounded {
		c = b.Conn
	}
	unix, is := c.(*net.UnixConn)
	if !is {
		return ctx
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *syscall.Ucred
	if cerr := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); cerr != nil || err != nil {
		return ctx
	}
	who := &Caller{UID: cred.Uid, PID: cred.Pid}
	if u, err := user.LookupId(strconv.FormatUint(uint64(cred.Uid), 10)); err == nil {
		who.User = u.Username
	}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cred.Pid)); err == nil {
		who.Process = strings.TrimSpace(string(comm))
	}
	return context.WithValue(ctx, callerKey{}, who)
}
