package published

import (
	"context"
	"slices"
	"sync"
	"time"
)

// How waiting clients are woken: the first ones at once, the others later, a limited number
// per millisecond. Thousands that woke at the same moment would delay the plan being made
// and the tables being handed over.
const (
	mostNear  = 16
	lateAfter = 30 * time.Millisecond
	lateEach  = 8
	mostHeld  = 5 * time.Second // that Hold keeps any of them waiting
)

// awaited guards what others wait for.
type awaited struct {
	mu      sync.Mutex
	waiting []chan struct{} // for the next change, as they came: each is closed to wake who waits
	late    []chan struct{} // for their turn, after a change
	waking  bool            // a goroutine wakes them
	held    chan struct{}   // closed when they may be woken again; nil while they may
}

// announce wakes those who wait. The lock is held.
func (a *awaited) announce() {
	near := min(mostNear, len(a.waiting))
	for _, c := range a.waiting[:near] {
		close(c)
	}
	a.late = append(a.late, a.waiting[near:]...)
	a.waiting = nil
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

// wakeLate wakes those who are late, until all of them know of the latest change.
func (a *awaited) wakeLate() {
	for again := true; again; {
		time.Sleep(lateAfter)
		a.mu.Lock()
		late := a.late
		a.late = nil
		a.mu.Unlock()
		limit, stop := context.WithTimeout(context.Background(), mostHeld)
		for some := range slices.Chunk(late, lateEach) {
			a.pause(limit)
			for _, c := range some {
				close(c)
			}
		}
		stop()
		a.mu.Lock()
		again = len(a.late) > 0
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
		woken := make(chan struct{})
		a.waiting = append(a.waiting, woken)
		a.mu.Unlock()
		select {
		case <-woken:
		case <-ctx.Done():
			a.mu.Lock()
			if i := slices.Index(a.waiting, woken); i >= 0 { // soon found: the first to come are the first to go
				a.waiting = slices.Delete(a.waiting, i, i+1)
			}
			a.mu.Unlock()
			return ctx.Err()
		}
	}
}
