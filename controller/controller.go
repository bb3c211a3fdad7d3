// Package controller decides the next steps. It is a pure state machine: its input is an event,
// its output a batch of actions, and the caller supplies the time. It does not read files,
// start goroutines or know the fabric's structure. The daemon carries out its actions and
// answers each of them with an event.
//
// The order of its actions follows the rule "make before break": a plan without the lost lanes
// is published before the tables are changed, and a plan that uses returned lanes is published
// after the tables that carry them have been read back. docs/architecture.md has a diagram of
// the states.
package controller

import (
	"fmt"
	"time"
)

// Lane identifies a cable of the tree by the indices of a leaf and a lane.
type Lane struct{ Leaf, Lane int }

// String returns the lane as leaf/lane.
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
	RetryFirst   time.Duration // first delay after a failure; it doubles up to RetryMax
	RetryMax     time.Duration
	HoldDown     time.Duration // first hold of an unstable cable; it doubles up to HoldDownMax
	HoldDownMax  time.Duration
	Flaps        int           // losses within FlapWindow that make a cable unstable
	FlapWindow   time.Duration // how long a loss is remembered
	MaxLoss      float64       // share of the servers that may vanish together without confirmation
	Confirm      time.Duration // how long a larger loss must last before it is accepted
	Audit        time.Duration // minimum interval between unprovoked read-backs
}

// Controller is the state machine. Its zero value is not usable; create it with New.
type Controller struct {
	set Settings
	at  waiting
	out outbox
	fabrics

	known       bool   // tables have been read back, matching or not
	confirmedID string // the fabric whose tables were read back and are still in the table file
	closed      []Lane // lanes missing from some tables that the switches may hold, ascending

	force     bool   // signal even if the table file is unchanged, and make a new plan
	early     bool   // in Signalling: a dump came before the answer to the signal
	noPlan    bool   // the last requested plan could not be made
	refusal   string // the fabric that is refused because of its plan, or empty
	reread    bool   // in Backoff: the table file is complete, and a new dump justifies a read-back
	behind    string // why the table file lacks the tables in the switches, or ""
	blind     bool   // no plan has been verified on tables read back since New
	stale     string // while planning for the tables read back: how they differ from the planned ones
	misreads  int    // consecutive read-backs that did not match
	failures  int    // consecutive failures, for the delay
	lastAudit time.Time
	auditDue  bool // the manager restarted or routed by itself: a read-back is due
	standby   bool // another manager is the master: nothing is published or written
	outdated  bool // mastership has changed since the current action was requested
}

// New returns an idle controller without a fabric.
func New(s Settings) *Controller {
	return &Controller{set: s, blind: true, fabrics: fabrics{flaps: flaps{seen: map[Lane]*flap{}}, maxLoss: s.MaxLoss}, out: outbox{raised: map[string]bool{}}}
}

// State returns the controller's state.
func (c *Controller) State() State { return c.at.state }

// Busy reports whether an action is in progress and its answer is due.
func (c *Controller) Busy() bool {
	switch c.at.state {
	case Idle, Suspect, Sweeping, Backoff:
		return false
	}
	return true
}

// Wake returns the latest time for the next Tick; zero means never.
func (c *Controller) Wake() time.Time {
	wake := c.flaps.next()
	if !c.at.deadline.IsZero() && (wake.IsZero() || c.at.deadline.Before(wake)) {
		return c.at.deadline
	}
	return wake
}

// Step handles an event and returns the resulting actions in order. At most one of the actions
// is answered by an event; warnings have no answer.
func (c *Controller) Step(now time.Time, e Event) []Action {
	c.out.actions = nil
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
		c.out.warn(FabricRefused, e.Reason)
		if c.at.state == Suspect {
			c.at.enter(Suspect) // only another usable dump can confirm the loss
		}
	case Reroute:
		c.reroute(now)
	case TablesDoubted:
		c.restarted(now)
	case Configured:
		c.set, c.maxLoss = e.Settings, e.Settings.MaxLoss
	default:
		c.answer(now, e)
	}
	// The set of withheld unstable lanes may have changed, which has no other effect.
	if bouncing := c.Bouncing(); c.at.state == Idle && c.work != nil && c.work.Kind != OwnRoutes && c.out.raised[CableHeld] != (len(bouncing) > 0) {
		c.out.tellHeld(bouncing)
	}
	return c.out.actions
}

// seen handles a fabric, changed or not. swept means that the manager's sweep has ended: only
// then has the manager loaded the tables.
func (c *Controller) seen(now time.Time, s Snapshot, swept bool) {
	if s.ID != c.refusal {
		c.out.clear(FabricRefused)
	}
	c.swept = swept || c.swept && c.latest.ID == s.ID
	c.latest, c.withheld = &s, union(s.Withheld, nil) // current work adopts it at its end
	if swept && c.Busy() && c.work.Kind == OwnRoutes {
		c.auditDue = true // the manager may have routed the fabric again
	}
	if c.LossUnconfirmed() {
		c.suspect(now)
		return
	}
	c.believe(now)
	if c.at.state == Suspect {
		c.at.enter(Idle)
	}
	same := c.work != nil && c.work.ID == s.ID
	if same {
		c.work = c.latest // names may have changed
	}
	switch c.at.state {
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
		} else if swept && (c.at.state == Sweeping || c.reread) {
			c.auditDue = false
			c.readBack()
		}
	}
	// In all other states an answer is due, after which the fabric is handled.
}

// restarted records a new process of the manager. Its first dump may have been seen already, or
// may be still to come.
func (c *Controller) restarted(now time.Time) {
	switch {
	case c.standby:
	case c.at.state == Backoff && c.out.raised[SignalFailed]:
		c.retry(now)
	case c.latest == nil:
	default:
		if c.work == nil || c.work.Kind != OwnRoutes { // OwnRoutes are read after each sweep
			c.auditDue, c.confirmedID = true, ""
		}
		if c.at.state == Idle && c.settled() {
			c.readBack()
		}
	}
}

// Superseded reports whether a fabric other than that of the current work has been seen and
// accepted.
func (c *Controller) Superseded() bool {
	return c.Busy() && c.latest.ID != c.work.ID && !c.LossUnconfirmed()
}

// believe accepts the latest fabric. Losses are counted only here, because the missing cables
// of an incomplete discovery did not fail.
func (c *Controller) believe(now time.Time) {
	c.latest.Lost = 0
	c.out.clear(FabricIncomplete)
	if c.latest.Kind != OwnRoutes {
		c.flaps.observe(now, minus(c.latest.Down, c.withheld), c.set) // withheld lanes are not expected to stay up
	}
}

// suspect sets a mass disappearance aside until it has lasted. Work on the previous fabric
// continues; see finish and fail.
func (c *Controller) suspect(now time.Time) {
	c.out.warn(FabricIncomplete, fmt.Sprintf("%.0f %% of the servers are missing from the manager's dump: nothing is changed unless this lasts %s or a reroute is asked for", 100*c.latest.Lost, c.set.Confirm))
	if !c.Busy() && (c.at.state != Suspect || c.at.deadline.IsZero()) {
		c.at.wait(Suspect, now.Add(c.set.Confirm))
	}
}

// audit occasionally reads the tables back without a change, because another or a restarted
// manager may have programmed its own tables. If the manager makes the routes, each sweep may
// have changed them.
func (c *Controller) audit(now time.Time) {
	if !c.auditDue && c.work.Kind != OwnRoutes && now.Sub(c.lastAudit) < c.set.Audit {
		return
	}
	c.auditDue, c.lastAudit = false, now
	if !c.standby {
		c.readBack()
	}
}

// begin starts work on the latest fabric. Its plan comes before its tables, unless the tables
// in the switches are unknown.
func (c *Controller) begin(_ time.Time) {
	c.work, c.held, c.done, c.misreads, c.behind, c.stale = c.latest, c.holding(c.latest), false, 0, "", ""
	if c.work.Kind == OwnRoutes {
		c.follow()
		return
	}
	c.out.clear(NotFatTree, LiquidFailed)
	c.out.tellHeld(c.Bouncing())
	if c.standby {
		c.at.enter(Before)
		c.out.do(Plan{Fabric: c.work, Avoid: c.held, Hold: c.held, Ahead: true})
		return
	}
	if !c.known {
		c.write()
		return
	}
	c.at.enter(Before)
	fabric, avoid := c.Ground()
	c.out.do(Plan{Fabric: fabric, Avoid: avoid, Hold: c.held})
}

// follow starts work on a fabric whose routes the manager makes. Once the manager has routed
// it, its tables are read and planned on, but not written. Earlier knowledge about forsd's
// tables no longer applies.
func (c *Controller) follow() {
	c.out.warn(NotFatTree, c.work.Why)
	c.out.clear(CableHeld, PlanFailed, TablesFailed, SignalFailed, SweepTimeout, TablesStale)
	c.known, c.confirmedID, c.closed, c.auditDue = false, "", nil, false
	switch {
	case c.standby:
		c.done = true // the routes are unknown until they are read
		c.at.enter(Idle)
	case c.swept:
		c.readBack()
	default:
		c.at.enter(Idle) // work begins at the end of the sweep
	}
}

// Ground returns the basis for a plan made now: the fabric of the current work, and the lanes
// that the plan must avoid to hold on all tables that the switches may have. The fabric is nil
// before the first one, and while its routes are the manager's and have not been read.
func (c *Controller) Ground() (fabric *Snapshot, avoid []Lane) {
	if c.work == nil || c.work.Kind == OwnRoutes && c.confirmedID == "" {
		return nil, nil
	}
	return c.work, union(c.held, minus(c.closed, c.work.Down))
}

// write requests the tables to be written. From now on the manager may load them at any time,
// whatever the outcome of this work. Only a read-back opens the lanes again that they do not
// carry.
func (c *Controller) write() {
	c.done = false
	c.closed = union(c.closed, union(c.work.Down, c.held))
	c.at.enter(Writing)
	c.out.do(Write{Fabric: c.work, Hold: c.held})
}

func (c *Controller) readBack() {
	if c.work.Kind == OwnRoutes {
		c.confirmedID = "" // the manager has made them
	}
	c.at.enter(Reading)
	c.out.do(ReadBack{Fabric: c.work, Hold: c.held})
}

// overtaken restarts the work when a different fabric has been seen since.
func (c *Controller) overtaken(now time.Time) bool {
	if c.latest.ID == c.work.ID || c.LossUnconfirmed() {
		return false
	}
	c.begin(now)
	return true
}

// reroute repeats everything, by order of an operator.
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
	if !c.at.deadline.IsZero() && !now.Before(c.at.deadline) {
		switch c.at.state {
		case Suspect:
			c.believe(now)
			c.begin(now)
		case Sweeping:
			c.fail(now, SweepTimeout, fmt.Sprintf("the manager wrote no dump within %s of the signal: it may have refused the table file, see its log", c.set.SweepTimeout))
		case Backoff:
			c.retry(now)
		}
	}
	if c.flaps.expire(now) && c.at.state == Idle && c.work != nil && c.work.Kind != OwnRoutes {
		c.begin(now)
	}
}

// retry continues after a delay. It starts again if a plan was not published, because the plan
// comes before its tables, or if the tables are not forsd's. Otherwise it continues with the
// tables.
func (c *Controller) retry(now time.Time) {
	if c.out.raised[PublishFailed] || c.work.Kind == OwnRoutes {
		c.begin(now)
		return
	}
	c.force = c.force || c.behind == "" // otherwise the switches do not need a sweep
	c.write()
}

// fail waits before a retry, unless there is newer work.
func (c *Controller) fail(now time.Time, code, text string) {
	c.out.warn(code, text)
	c.done = false
	switch {
	case c.overtaken(now):
		return
	case c.LossUnconfirmed():
		c.at.wait(Suspect, now.Add(c.set.Confirm))
		return
	case c.blind && code == SweepTimeout:
		c.readBack() // the plan may hold on the current tables
		return
	}
	c.reread = code != TablesFailed && code != PublishFailed
	pause := c.set.RetryMax
	if c.failures < 20 {
		pause = min(pause, c.set.RetryFirst<<c.failures)
	}
	c.failures++
	c.at.wait(Backoff, now.Add(pause))
}
