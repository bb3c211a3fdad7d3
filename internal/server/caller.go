package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

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
	who := &api.Caller{Way: api.WaySocket, User: users.name(p.Uid, time.Now()), UID: &p.Uid, PID: p.Pid, Groups: append(p.Groups, p.Gid)}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid)); err == nil {
		who.Process = strings.TrimSpace(string(comm))
	}
	return access.With(ctx, &access.Request{Caller: who})
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
