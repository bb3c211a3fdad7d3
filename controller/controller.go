// Package controller decides what happens next. It is a pure state machine:
// an event goes in, a batch of actions comes out, and time is what the caller
// says it is. It reads no file, starts no goroutine and knows no fabric; the
// daemon carries its actions out and answers each of them with an event.
//
// The order of its actions is the rule "make before break": a plan without the
// lanes that were lost is published before the tables are touched, and a plan
// that uses lanes which came back is published after the tables that carry them
// have been read back. docs/architecture.md draws the states.
package controller

import (
	"fmt"
	"time"
)

// Lane names one cable of the tree: a leaf and a lane, by index.
type Lane struct{ Leaf, Lane int }

// String prints leaf/lane.
func (l Lane) String() string { return fmt.Sprintf("%d/%d", l.Leaf, l.Lane) }

// Compare orders lanes by leaf, then by lane.
func Compare(a, b Lane) int {
	if a.Leaf != b.Leaf {
		return a.Leaf - b.Leaf
	}
	return a.Lane - b.Lane
}

// Settings are the controller's times and limits.
type Settings struct {
	SweepTimeout time.Duration // from the signal to the manager's next dump
	RetryFirst   time.Duration // first back-off; it doubles up to RetryMax
	RetryMax     time.Duration
	HoldDown     time.Duration // first hold of a bouncing cable; it doubles up to HoldDownMax
	HoldDownMax  time.Duration
	Flaps        int           // losses within FlapWindow that make a cable a bouncing one
	FlapWindow   time.Duration // how long a loss is remembered
	MaxLoss      float64       // share of the servers that may vanish at once without confirmation
	Confirm      time.Duration // how long a larger loss must last to be believed
	Audit        time.Duration // least time between two unprovoked read-backs
}

// Controller is the state machine. Its zero value is not usable: see New.
type Controller struct {
	set Settings
	waiting
	fabrics
	outbox

	known       bool   // tables have been read back, whether they matched or not
	confirmedID string // the fabric whose tables were read back and are those of the table file still
	closed      []Lane // lanes that some tables which the switches may hold do not carry, ascending

	force     bool   // signal even when the table file did not change, and make a new plan
	early     bool   // in Signalling: a dump came before the signal was answered for
	noPlan    bool   // the last plan asked for could not be made
	refusal   string // the fabric that is refused because of its plan, or empty
	reread    bool   // in Backoff: the table file is whole, a new dump is worth a read-back
	behind    string // why the table file lacks the tables that the switches hold; "" where it does not
	blind     bool   // no plan has been verified on tables read back since New
	stale     string // while a plan is made for them: how the tables read back differ from those planned
	misreads  int    // read-backs in a row that did not match
	failures  int    // failures in a row, for the back-off
	lastAudit time.Time
	auditDue  bool // the manager was restarted, or has routed by itself: a read-back is due
	standby   bool // another manager is the master: nothing is published or written
	outdated  bool // mastership has changed since the action under way was asked for
}

// New returns an idle controller that knows no fabric.
func New(s Settings) *Controller {
	return &Controller{set: s, blind: true, fabrics: fabrics{flaps: flaps{seen: map[Lane]*flap{}}, maxLoss: s.MaxLoss}, outbox: outbox{raised: map[string]bool{}}}
}

// Wake is when the controller wants a Tick at the latest; zero for never.
func (c *Controller) Wake() time.Time {
	wake := c.flaps.next()
	if !c.deadline.IsZero() && (wake.IsZero() || c.deadline.Before(wake)) {
		return c.deadline
	}
	return wake
}

// Step takes an event and returns what is to be done, in order. At most one of
// the actions is answered by an event; warnings are not.
func (c *Controller) Step(now time.Time, e Event) []Action {
	c.out = nil
	switch e := e.(type) {
	case Tick:
		c.tick(now)
	case Found:
		c.seen(now, e.Snapshot, false)
	case Seen:
		c.seen(now, e.Snapshot, true)
	case Mastership:
		c.mastership(e.Master)
	case Refused:
		c.refused(e.Reason)
	case Reroute:
		c.reroute(now)
	case TablesDoubted:
		c.restarted(now)
	case Configured:
		c.set, c.maxLoss = e.Settings, e.Settings.MaxLoss
	default:
		c.answer(now, e)
	}
	// The set of withheld bouncing lanes may have changed, which has no other effect.
	if bouncing := c.Bouncing(); c.state == Idle && c.work != nil && c.work.Kind != OwnRoutes && c.raised[CableHeld] != (len(bouncing) > 0) {
		c.tellHeld(bouncing)
	}
	return c.out
}

// seen handles a fabric, changed or not. swept means that the manager's sweep that found it
// is over: only then has it loaded the tables.
func (c *Controller) seen(now time.Time, s Snapshot, swept bool) {
	if s.ID != c.refusal {
		c.clear(FabricRefused)
	}
	c.swept = swept || c.swept && c.latest.ID == s.ID
	c.latest, c.withheld = &s, union(s.Withheld, nil) // work under way takes it up at its end
	if swept && c.Busy() && c.work.Kind == OwnRoutes {
		c.auditDue = true // the manager may have routed it again
	}
	if c.Doubts() {
		c.suspect(now)
		return
	}
	c.believe(now)
	if c.state == Suspect {
		c.enter(Idle)
	}
	same := c.work != nil && c.work.ID == s.ID
	if same {
		c.work = c.latest // names may have changed
	}
	switch c.state {
	case Idle:
		if !c.settled() {
			c.begin(now)
		} else if swept {
			c.audit(now)
		}
	case Signalling:
		c.early = same && (c.early || swept)
	case Sweeping, Backoff:
		if !same {
			c.begin(now)
		} else if swept && (c.state == Sweeping || c.reread) {
			c.auditDue = false
			c.readBack()
		}
	}
	// In every other state an answer is due, and the fabric is handled then.
}

// refused records a dump that cannot be used. It does not affect a loss that waits to be
// confirmed; only another usable dump can.
func (c *Controller) refused(reason string) {
	c.warn(FabricRefused, reason)
	if c.state == Suspect {
		c.enter(Suspect)
	}
}

// restarted records a new process of the manager. Its first dump may have been seen already
// or is still to come.
func (c *Controller) restarted(now time.Time) {
	switch {
	case c.standby:
	case c.state == Backoff && c.raised[SignalFailed]:
		c.retry(now)
	case c.latest == nil:
	default:
		if c.work == nil || c.work.Kind != OwnRoutes { // whose routes are read after each sweep
			c.auditDue, c.confirmedID = true, ""
		}
		if c.state == Idle && c.settled() {
			c.readBack()
		}
	}
}

// Overtaken reports whether a fabric has been seen, and is believed, that the work
// under way is not for.
func (c *Controller) Overtaken() bool {
	return c.Busy() && c.latest.ID != c.work.ID && !c.Doubts()
}

// believe accepts the latest fabric. Losses are counted only here: cables that a
// half-discovered fabric lacks have not bounced.
func (c *Controller) believe(now time.Time) {
	c.latest.Lost = 0
	c.clear(FabricIncomplete)
	if c.latest.Kind != OwnRoutes {
		c.flaps.observe(now, minus(c.latest.Down, c.withheld), c.set) // those are not expected to stay up
	}
}

// suspect puts a mass disappearance aside until it has lasted. Work under way on
// the fabric before it goes on; see finish and fail.
func (c *Controller) suspect(now time.Time) {
	c.warn(FabricIncomplete, fmt.Sprintf("%.0f %% of the servers are missing from the manager's dump: nothing is changed unless this lasts %s or a reroute is asked for", 100*c.latest.Lost, c.set.Confirm))
	if !c.Busy() && (c.state != Suspect || c.deadline.IsZero()) {
		c.wait(Suspect, now.Add(c.set.Confirm))
	}
}

// audit reads the tables back though nothing changed, now and then: another
// manager, or a restarted one, may have programmed its own. Where the routes are the
// manager's, each sweep may have changed them.
func (c *Controller) audit(now time.Time) {
	if !c.auditDue && c.work.Kind != OwnRoutes && now.Sub(c.lastAudit) < c.set.Audit {
		return
	}
	c.auditDue, c.lastAudit = false, now
	if !c.standby {
		c.readBack()
	}
}

// begin starts work on the latest fabric. Its plan comes before its tables,
// unless it is not known which tables the switches hold.
func (c *Controller) begin(_ time.Time) {
	c.work, c.held, c.done, c.misreads, c.behind, c.stale = c.latest, c.holding(c.latest), false, 0, "", ""
	if c.work.Kind == OwnRoutes {
		c.follow()
		return
	}
	c.clear(NotFatTree, LiquidFailed)
	c.tellHeld(c.Bouncing())
	if c.standby {
		c.enter(Before)
		c.do(Plan{Fabric: c.work, Avoid: c.held, Hold: c.held, Ahead: true})
		return
	}
	if !c.known {
		c.write()
		return
	}
	c.enter(Before)
	fabric, avoid := c.Ground()
	c.do(Plan{Fabric: fabric, Avoid: avoid, Hold: c.held})
}

// follow starts work on a fabric whose routes are the manager's: its tables are read
// and planned on once the manager has routed it, and are not written. What was known
// of tables of ours says nothing any more.
func (c *Controller) follow() {
	c.warn(NotFatTree, c.work.Why)
	c.clear(CableHeld, PlanFailed, TablesFailed, SignalFailed, SweepTimeout, TablesStale)
	c.known, c.confirmedID, c.closed, c.auditDue = false, "", nil, false
	switch {
	case c.standby:
		c.done = true // its routes are not known before they are read
		c.enter(Idle)
	case c.swept:
		c.readBack()
	default:
		c.enter(Idle) // the end of the sweep begins it
	}
}

// Ground returns what a plan made now is for: the fabric worked on, nil before the first
// and while its routes are the manager's and have not been read, and the lanes that such a
// plan must avoid for it to hold on every table that the switches may have.
func (c *Controller) Ground() (fabric *Snapshot, avoid []Lane) {
	if c.work == nil || c.work.Kind == OwnRoutes && c.confirmedID == "" {
		return nil, nil
	}
	return c.work, union(c.held, minus(c.closed, c.work.Down))
}

// write has the tables written. From now on the manager may load them at any
// time, whatever becomes of this work: only a read-back opens the lanes again
// that they do not carry.
func (c *Controller) write() {
	c.done = false
	c.closed = union(c.closed, union(c.work.Down, c.held))
	c.enter(Writing)
	c.do(Write{Fabric: c.work, Hold: c.held})
}

func (c *Controller) readBack() {
	if c.work.Kind == OwnRoutes {
		c.confirmedID = "" // they are what the manager made of them
	}
	c.enter(Reading)
	c.do(ReadBack{Fabric: c.work, Hold: c.held})
}

// overtaken restarts the work when a different fabric has been seen since.
func (c *Controller) overtaken(now time.Time) bool {
	if c.latest.ID == c.work.ID || c.Doubts() {
		return false
	}
	c.begin(now)
	return true
}

// reroute does everything again, at an operator's word.
func (c *Controller) reroute(now time.Time) {
	if c.latest == nil || c.standby {
		return
	}
	c.force = true
	c.believe(now)
	if !c.Busy() {
		c.begin(now)
	}
}

func (c *Controller) tick(now time.Time) {
	if !c.deadline.IsZero() && !now.Before(c.deadline) {
		switch c.state {
		case Suspect:
			c.believe(now)
			c.begin(now)
		case Sweeping:
			c.fail(now, SweepTimeout, fmt.Sprintf("the manager wrote no dump within %s of the signal: it may have refused the table file, see its log", c.set.SweepTimeout))
		case Backoff:
			c.retry(now)
		}
	}
	if c.flaps.expire(now) && c.state == Idle && c.work != nil && c.work.Kind != OwnRoutes {
		c.begin(now)
	}
}

// retry resumes after a back-off: from the start when a plan was not published,
// for it comes before its tables, or when the tables are not ours; at the tables
// otherwise.
func (c *Controller) retry(now time.Time) {
	if c.raised[PublishFailed] || c.work.Kind == OwnRoutes {
		c.begin(now)
		return
	}
	if c.behind != "" {
		c.write() // the switches need no sweep
		return
	}
	c.again()
}

// again writes the tables and signals the manager even if they did not change.
func (c *Controller) again() {
	c.force = true
	c.write()
}

// fail backs off, unless there is something newer to work on.
func (c *Controller) fail(now time.Time, code, text string) {
	c.warn(code, text)
	c.done = false
	switch {
	case c.overtaken(now):
		return
	case c.Doubts():
		c.wait(Suspect, now.Add(c.set.Confirm))
		return
	case c.blind && code == SweepTimeout:
		c.readBack() // the plan may hold on the tables as they are
		return
	}
	c.reread = code != TablesFailed && code != PublishFailed
	pause := c.set.RetryMax
	if c.failures < 20 {
		pause = min(pause, c.set.RetryFirst<<c.failures)
	}
	c.failures++
	c.wait(Backoff, now.Add(pause))
}
