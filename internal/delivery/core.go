// Package delivery decides how tables get into the switches, and knows which they may
// hold. It is a pure state machine beside the controller: an event goes in, a batch of
// actions comes out, and time is what the caller says it is. Package desk carries its
// actions out.
//
// There are two ways. OpenSM loads the table file when it sweeps; and while its plugin is
// connected it asks for the tables in the middle of a sweep, and loads the file only where
// it gets none. The plugin never waits for the file, nor for the disk under it.
package delivery

import (
	"slices"
	"time"

	"github.com/forsd/forsd/lft"
)

const (
	// FileWithin is how long the table file waits for a sweep to be routed, so that its
	// writing does not keep OpenSM from its work.
	FileWithin = time.Second
	// SettleWithin is how long a sweep and a read-back wait for the table file.
	SettleWithin = 5 * time.Second
	// Kept bounds what is remembered of tables that were ordered since the last read-back.
	Kept = 8
)

// Core is the state machine. New makes one.
type Core struct {
	differ func(a, b *lft.Tables) bool

	// What the switches hold.
	read      *lft.Tables   // as read back last, nil before that
	confirmed *lft.Tables   // ordered, and equal to read; nil where they differ
	since     []*lft.Tables // what they may have loaded since, oldest first
	reading   bool          // read is about to be replaced
	during    []*lft.Tables // what they may have loaded since that began
	changing  bool          // other tables may be ordered for the fabric as it is

	// What was ordered.
	fabric   string
	tables   *lft.Tables // nil before the first
	rewrite  bool        // the file is to be written though it holds them
	answer   bool        // Ordered is due when the file is written
	declined string      // a fabric without tables
	why      string

	file  file
	sweep sweep
	asks  []Asked

	load, settle bool      // Sweep or Settled is due when the file is written
	late         time.Time // when they no longer wait for it
	out          []Action
}

// file is the table file.
type file struct {
	holds   *lft.Tables // before the writing under way; nil for nothing of use
	writing *lft.Tables // WriteFile has no answer yet; nil where none is due
	due     time.Time   // when the tables ordered are to be written at the latest; zero for never
	changed bool        // the last writing has changed it
	err     string      // of the last writing
}

// sweep is OpenSM's sweep, under way or over, as the plugin tells of it.
type sweep struct {
	connected bool // the plugin is
	state     sweepState
	routing   bool          // it has not been routed
	given     *lft.Tables   // to the sweep under way, or the last one
	file      []*lft.Tables // what the file may have held since the sweep under way had to do without others
	relied    bool          // the controller counts on the sweep to load the tables
	ordered   bool          // another one was asked for and has not started
}

type sweepState uint8

const (
	noSweep  sweepState = iota // none is under way
	unasked                    // it has yet to ask for tables, or waits for them
	served                     // it was given tables
	unserved                   // it had to do without
)

// New is a core that knows nothing of the switches. The table file holds the given tables,
// whatever its text is; nil is for none that OpenSM could use. differ tells whether one of
// two tables has an entry that the other lacks.
func New(file *lft.Tables, differ func(a, b *lft.Tables) bool) *Core {
	c := &Core{differ: differ, rewrite: true}
	c.file.holds = file
	return c
}

// InSwitches is the tables as read back last, nil before that.
func (c *Core) InSwitches() *lft.Tables { return c.read }

// Match tells whether the tables read back last are those planned for the fabric as it is.
func (c *Core) Match() bool { return c.confirmed != nil && c.confirmed == c.tables && !c.changing }

// Possible lists the tables that the switches may hold: those read back, nil before the
// first, and all that OpenSM can load, or may have loaded since.
func (c *Core) Possible() []*lft.Tables {
	out := []*lft.Tables{c.read}
	future := add(c.loadable(), c.file.holds, c.file.writing)
	for _, t := range slices.Concat(c.since, future) {
		if t != nil && t != c.confirmed && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// loadable lists what OpenSM can load now: the tables ordered, those given to a sweep that
// has not confirmed them, and the file where the plugin is not there to ask, or got nothing.
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

// Wake is when the core wants a Tick at the latest; zero for never.
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

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Step takes an event and returns what is to be done, in order.
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
		c.read, c.confirmed, c.since, c.reading, c.during = nil, nil, nil, false, nil
	default: // Tick is among them
		c.ofPlugin(now, e)
	}
	c.serve(now)
	c.write(now)
	c.release(now)
	c.remember()
	return c.out
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }

// remember takes note of what the switches may have come to hold by now.
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

// add is a list with further tables at its end, each once; nil is none.
func add(to []*lft.Tables, more ...*lft.Tables) []*lft.Tables {
	for _, t := range more {
		if t != nil && !slices.Contains(to, t) {
			to = append(to, t)
		}
	}
	return to
}

// order lays the tables out for the plugin and has the table file written, for which
// Ordered waits where OpenSM depends on it.
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
		c.file.holds, c.file.due, c.file.err = c.tables, time.Time{}, "" // they are alike
	}
	if !c.answer {
		c.do(Ordered{Changed: changed})
	}
}

// write begins to write the table file: when the sweep under way is routed, or somebody
// waits for the file, or it has waited long enough.
func (c *Core) write(now time.Time) {
	hurry := !c.sweep.routing || c.answer || c.load || c.settle || !now.Before(c.file.due)
	if c.file.writing != nil || c.file.due.IsZero() || !hurry {
		return
	}
	c.file.writing, c.file.due, c.rewrite = c.tables, time.Time{}, false
	c.do(WriteFile{c.tables})
}

// written takes in what became of a writing.
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

// reload finds what has OpenSM load the tables ordered. A sweep of the plugin does so once:
// an order that counts on it again has not got what it wanted. Any other sweep may load the
// file, and waits for it.
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

// release lets those go on that wait for the table file. A file that cannot be written
// keeps nothing from the plugin.
func (c *Core) release(now time.Time) {
	f := &c.file
	idle := f.writing == nil && f.due.IsZero()
	if c.answer && c.sweep.connected { // it has come meanwhile
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

// wasRead takes in what the switches hold. Tables that were ordered before are out of the
// way where those ordered last have been found: OpenSM has loaded them since.
func (c *Core) wasRead(e Read) {
	c.read, c.confirmed = e.Tables, nil
	if e.Match {
		c.confirmed, c.since = c.tables, nil
	}
	for _, t := range c.during {
		if t != c.confirmed {
			c.since = add(c.since, t)
		}
	}
	c.reading, c.during = false, nil
}
