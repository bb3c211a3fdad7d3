package daemon

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/forsd/forsd/internal/backend"
	"github.com/forsd/forsd/internal/standby"
)

// This file has requests take their turn between two actions.

// calm runs f between two events while no action is under way, so that neither
// the tables nor the store change meanwhile, and waits for it. The error is that
// of ctx or of a daemon that ends; f has not run then.
func (d *Daemon) calm(ctx context.Context, f func()) error {
	var claimed atomic.Bool // by the loop, or by a caller that waits no longer
	done := make(chan struct{})
	turn := func() {
		if claimed.CompareAndSwap(false, true) {
			f()
			close(done)
		}
	}
	if err := d.call(ctx, func() { d.waiting = append(d.waiting, turn) }); err != nil {
		return err
	}
	var err error
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		err = fmt.Errorf("wait for the change under way: %w", ctx.Err())
	case <-d.stopped:
		err = backend.ErrStopping
	}
	if claimed.CompareAndSwap(false, true) {
		return err
	}
	<-done // its turn came just now
	return nil
}

// calmNow is what the loop does between two actions.
func (d *Daemon) calmNow() {
	for len(d.waiting) > 0 && !d.core.Busy() { // a turn may begin an action
		turn := d.waiting[0]
		d.waiting = d.waiting[1:]
		turn()
	}
	if d.core.Busy() {
		return
	}
	if now, due := time.Now(), d.jobs.LeaseDue(); !due.IsZero() && !now.Before(due) {
		d.jobs.EndLeases(now)
	}
	if now, due := time.Now(), d.peer.machine.Wake(); !due.IsZero() && !now.Before(due) {
		d.stand(d.life, standby.Tick{})
	}
	d.store.Restore(time.Now())
}
