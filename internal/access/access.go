// Package access implements the API's access control: roles and their assignment on the Unix
// socket and by certificate, tokens, rate limits, and the certificates of the TLS listener,
// which are reloaded when their files change.
package access

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/forsd/forsd/api"
)

// Rules assign roles: users by name or number, groups after @, certificates by their common
// name after cn: or an organizational unit after ou:.
type Rules struct {
	Administrators, Operators, Viewers []string
}

// Lists are compiled rules, with the groups looked up.
type Lists struct {
	users, groups map[string]api.Role // groups by number
	cns, ous      map[string]api.Role
}

// Check returns an error for an invalid entry of a rule.
func Check(entry string) error {
	for _, prefix := range []string{"@", "cn:", "ou:", ""} {
		if name, is := strings.CutPrefix(entry, prefix); is {
			if name == "" || strings.TrimSpace(name) != name {
				return fmt.Errorf("%q names nobody: want a user, @group, cn:NAME or ou:UNIT", entry)
			}
			return nil
		}
	}
	return nil
}

// Compile looks up the groups of rules. It returns unknown groups; they have no members.
func Compile(r Rules) (l *Lists, unknown []string) {
	l = &Lists{users: map[string]api.Role{}, groups: map[string]api.Role{}, cns: map[string]api.Role{}, ous: map[string]api.Role{}}
	for _, x := range []struct {
		role api.Role
		list []string
	}{{api.Viewer, r.Viewers}, {api.Operator, r.Operators}, {api.Administrator, r.Administrators}} {
		for _, entry := range x.list {
			kind, name := l.users, entry
			if cut, is := strings.CutPrefix(entry, "cn:"); is {
				kind, name = l.cns, cut
			} else if cut, is := strings.CutPrefix(entry, "ou:"); is {
				kind, name = l.ous, cut
			} else if cut, is := strings.CutPrefix(entry, "@"); is {
				kind, name = l.groups, cut
				if _, err := strconv.ParseUint(name, 10, 32); err != nil {
					g, err := user.LookupGroup(name)
					if err != nil {
						unknown = append(unknown, entry)
						l.groups[entry] = api.Nobody // an unknown group restricts the socket too
						continue
					}
					name = g.Gid
				}
			}
			kind[name] = max(kind[name], x.role)
		}
	}
	return l, unknown
}

// OfUser returns the role of a user on the Unix socket. Root and forsd's own user may do
// everything. If the rules name no users and no groups, so may every user who can write to the
// socket.
func (l *Lists) OfUser(uid uint32, name string, groups []uint32) api.Role {
	if uid == 0 || uid == uint32(os.Geteuid()) || len(l.users)+len(l.groups) == 0 {
		return api.Administrator
	}
	role := max(l.users[name], l.users[strconv.FormatUint(uint64(uid), 10)])
	for _, g := range groups {
		role = max(role, l.groups[strconv.FormatUint(uint64(g), 10)])
	}
	return role
}

// OfCertificate returns the role of a verified certificate.
func (l *Lists) OfCertificate(c *x509.Certificate) api.Role {
	role := l.cns[c.Subject.CommonName]
	for _, unit := range c.Subject.OrganizationalUnit {
		role = max(role, l.ous[unit])
	}
	return role
}

// Request is what is known of a request besides its content.
type Request struct {
	Caller *api.Caller // nil if not known
	Epoch  uint64      // in force when an order came; 0 if there was none
	Told   bool        // the order has been logged and published, and is not once more
}

type requestKey struct{}

// With returns a context that carries r.
func With(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestOf returns what a context carries, or an empty Request.
func RequestOf(ctx context.Context) *Request {
	if r, is := ctx.Value(requestKey{}).(*Request); is {
		return r
	}
	return &Request{}
}

// CallerOf returns who sent the request of a context, or nil.
func CallerOf(ctx context.Context) *api.Caller { return RequestOf(ctx).Caller }

// Limiter limits each client's request rate, its concurrent requests, how many of its refusals
// are reported, and each host's rate of new connections. A refusal does not count as a request,
// because all ranks of a host are one client, and a forbidden request of one user must not keep
// the others from their plan. Clients that have been idle for long are dropped, so its memory is
// bounded.
type Limiter struct {
	mu      sync.Mutex // guards the fields below
	clients map[string]*client
}

// client is the remaining allowance of a client.
type client struct {
	requests, refusals, connections *rate.Limiter
	underWay                        int
}

// The limits of a client. All ranks of a host are one client, and send requests at the same
// time.
const (
	requestsAtOnce     = 8192 // also the maximum number of connections
	requestsASecond    = 500
	refusalsAtOnce     = 50
	refusalsASecond    = 1
	connectionsAtOnce  = 1024
	connectionsASecond = 250
	longestTurn        = 5 * time.Second // that a connection waits
	mostUnderWay       = 4096
	mostClients        = 8192
)

// Connect returns how long a new connection of a host, or of a local user, waits for its turn. A
// connection costs more than most requests, and one host's must not slow the daemon down.
func (l *Limiter) Connect(host string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := l.client(host, now).connections.ReserveN(now, 1)
	wait := turn.DelayFrom(now)
	if wait > longestTurn {
		turn.CancelAt(now) // the next connections do not wait for all that have left
	}
	return min(wait, longestTurn)
}

// Begin reports whether a client may send a request now. The request ends with end.
func (l *Limiter) Begin(key string, now time.Time) (end func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.client(key, now)
	if c.underWay >= mostUnderWay || !c.requests.AllowN(now, 1) {
		return nil, false
	}
	c.underWay++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.underWay--
	}, true
}

// Refused counts a forbidden request of a client, and reports whether to report it.
func (l *Limiter) Refused(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client(key, now).refusals.AllowN(now, 1)
}

// client returns the state of a client's limit. If there are too many clients, it drops idle
// ones, beginning with those that have their full allowance.
func (l *Limiter) client(key string, now time.Time) *client {
	if l.clients == nil {
		l.clients = map[string]*client{}
	}
	c := l.clients[key]
	if c != nil {
		return c
	}
	if len(l.clients) >= mostClients {
		l.forget(now)
	}
	c = &client{
		requests:    rate.NewLimiter(requestsASecond, requestsAtOnce),
		refusals:    rate.NewLimiter(refusalsASecond, refusalsAtOnce),
		connections: rate.NewLimiter(connectionsASecond, connectionsAtOnce),
	}
	l.clients[key] = c
	return c
}

// forget makes room.
func (l *Limiter) forget(now time.Time) {
	for _, some := range []bool{false, true} {
		for key, c := range l.clients {
			rested := c.requests.TokensAt(now) >= requestsAtOnce && c.refusals.TokensAt(now) >= refusalsAtOnce &&
				c.connections.TokensAt(now) >= connectionsAtOnce
			if c.underWay == 0 && (rested || some) {
				delete(l.clients, key)
			}
			if some && len(l.clients) < mostClients*3/4 {
				return
			}
		}
		if len(l.clients) < mostClients*3/4 {
			return
		}
	}
}
