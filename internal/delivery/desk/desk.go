// Package desk carries out the actions of package delivery: it writes the table file
// concurrently with other work, holds the plugin's requests until their tables exist, and
// keeps time.
package desk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/delivery"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/topology"
)

// Desk runs a delivery.Core. Its methods are safe for concurrent use, but those that order,
// load or read tables must be called by one action at a time.
type Desk struct {
	path     string // of the table file
	root     string // of the file with the roots for OpenSM's own routing engine
	comments bool
	log      *zap.Logger
	replace  func(path string, write func(io.Writer) error) (bool, error) // replaces a file; tests inject their own

	mu     sync.Mutex // guards the fields below
	core   *delivery.Core
	fabric *topology.Fabric      // of the tables ordered last
	print  func(io.Writer) error // writes these tables as text
	readAt time.Time
	number uint64 // of the plugin's last question
	waits  []wait
	timer  *time.Timer
}

// wait is a call that waits for an action.
type wait struct {
	takes func(delivery.Action) bool // receives the action and reports true if it is the awaited one
}

// Open returns a desk for a table file and for the roots file of OpenSM's own routing
// engine.
func Open(path, root string, comments bool, log *zap.Logger) *Desk {
	d := &Desk{path: path, root: root, comments: comments, log: log, replace: opensm.WriteTables}
	d.core = delivery.New(found(path), func(a, b *lft.Tables) bool { return a != b && lft.Changes(a, b).Entries > 0 })
	return d
}

// Closed returns a desk without a table file, for a daemon that orders no tables.
func Closed(log *zap.Logger) *Desk {
	return &Desk{log: log, core: delivery.New(nil, func(a, b *lft.Tables) bool { return a != b })}
}

// found returns the tables in a table file, nil if they cannot be used.
func found(path string) *lft.Tables {
	text, err := opensm.ReadTables(path)
	if err != nil {
		return nil
	}
	t, err := lft.ReadBytes(text)
	if err != nil || len(t.Switches) == 0 {
		return nil
	}
	return t
}

// step passes an event to the core and carries out the actions. The caller holds mu.
func (d *Desk) step(e delivery.Event) []delivery.Action {
	out := d.core.Step(time.Now(), e)
	for _, a := range out {
		if _, write := a.(delivery.WriteFile); write {
			go d.write(d.fabric, d.print)
			continue
		}
		d.waits = slices.DeleteFunc(d.waits, func(w wait) bool { return w.takes(a) })
	}
	if wake := d.core.Wake(); !wake.IsZero() {
		after := max(0, time.Until(wake))
		if d.timer == nil {
			d.timer = time.AfterFunc(after, func() { d.Tell(delivery.Tick{}) })
		} else {
			d.timer.Reset(after)
		}
	}
	return out
}

// Tell passes an event without an answer to the core.
func (d *Desk) Tell(e delivery.Event) []delivery.Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.step(e)
}

// answered passes an event to the core and returns the action that answers it, which it
// waits for. The caller holds mu, which is released while waiting.
func answered[A delivery.Action](d *Desk, e delivery.Event) A {
	done := make(chan A, 1)
	d.waits = append(d.waits, wait{func(a delivery.Action) bool {
		mine, is := a.(A)
		if is {
			done <- mine
		}
		return is
	}})
	d.step(e)
	d.mu.Unlock()
	defer d.mu.Lock()
	return <-done
}

// write writes the table file.
func (d *Desk) write(f *topology.Fabric, text func(io.Writer) error) {
	changed, err := d.replace(d.path, text)
	if err := opensm.WriteRoot(d.root, f); err != nil {
		d.log.Warn("where OpenSM's own engine is to begin is not written", zap.Error(err))
	}
	e := delivery.FileWritten{Changed: changed}
	switch {
	case err != nil && changed:
		d.log.Warn("the table file is replaced, and may be lost with the machine", zap.Error(err))
	case err != nil:
		e.Err = err.Error()
	}
	d.Tell(e)
}

// mostEntries limits the entries of a table file, to some 300 MB of text: the tables of
// 3456 hosts with four LIDs each are within the limit, those of 11,664 hosts are not.
const mostEntries = 20_000_000

// entries returns the number of entries of tables, including empty ones.
func entries(t *lft.Tables) (n int) {
	for i := range t.Switches {
		n += len(t.Switches[i].Out)
	}
	return n
}

// Deliver orders the tables of a fabric to be delivered to the switches, and reports
// whether OpenSM has to load them for that. The tables must not be modified afterwards. The
// plugin gets them at once, and the file is written concurrently. An error means that
// OpenSM cannot get them.
func (d *Desk) Deliver(id string, f *topology.Fabric, t *lft.Tables) (changed bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fabric, d.print = f, func(w io.Writer) error {
		if n := entries(t); n > mostEntries {
			return fmt.Errorf("the tables have %d million entries, and OpenSM is given up to %d million by a file: let it load forsd's plugin", n/1_000_000, mostEntries/1_000_000)
		}
		if d.comments {
			return t.Write(w, lft.OwnersOf(f))
		}
		return t.Write(w, nil)
	}
	a := answered[delivery.Ordered](d, delivery.Order{Fabric: id, Tables: t, Rewrite: d.comments})
	return a.Changed, asError(a.Err)
}

// Withdraw moves the table file aside if it routes to dead ports of a fabric, and reports
// whether it did. OpenSM then computes tables itself at its next sweep.
func (d *Desk) Withdraw(f *topology.Fabric) bool {
	t := found(d.path)
	if t == nil || t.Dead(f) == 0 {
		return false
	}
	err := opensm.WithdrawTables(d.path)
	d.log.Warn("the table file leads to dead ports, and cannot be written: it is put aside", zap.Error(err))
	return err == nil
}

func asError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// Load returns which sweep makes OpenSM load the tables delivered last. If that sweep may
// load the table file, Load waits until the file is written or writing fails.
func (d *Desk) Load() delivery.How {
	d.mu.Lock()
	defer d.mu.Unlock()
	return answered[delivery.Sweep](d, delivery.Load{}).By
}

// Written waits until the table file is written. The error is why it does not hold the
// tables delivered last.
func (d *Desk) Written() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return asError(answered[delivery.Settled](d, delivery.Settle{}).Err)
}

// Read reports the tables that the switches held, and whether they are the tables delivered
// last.
func (d *Desk) Read(t *lft.Tables, match bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readAt = time.Now()
	d.step(delivery.Read{Tables: t, Match: match})
}

// Possible returns the tables that the switches may hold: those read back, nil before the
// first read-back, and all that OpenSM may have loaded since or can load.
func (d *Desk) Possible() []*lft.Tables {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.core.Possible()
}

// InSwitches returns the tables read back last, nil before the first read-back.
func (d *Desk) InSwitches() *lft.Tables {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.core.InSwitches()
}

// Match reports whether the tables read back last are those planned for the present fabric,
// and when they were read.
func (d *Desk) Match() (match bool, readAt time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.core.Match(), d.readAt
}

// SweepEnded handles the end of a sweep, and reports whether it counts as having
// loaded the tables ordered.
func (d *Desk) SweepEnded() bool {
	return slices.Contains(d.Tell(delivery.SweepEnded{}), delivery.Action(delivery.Loaded{}))
}

// forever is the deadline of a question without a deadline.
const forever = time.Hour

// Serve waits for the tables of a fabric, on behalf of the current sweep.
func (d *Desk) Serve(ctx context.Context, id string) (*lft.Tables, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the tables come too late: %w", context.Cause(ctx))
	}
	deadline, limited := ctx.Deadline()
	if !limited {
		deadline = time.Now().Add(forever)
	}
	done := make(chan delivery.Answer, 1)
	d.mu.Lock()
	d.number++
	n := d.number
	d.waits = append(d.waits, wait{func(a delivery.Action) bool {
		mine, is := a.(delivery.Answer)
		if is = is && mine.Number == n; is {
			done <- mine
		}
		return is
	}})
	d.step(delivery.Asked{Number: n, Fabric: id, Deadline: deadline})
	d.mu.Unlock()
	var a delivery.Answer
	select {
	case a = <-done:
	case <-ctx.Done():
		d.Tell(delivery.Withdrawn{Number: n})
		a = <-done
	}
	switch {
	case a.Tables != nil:
		return a.Tables, nil
	case a.Late:
		cause := context.Cause(ctx)
		if cause == nil { // the local timer fired first
			cause = context.DeadlineExceeded
		}
		return nil, fmt.Errorf("the tables are not ready yet: %w", cause)
	}
	return nil, fmt.Errorf("there are no tables for this fabric: %s", a.Why)
}
