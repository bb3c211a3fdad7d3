package access

import (
	"sync"
	"time"
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
	requests, refusals bucket
	underWay           int
}

// The limits of a client. All ranks of a host are one client, and ask at the same moment.
const (
	requestsAtOnce   = 8192 // and as many connections as there may be
	requestsASecond  = 500
	refusalsAtOnce   = 50
	refusalsASecond  = 1
	mostUnderWay     = 4096
	mostClients      = 8192
	refusedForgotten = time.Minute
)

// bucket has so many left, and fills with time.
type bucket struct {
	spent float64
	at    time.Time
}

// take takes one, and reports whether there was one.
func (b *bucket) take(now time.Time, most, aSecond float64) bool {
	if !b.at.IsZero() {
		b.spent = max(0, b.spent-now.Sub(b.at).Seconds()*aSecond)
	}
	b.at = now
	if b.spent+1 > most {
		return false
	}
	b.spent++
	return true
}

// Begin reports whether a client may ask now; its request ends with end.
func (l *Limiter) Begin(key string, now time.Time) (end func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.client(key, now)
	if c.underWay >= mostUnderWay || !c.requests.take(now, requestsAtOnce, requestsASecond) {
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
	return l.client(key, now).refusals.take(now, refusalsAtOnce, refusalsASecond)
}

// client returns the state of a client's limit. If there are too many clients, idle ones
// are dropped, the least recently seen first.
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
	c = &client{}
	l.clients[key] = c
	return c
}

// forget makes room.
func (l *Limiter) forget(now time.Time) {
	for _, rested := range []time.Duration{refusedForgotten, time.Second, 0} {
		for key, c := range l.clients {
			if c.underWay == 0 && now.Sub(c.requests.at) >= rested && (rested == 0 || now.Sub(c.refusals.at) >= rested) {
				delete(l.clients, key)
			}
			if len(l.clients) < mostClients*3/4 && rested < refusedForgotten {
				return
			}
		}
		if len(l.clients) < mostClients*3/4 {
			return
		}
	}
}
