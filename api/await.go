package api

import (
	"context"
	"sync"
	"time"
)

// How those who wait are woken: the first at once, and where there are more the others
// later, so many in a millisecond. Thousands that woke at the same moment would stand in the
// way of the plan that is being made, and of the tables that are handed over.
const (
	mostNear  = 16
	lateAfter = 30 * time.Millisecond
	lateEach  = 8
	mostHeld  = 5 * time.Second // that Hold keeps any of them waiting
)

// awaited guards what others wait for.
type awaited struct {
	mu      sync.Mutex
	changed chan struct{}          // closed at the next change; nil while nobody waits
	near    int                    // how many wait for that
	late    map[chan struct{}]bool // those that are woken after them
	waking  bool                   // a goroutine wakes them
	news    bool                   // there was a change since it began
	held    chan struct{}          // closed when they may be woken again; nil while they may
}

// announce wakes those who wait. The lock is held.
func (a *awaited) announce() {
	if a.changed != nil {
		close(a.changed)
		a.changed, a.near = nil, 0
	}
	a.news = true
	if len(a.late) > 0 && !a.waking {
		a.waking = true
		go a.wakeLate()
	}
}

// Hold keeps those who are woken late waiting, for some seconds at most, while something is
// worked on that comes first.
func (a *awaited) Hold(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case on && a.held == nil:
		a.held = make(chan struct{})
	case !on && a.held != nil:
		close(a.held)
		a.held = nil
	}
}

// wakeLate wakes those who wait apart, until all of them know of the latest change.
func (a *awaited) wakeLate() {
	for again := true; again; {
		time.Sleep(lateAfter)
		a.mu.Lock()
		late := a.late
		a.late, a.news = nil, false // who comes back waits for the next change
		a.mu.Unlock()
		limit, stop := context.WithTimeout(context.Background(), mostHeld)
		woken := 0
		for c := range late {
			if woken%lateEach == 0 {
				a.pause(limit)
			}
			close(c)
			woken++
		}
		stop()
		a.mu.Lock()
		again = a.news && len(a.late) > 0
		a.waking = again
		a.mu.Unlock()
	}
}

// pause waits a moment, and as long as those who are woken late are held.
func (a *awaited) pause(limit context.Context) {
	time.Sleep(time.Millisecond)
	a.mu.Lock()
	held := a.held
	a.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-limit.Done():
		}
	}
}

// await looks under the lock, now and after each change, until what is looked for is
// there. The error is that of ctx, which ended first.
func (a *awaited) await(ctx context.Context, there func() bool) error {
	for {
		a.mu.Lock()
		if there() {
			a.mu.Unlock()
			return nil
		}
		woken := a.place()
		a.mu.Unlock()
		select {
		case <-woken:
		case <-ctx.Done():
			a.leave(woken)
			return ctx.Err()
		}
	}
}

// place is what somebody waits for. The lock is held.
func (a *awaited) place() chan struct{} {
	if a.near < mostNear {
		a.near++
		if a.changed == nil {
			a.changed = make(chan struct{})
		}
		return a.changed
	}
	c := make(chan struct{})
	if a.late == nil {
		a.late = map[chan struct{}]bool{}
	}
	a.late[c] = true
	return c
}

// leave gives a place back.
func (a *awaited) leave(place chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.late, place)
	if place == a.changed {
		a.near--
	}
}
