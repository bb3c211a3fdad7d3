package daemon

import (
	"context"
	"fmt"
	"sync"

	"github.com/forsd/forsd/lft"
)

// desk is where the tables wait that OpenSM's plugin asks for, in the middle of a
// sweep. It also knows how far the sweep under way is, and so whether another one
// is needed for tables to be loaded.
type desk struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when an answer changes

	fabric   string      // that the tables are for, as the controller knows it
	tables   *lft.Tables // nil before the first
	declined string      // a fabric that no tables will be made for now
	why      string

	sweep   sweepState
	routing chan struct{} // closed when the sweep under way has been routed; nil without one
	given   *lft.Tables   // to the sweep under way or over
	relied  bool          // somebody counts on the sweep under way to load the tables
	ordered bool          // a sweep was asked for and has not started
}

// sweepState is how far OpenSM's sweep is.
type sweepState uint8

const (
	noSweep  sweepState = iota // none is under way
	unasked                    // it has yet to ask for tables, or waits for them
	served                     // it was given tables
	unserved                   // it had to do without
)

// reliance is what there is for those who want the tables offered to be loaded.
type reliance uint8

const (
	onNothing reliance = iota // another sweep is needed
	onSweep                   // the one under way loads them, or will ask for them
	onPast                    // the last one has, sooner than one could ask
)

func newDesk() *desk { return &desk{changed: make(chan struct{})} }

// tell wakes those that wait. The caller holds mu.
func (d *desk) tell() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// offer lays out the tables of a fabric. They must not be changed any more.
func (d *desk) offer(fabric string, t *lft.Tables) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fabric, d.tables, d.declined = fabric, t, ""
	d.tell()
}

// decline says that no tables will be made for a fabric, unless some are offered
// later.
func (d *desk) decline(fabric, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.declined, d.why = fabric, why
	d.tell()
}

// serve waits for the tables of a fabric, for the sweep under way. What it notes of
// that is nothing where OpenSM has gone on already: the sweep may be over.
func (d *desk) serve(ctx context.Context, fabric string) (*lft.Tables, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the tables come too late: %w", context.Cause(ctx))
	}
	d.sweep = unasked
	for {
		switch {
		case d.tables != nil && d.fabric == fabric:
			d.sweep, d.given = served, d.tables
			return d.tables, nil
		case d.declined == fabric:
			d.sweep = unserved
			return nil, fmt.Errorf("there are no tables for this fabric: %s", d.why)
		}
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
			d.mu.Lock()
		case <-ctx.Done():
			d.mu.Lock()
			d.sweep = unserved
			return nil, fmt.Errorf("the tables are not ready yet: %w", context.Cause(ctx))
		}
	}
}

// reset forgets the sweep under way: the plugin has come or gone.
func (d *desk) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep, d.given, d.relied, d.ordered = noSweep, nil, false, false
	d.release()
}

// started takes note that a sweep has started.
func (d *desk) started() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep, d.given, d.relied, d.ordered = unasked, nil, false, false
	if d.routing == nil {
		d.routing = make(chan struct{})
	}
}

// routed takes note that the switches have confirmed the sweep's tables.
func (d *desk) routed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release()
}

// release lets those go on that wait for the end of a sweep's routing. The caller
// holds mu.
func (d *desk) release() {
	if d.routing != nil {
		close(d.routing)
		d.routing = nil
	}
}

// routes is closed once the sweep under way has been routed; nil where there is none.
func (d *desk) routes() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.routing
}

// missed takes note that the sweep could not use what it was given.
func (d *desk) missed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep, d.given = unserved, nil
}

// ended takes note that the sweep is over, and tells whether it counts as the one
// that was to load the tables: not so where another one is to come, or where it
// loaded older ones.
func (d *desk) ended() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sweep != served {
		d.given = nil
	}
	d.sweep = noSweep
	d.release()
	return !d.ordered && (d.given == nil || d.given == d.tables)
}

// rely tells what loads the tables offered. A sweep does so once: who counts on it
// again has waited in vain. Where there is nothing, a sweep must be ordered, and
// counts as ordered from now on.
func (d *desk) rely() reliance {
	d.mu.Lock()
	defer d.mu.Unlock()
	fits := d.given != nil && d.given == d.tables
	switch relied := d.relied; {
	case relied:
	case d.sweep == unasked, d.sweep == served && fits:
		d.relied = true
		return onSweep
	case d.sweep == noSweep && fits:
		d.relied = true
		return onPast
	}
	d.ordered = true
	return onNothing
}
