package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

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
