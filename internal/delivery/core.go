// Package delivery decides how tables get into the switches, and tracks which tables the
// switches may hold. It is a pure state machine: an event goes in, a batch of actions comes
// out, and the caller supplies the time. Package desk carries out the actions.
//
// There are two ways. OpenSM loads the table file when it sweeps; while its plugin is
// connected, OpenSM asks for the tables during a sweep, and loads the file only if it gets
// none. The plugin never waits for the file or its disk.
package delivery

import (
	"slices"
	"time"

	"github.com/forsd/forsd/lft"
)

const (
	// FileWithin limits how long writing the table file is put off until a sweep is routed,
	// so as not to slow OpenSM down.
	FileWithin = time.Second
	// SettleWithin limits how long a sweep and a read-back wait for the table file.
	SettleWithin = 5 * time.Second
	// Kept limits the number of tables remembered as ordered since the last read-back.
	Kept = 8
)

// Core is the state machine. See New.
type Core struct {
	differ func(a, b *lft.Tables) bool

	// What the switches hold.
	read      *lft.Tables   // as read back last, nil before that
	confirmed *lft.Tables   // the tables ordered, if equal to read for all LIDs in use; otherwise nil
	beside    *lft.Tables   // confirmed, if its other entries differ from read; otherwise nil
	since     []*lft.Tables // tables possibly loaded since, oldest first
	reading   bool          // a read-back is under way
	during    []*lft.Tables // tables possibly loaded during it
	changing  bool          // other tables may be ordered for the present fabric

	// What was ordered.
	fabric   string
	tables   *lft.Tables // nil before the first order
	rewrite  bool        // write the file even if it holds the tables
	answer   bool        // send Ordered when the file is written
	declined string      // the fabric for which no tables will be made
	why      string

	file  file
	sweep sweep
	asks  []Asked

	load, settle bool      // send Sweep or Settled when the file is written
	late         time.Time // deadline of that wait
	out          []Action
}

// file is the table file.
type file struct {
	holds   *lft.Tables // before the current write; nil if unusable
	writing *lft.Tables // being written: FileWritten is awaited; nil if none
	due     time.Time   // deadline for writing the tables ordered; zero if none is needed
	changed bool        // by the last write
	err     string      // of the last write
}

// sweep is OpenSM's current or last sweep, as reported by the plugin.
type sweep struct {
	connected bool // the plugin is connected
	state     sweepState
	routing   bool          // the sweep is not routed yet
	given     *lft.Tables   // given to the current or last sweep
	file      []*lft.Tables // possible content of the file since the current sweep was left without other tables
	relied    bool          // the controller counts on the sweep to load the tables
	ordered   bool          // another sweep was requested and has not started
}

type sweepState uint8

const (
	noSweep  sweepState = iota // no sweep is under way
	unasked                    // it has not asked for tables yet, or waits for them
	served                     // it was given tables
	unserved                   // it was given none
)

// New returns a core that knows nothing of the switches. file is the content of the table
// file, nil if OpenSM could not use it. differ reports whether one of two tables has an
// entry that the other lacks.
func New(file *lft.Tables, differ func(a, b *lft.Tables) bool) *Core {
	c := &Core{differ: differ, rewrite: true}
	c.file.holds = file
	return c
}

// InSwitches returns the tables read back last, nil before the first read-back.
func (c *Core) InSwitches() *lft.Tables { return c.read }

// Match reports whether the tables read back last are those planned for the present fabric.
func (c *Core) Match() bool { return c.confirmed != nil && c.confirmed == c.tables && !c.changing }

// Possible returns the tables that the switches may hold: those read back, nil before the
// first read-back, and all that OpenSM can load or may have loaded since.
func (c *Core) Possible() []*lft.Tables {
	out := []*lft.Tables{c.read}
	future := add(c.loadable(), c.file.holds, c.file.writing)
	for _, t := range slices.Concat([]*lft.Tables{c.beside}, c.since, future) {
		if t != nil && (t != c.confirmed || t == c.beside) && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// loadable returns what OpenSM can load now: the tables ordered, those given to a sweep
// that is not routed, and the file if the plugin is not connected or got no tables.
func (c *Core) loadable() []*lft.Tables {
	out := []*lft.Tables{c.tables}
	if c.sweep.routing {
		out = append(append(out, c.sweep.given), c.sweep.file...)
	}
	if !c.sweep.connected || c.sweep.state == unserved {
		out = append(out, c.file.holds, c.file.writing)
	}
	return out
}

// Wake returns when the core needs a Tick at the latest; zero means never.
func (c *Core) Wake() time.Time {
	var wake time.Time
	for _, a := range c.asks {
		wake = earlier(wake, a.Deadline)
	}
	if c.file.writing == nil {
		wake = earlier(wake, c.file.due)
	}
	if c.load || c.settle {
		wake = earlier(wake, c.late)
	}
	return wake
}

// earlier returns the earlier of two times, ignoring zero times.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Step handles an event and returns the actions to carry out, in order.
func (c *Core) Step(now time.Time, e Event) []Action {
	c.out = nil
	switch e := e.(type) {
	case Order:
		c.order(now, e)
	case Decline:
		c.declined, c.why = e.Fabric, e.Why
	case FileWritten:
		c.written(e)
	case Load:
		c.reload(now)
	case Settle:
		c.settle, c.late = true, now.Add(SettleWithin)
	case Reading:
		c.reading, c.during = true, nil
	case Read:
		c.wasRead(e)
	case Changing:
		c.changing = true
	case Forget:
		c.read, c.confirmed, c.beside, c.since, c.reading, c.during = nil, nil, nil, nil, false, nil
	default: // including Tick
		c.ofPlugin(now, e)
	}
	c.serve(now)
	c.write(now)
	c.release(now)
	c.remember()
	return c.out
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }

// remember records what the switches may hold by now.
func (c *Core) remember() {
	if c.sweep.state == unserved {
		c.sweep.file = add(c.sweep.file, c.file.holds, c.file.writing)
	}
	now := c.loadable()
	if c.reading {
		c.during = add(c.during, now...)
	}
	c.since = add(c.since, slices.DeleteFunc(now, func(t *lft.Tables) bool { return t == c.confirmed })...)
	c.since = c.since[max(0, len(c.since)-Kept):]
}

// add appends tables to a list, omitting nil and duplicates.
func add(to []*lft.Tables, more ...*lft.Tables) []*lft.Tables {
	for _, t := range more {
		if t != nil && !slices.Contains(to, t) {
			to = append(to, t)
		}
	}
	return to
}

// order makes the tables available to the plugin and schedules the table file to be
// written. Ordered waits for the file if the plugin is not connected.
func (c *Core) order(now time.Time, e Order) {
	if c.tables == nil {
		c.tables = c.file.holds
	}
	changed := c.tables == nil || c.differ(c.tables, e.Tables)
	c.fabric, c.declined, c.changing = e.Fabric, "", false
	c.rewrite = c.rewrite || e.Rewrite
	if changed {
		c.tables = e.Tables
	}
	c.answer = !c.sweep.connected
	switch {
	case c.answer:
		c.file.due = now
	case c.file.writing != nil || c.rewrite || c.file.holds == nil || c.differ(c.file.holds, c.tables):
		c.file.due = now.Add(FileWithin)
	default:
		c.file.holds, c.file.due, c.file.err = c.tables, time.Time{}, "" // equal
	}
	if !c.answer {
		c.do(Ordered{Changed: changed})
	}
}

// write starts writing the table file once no sweep is being routed, a request waits for
// the file, or its deadline has come.
func (c *Core) write(now time.Time) {
	hurry := !c.sweep.routing || c.answer || c.load || c.settle || !now.Before(c.file.due)
	if c.file.writing != nil || c.file.due.IsZero() || !hurry {
		return
	}
	c.file.writing, c.file.due, c.rewrite = c.tables, time.Time{}, false
	c.do(WriteFile{c.tables})
}

// written handles the result of a write.
func (c *Core) written(e FileWritten) {
	f := &c.file
	if e.Err == "" {
		if f.holds != c.confirmed {
			c.since = add(c.since, f.holds) // it may have been loaded just before
		}
		f.holds = f.writing
	}
	f.writing, f.changed, f.err = nil, e.Changed, e.Err
}

// reload chooses the sweep that makes OpenSM load the tables ordered. Without a new sweep
// by the plugin this is tried once: a second Load means that the tables did not arrive. Any
// other sweep may load the file, and waits for it.
func (c *Core) reload(now time.Time) {
	s := &c.sweep
	fits := s.given != nil && s.given == c.tables
	switch {
	case !s.connected || s.relied:
	case s.state == unasked, s.state == served && fits:
		s.relied = true
		c.do(Sweep{ThisSweep})
		return
	case s.state == noSweep && fits:
		s.relied = true
		c.do(Sweep{LastSweep})
		return
	}
	s.ordered = s.connected
	c.load, c.late = true, now.Add(SettleWithin)
}

// release ends the waits for the table file that are over. A file that cannot be written
// does not delay the plugin.
func (c *Core) release(now time.Time) {
	f := &c.file
	idle := f.writing == nil && f.due.IsZero()
	if c.answer && c.sweep.connected { // the plugin connected while the file was written
		c.answer = false
		c.do(Ordered{Changed: true})
	} else if c.answer && idle {
		c.answer = false
		c.do(Ordered{Changed: f.changed, Err: f.err})
	}
	if !c.load && !c.settle || !idle && now.Before(c.late) {
		return
	}
	if c.load {
		by := SweepAlone
		if c.sweep.connected {
			by = NextSweep
		}
		c.do(Sweep{by})
	}
	if c.settle {
		err := f.err
		if !idle {
			err = "it is still being written"
		}
		c.do(Settled{err})
	}
	c.load, c.settle = false, false
}

// wasRead records what the switches hold. If the tables ordered last were found, earlier
// ones are superseded, because OpenSM has loaded the ordered ones since.
func (c *Core) wasRead(e Read) {
	c.read, c.confirmed, c.beside = e.Tables, nil, nil
	if e.Match {
		if c.confirmed, c.since = c.tables, nil; c.tables != nil && c.differ(c.read, c.tables) {
			c.beside = c.tables // a sweep has loaded them since, or older ones before
		}
	}
	for _, t := range c.during {
		if t != c.confirmed {
			c.since = add(c.since, t)
		}
	}
	c.reading, c.during = false, nil
}
