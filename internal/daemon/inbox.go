package daemon

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/plugin"
)

// inbox carries messages and requests from other goroutines to the loop. It is the loop as the API
// sees it (backend.Loop).
type inbox struct {
	snapshots chan opensm.Snapshot
	plugin    chan plugin.Event
	questions chan question
	answers   chan controller.Event // answers to the controller's actions, and other events for it
	calls     chan func(context.Context, *loop)
	stopped   chan struct{} // closed when the loop ends
}

// eventsAhead is how many events of the plugin may wait for the loop.
const eventsAhead = 256

func newInbox() *inbox {
	return &inbox{snapshots: make(chan opensm.Snapshot, 1), plugin: make(chan plugin.Event, eventsAhead), questions: make(chan question),
		answers: make(chan controller.Event), calls: make(chan func(context.Context, *loop)), stopped: make(chan struct{})}
}

// dumped passes a dump of the manager on.
func (in *inbox) dumped(ctx context.Context, s opensm.Snapshot) {
	select {
	case in.snapshots <- s:
	case <-ctx.Done():
	}
}

// pluginEvent passes an event of the plugin on.
func (in *inbox) pluginEvent(e plugin.Event) {
	select {
	case in.plugin <- e:
	case <-in.stopped:
	}
}

// tell passes an event to the controller.
func (in *inbox) tell(e controller.Event) {
	select {
	case in.answers <- e:
	case <-in.stopped:
	}
}

// call lets the loop run f between two events, with the loop's own context, and waits for
// it.
func (in *inbox) call(ctx context.Context, f func(context.Context, *loop)) error {
	done := make(chan struct{})
	select {
	case in.calls <- func(ctx context.Context, l *loop) { f(ctx, l); close(done) }:
	case <-in.stopped:
		return backend.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done // the loop runs every call that it has received
	return nil
}

// try is between for an f that may fail.
func (in *inbox) try(ctx context.Context, f func(context.Context, turn) error) (err error) {
	if cerr := in.between(ctx, func(ctx context.Context, t turn) { err = f(ctx, t) }); cerr != nil {
		return cerr
	}
	return err
}

// between lets the loop run f between two actions, and waits for it. On an error, f does
// not run: ctx has ended or the daemon is shutting down.
func (in *inbox) between(ctx context.Context, f func(context.Context, turn)) error {
	var claimed atomic.Bool // by the loop, or by a caller that has stopped waiting
	done := make(chan struct{})
	run := func(ctx context.Context, t turn) {
		if claimed.CompareAndSwap(false, true) {
			f(ctx, t)
			t.loop.showPeer() // before the caller continues
			close(done)
		}
	}
	if err := in.call(ctx, func(_ context.Context, l *loop) { l.waiting = append(l.waiting, run) }); err != nil {
		return err
	}
	var err error
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		err = fmt.Errorf("wait for the change under way: %w", ctx.Err())
	case <-in.stopped:
		err = backend.ErrStopping
	}
	if claimed.CompareAndSwap(false, true) {
		return err
	}
	<-done // the loop has just started it
	return nil
}
