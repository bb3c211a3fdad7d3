// Package desk carries out what package delivery decides: it writes the table file in parallel to
// other work, lets OpenSM's plugin wait for its tables, and keeps the time.
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

// Desk is a delivery at work. Its methods may be called at any time; those that order,
// load or read are used by one action at a time.
type Desk struct {
	path     string // of the table file
	root     string // of the file for OpenSM's own engine
	comments bool
	log      *zap.Logger
	replace  func(path string, write func(io.Writer) error) (bool, error) // of the file; another one in tests

	mu     sync.Mutex // guards what follows
	core   *delivery.Core
	fabric *topology.Fabric      // of the tables ordered last
	print  func(io.Writer) error // these tables, as the file has them
	readAt time.Time
	number uint64 // of the last question of the plugin
	waits  []wait
	timer  *time.Timer
}

// wait is a call that waits for an action.
type wait struct {
	takes func(delivery.Action) bool // hands it over where it is the one
}

// Open is a desk for a table file, and for one that tells OpenSM's own engine where to begin.
func Open(path, root string, comments bool, log *zap.Logger) *Desk {
	d := &Desk{path: path, root: root, comments: comments, log: log, replace: opensm.WriteTables}
	d.core = delivery.New(found(path), func(a, b *lft.Tables) bool { return a != b && lft.Changes(a, b).Entries > 0 })
	return d
}

// Closed is a desk at which nothing is ever ordered, without a table file.
func Closed(log *zap.Logger) *Desk {
	return &Desk{log: log, core: delivery.New(nil, func(a, b *lft.Tables) bool { return a != b })}
}

// found is what a table file holds, nil where that is nothing of use.
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

// step gives the core an event and carries out what it answers. The caller holds mu.
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
			d.timer = time.AfterFunc(after, func() { d.tell(delivery.Tick{}) })
		} else {
			d.timer.Reset(after)
		}
	}
	return out
}

// tell is step for an event without an answer.
func (d *Desk) tell(e delivery.Event) []delivery.Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.step(e)
}

// answered gives the core an event, and returns the action that answers it as soon as it
// is there. The caller holds mu, which is free until then.
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
	d.tell(e)
}

// mostEntries is how many entries a table file may have, which is some 300 MB of text: the
// tables of 3456 hosts with four LIDs each are within, those of 11,664 are not.
const mostEntries = 20_000_000

// entries is how many entries tables have, empty ones too.
func entries(t *lft.Tables) (n int) {
	for i := range t.Switches {
		n += len(t.Switches[i].Out)
	}
	return n
}

// Deliver has the tables of a fabric go into the switches, and reports whether OpenSM has to
// load them for that. They must not be changed any more. The plugin gets them at once, and
// the file is written in parallel. The error says that OpenSM cannot get them.
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

// Withdraw puts the table file aside where it leads to dead ports of a fabric, and tells
// whether it did: OpenSM makes tables of its own at its next sweep.
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

// Decline says that no tables will be made for a fabric, unless some are delivered later.
func (d *Desk) Decline(id, why string) { d.tell(delivery.Decline{Fabric: id, Why: why}) }

// Load finds what has OpenSM load the tables delivered last. Where that may load the table
// file, Load waits until it is written, or cannot be.
func (d *Desk) Load() delivery.How {
	d.mu.Lock()
	defer d.mu.Unlock()
	return answered[delivery.Sweep](d, delivery.Load{}).By
}

// Written waits until the table file is written. The error says why it does not hold the
// tables delivered last.
func (d *Desk) Written() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return asError(answered[delivery.Settled](d, delivery.Settle{}).Err)
}

// Reading says that the tables of the switches are going to be read.
func (d *Desk) Reading() { d.tell(delivery.Reading{}) }

// Read says what the switches held, and whether these are the tables delivered last.
func (d *Desk) Read(t *lft.Tables, match bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readAt = time.Now()
	d.step(delivery.Read{Tables: t, Match: match})
}

// Changing says that the fabric has changed, and tables for it are to come.
func (d *Desk) Changing() { d.tell(delivery.Changing{}) }

// Forget forgets what the switches hold, where that is another manager's business.
func (d *Desk) Forget() { d.tell(delivery.Forget{}) }

// Possible lists the tables that the switches may hold: those read back, nil before the
// first, and all that OpenSM may have loaded since or can load.
func (d *Desk) Possible() []*lft.Tables {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.core.Possible()
}

// InSwitches is the tables as read back last, nil before that.
func (d *Desk) InSwitches() *lft.Tables {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.core.InSwitches()
}

// Match reports whether the tables read back last are those planned for the fabric as it is,
// and when that was.
func (d *Desk) Match() (match bool, readAt time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.core.Match(), d.readAt
}

// PluginCame and PluginLeft say whether OpenSM's plugin is connected.
func (d *Desk) PluginCame() { d.tell(delivery.Connected{}) }

// PluginLeft is the other one.
func (d *Desk) PluginLeft() { d.tell(delivery.Disconnected{}) }

// SweepStarted says that OpenSM has begun a sweep.
func (d *Desk) SweepStarted() { d.tell(delivery.SweepStarted{}) }

// Routed says that the switches have confirmed the sweep's tables.
func (d *Desk) Routed() { d.tell(delivery.Routed{}) }

// Missed says that the sweep could not use what it was given.
func (d *Desk) Missed() { d.tell(delivery.Missed{}) }

// SweepEnded says that the sweep is over, and reports whether it counts as the one that was
// to load the tables.
func (d *Desk) SweepEnded() bool {
	return slices.Contains(d.tell(delivery.SweepEnded{}), delivery.Action(delivery.Loaded{}))
}

// forever is the deadline of a question without one.
const forever = time.Hour

// Serve waits for the tables of a fabric, for the sweep under way.
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
		d.tell(delivery.Withdrawn{Number: n})
		a = <-done
	}
	switch {
	case a.Tables != nil:
		return a.Tables, nil
	case a.Late:
		cause := context.Cause(ctx)
		if cause == nil { // the timer here was first
			cause = context.DeadlineExceeded
		}
		return nil, fmt.Errorf("the tables are not ready yet: %w", cause)
	}
	return nil, fmt.Errorf("there are no tables for this fabric: %s", a.Why)
}
