package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limiter bounds how often each client asks, how many of its requests are under way, and how
// many of its refusals are told of. A refusal does not count as asking, for all ranks of a host
// are one client: what one of its users may not do keeps none of them from their plan. Clients that have not asked for long are forgotten, so its memory is
// bounded.
type Limiter struct {
	mu      sync.Mutex // guards what follows
	clients map[string]*client
}

// client is what one client has left.
type client struct {
	requests, refusals *rate.Limiter
	underWay           int
}

// The limits of a client. All ranks of a host are one client, and ask at the same moment.
const (
	requestsAtOnce  = 8192 // and as many connections as there may be
	requestsASecond = 500
	refusalsAtOnce  = 50
	refusalsASecond = 1
	mostUnderWay    = 4096
	mostClients     = 8192
)

// Begin reports whether a client may ask now; its request ends with end.
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

// Refused counts that a client was refused something that it may not do, and reports whether
// that is to be told of.
func (l *Limiter) Refused(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client(key, now).refusals.AllowN(now, 1)
}

// client returns the state of a client's limit. If there are too many clients, idle ones
// are dropped, first those that have all of their requests left.
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
	c = &client{requests: rate.NewLimiter(requestsASecond, requestsAtOnce), refusals: rate.NewLimiter(refusalsASecond, refusalsAtOnce)}
	l.clients[key] = c
	return c
}

// forget makes room.
func (l *Limiter) forget(now time.Time) {
	for _, some := range []bool{false, true} {
		for key, c := range l.clients {
			rested := c.requests.TokensAt(now) >= requestsAtOnce && c.refusals.TokensAt(now) >= refusalsAtOnce
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
