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
	"slices"
	"time"
)

// Lane names one cable of the tree: a leaf and a lane, by index.
type Lane struct{ Leaf, Lane int }

// String prints leaf/lane.
func (l Lane) String() string { return fmt.Sprintf("%d/%d", l.Leaf, l.Lane) }

func compareLanes(a, b Lane) int {
	if a.Leaf != b.Leaf {
		return a.Leaf - b.Leaf
	}
	return a.Lane - b.Lane
}

// State is what the controller is waiting for.
type State uint8

// The states, in the order in which a change passes through them.
const (
	Idle       State = iota // nothing to do
	Suspect                 // a mass disappearance waits to be confirmed
	Before                  // a plan without the lost lanes is being made
	Publishing              // that plan is being published
	Writing                 // the tables are being written
	Signalling              // the manager is being signalled
	Sweeping                // the manager's sweep is awaited
	Reading                 // the tables are being read back
	After                   // a plan for the confirmed tables is being made
	Finishing               // that plan is being published
	Backoff                 // something failed; it is tried again later
)

var stateNames = [...]string{"idle", "suspect", "planning-before", "publishing-before", "writing-tables", "signalling",
	"awaiting-sweep", "reading-back", "planning-after", "publishing-after", "backing-off"}

// String is the state's name, as the API shows it.
func (s State) String() string { return stateNames[s] }

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

// Snapshot is a fabric as the controller sees it.
type Snapshot struct {
	ID   string  // digest of fabric and baseline: equal IDs need equal plans and tables
	Down []Lane  // lanes that no schedule can use, ascending
	Lost float64 // share of the servers in force that are missing from it
}

// Controller is the state machine. Its zero value is not usable: see New.
type Controller struct {
	set   Settings
	state State

	latest *Snapshot // the last fabric seen, whether believed or not
	work   *Snapshot // the fabric being worked on, or in force when Idle

	confirmed     bool   // tables have been read back and match
	confirmedID   string // … for this fabric
	confirmedDown []Lane // … with these lanes out of use

	flaps     flaps
	held      []Lane // lanes held back in the work in progress, ascending
	force     bool   // signal even when the table file did not change
	reread    bool   // in Backoff: the table file is whole, a new dump is worth a read-back
	misreads  int    // read-backs in a row that did not match
	failures  int    // failures in a row, for the back-off
	resume    time.Time
	deadline  time.Time // of Sweeping and Suspect
	lastAudit time.Time
	raised    map[string]bool // codes of the warnings in force
	out       []Action
}

// New returns an idle controller that knows no fabric.
func New(s Settings) *Controller {
	return &Controller{set: s, flaps: flaps{seen: map[Lane]*flap{}}, raised: map[string]bool{}}
}

// State tells what the controller waits for.
func (c *Controller) State() State { return c.state }

// Held lists the lanes that are held back because they keep bouncing.
func (c *Controller) Held() []Lane { return slices.Clone(c.held) }

// Wake is when the controller wants a Tick at the latest; zero for never.
func (c *Controller) Wake() time.Time {
	wake := c.flaps.next()
	for _, t := range []time.Time{c.resume, c.deadline} {
		if !t.IsZero() && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
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
	case Seen:
		c.seen(now, e.Snapshot)
	case Refused:
		c.warn(FabricRefused, e.Reason)
	case Reroute:
		c.reroute(now)
	case ManagerRestarted:
		c.lastAudit = time.Time{}
		if c.state == Backoff && c.raised[SignalFailed] {
			c.retry(now)
		}
	default:
		c.answer(now, e)
	}
	return c.out
}

func (c *Controller) do(a Action) { c.out = append(c.out, a) }

func (c *Controller) warn(code, text string) {
	c.raised[code] = true
	c.do(Warn{code, text})
}

func (c *Controller) clear(codes ...string) {
	for _, code := range codes {
		if c.raised[code] {
			delete(c.raised, code)
			c.do(Clear{code})
		}
	}
}

// seen takes in a fabric: every complete dump of the manager, changed or not.
func (c *Controller) seen(now time.Time, s Snapshot) {
	c.clear(FabricRefused)
	known := c.latest != nil && c.latest.ID == s.ID
	c.latest = &s
	if !known {
		c.flaps.observe(now, s.Down, c.set)
	}
	if s.Lost > c.set.MaxLoss && (c.work == nil || c.work.ID != s.ID) {
		c.suspect(now, s)
		return
	}
	if c.state == Suspect {
		c.clear(FabricIncomplete)
		c.enter(Idle)
	}
	switch {
	case c.state == Idle && c.settled():
		c.audit(now)
	case c.state == Idle:
		c.begin(now)
	case c.state == Sweeping && c.work.ID == s.ID, c.state == Backoff && c.work.ID == s.ID && c.reread:
		c.readBack()
	case c.state == Sweeping, c.state == Backoff && c.work.ID != s.ID:
		c.begin(now)
	}
	// In every other state an answer is due, and what was seen is taken up then.
}

// suspect puts a mass disappearance aside until it has lasted.
func (c *Controller) suspect(now time.Time, s Snapshot) {
	text := fmt.Sprintf("%.0f %% of the servers are missing from the manager's dump: nothing is changed unless this lasts %s or a reroute is asked for", 100*s.Lost, c.set.Confirm)
	switch c.state {
	case Suspect:
	case Idle, Sweeping, Backoff:
		c.enter(Suspect)
		c.deadline = now.Add(c.set.Confirm)
	}
	c.warn(FabricIncomplete, text)
}

// settled tells whether tables and plan in force fit what was last seen.
func (c *Controller) settled() bool {
	return c.work != nil && c.confirmed && c.work.ID == c.latest.ID && slices.Equal(c.held, c.flaps.held())
}

// audit reads the tables back though nothing changed, now and then: another
// manager, or a restarted one, may have programmed its own.
func (c *Controller) audit(now time.Time) {
	if !c.lastAudit.IsZero() && now.Sub(c.lastAudit) < c.set.Audit {
		return
	}
	c.lastAudit = now
	c.readBack()
}

// begin starts work on the latest fabric.
func (c *Controller) begin(now time.Time) {
	c.work, c.held = c.latest, c.flaps.held()
	c.deadline, c.resume, c.misreads = time.Time{}, time.Time{}, 0
	if len(c.held) > 0 {
		c.warn(CableHeld, fmt.Sprintf("%d cables keep bouncing and are not used for now: %v", len(c.held), c.held))
	} else {
		c.clear(CableHeld)
	}
	if !c.confirmed {
		c.write()
		return
	}
	c.enter(Before)
	c.do(Plan{Fabric: c.work.ID, Avoid: union(c.held, c.unconfirmed()), Hold: c.held})
}

// unconfirmed lists the lanes that are up now and were not when the tables in
// force were made.
func (c *Controller) unconfirmed() []Lane { return minus(c.confirmedDown, c.work.Down) }

func (c *Controller) enter(s State) { c.state = s }

func (c *Controller) write() {
	c.enter(Writing)
	c.do(Write{Fabric: c.work.ID, Hold: c.held})
}

func (c *Controller) readBack() {
	c.deadline, c.resume = time.Time{}, time.Time{}
	c.enter(Reading)
	c.do(ReadBack{Fabric: c.work.ID, Hold: c.held})
}

// overtaken restarts the work when a different fabric was seen meanwhile.
func (c *Controller) overtaken(now time.Time) bool {
	if c.latest.ID == c.work.ID {
		return false
	}
	if c.latest.Lost > c.set.MaxLoss {
		c.enter(Idle)
		c.suspect(now, *c.latest)
		return true
	}
	c.begin(now)
	return true
}

// reroute does everything anew, at an operator's word.
func (c *Controller) reroute(now time.Time) {
	if c.latest == nil {
		return
	}
	c.force = true
	c.clear(FabricIncomplete)
	c.latest.Lost = 0
	switch c.state {
	case Idle, Suspect, Sweeping, Backoff:
		c.begin(now)
	}
}

func (c *Controller) tick(now time.Time) {
	switch {
	case c.state == Suspect && !now.Before(c.deadline):
		c.latest.Lost = 0
		c.clear(FabricIncomplete)
		c.begin(now)
	case c.state == Sweeping && !now.Before(c.deadline):
		c.fail(now, SweepTimeout, fmt.Sprintf("the manager wrote no dump within %s of the signal: it may have refused the table file, see its log", c.set.SweepTimeout))
	case c.state == Backoff && !now.Before(c.resume):
		c.retry(now)
	}
	if c.flaps.expire(now) && c.state == Idle && c.work != nil {
		c.begin(now)
	}
}

// retry resumes after a back-off: from the start when a plan was not published,
// for it comes before its tables; at the tables otherwise.
func (c *Controller) retry(now time.Time) {
	c.resume = time.Time{}
	if c.raised[PublishFailed] {
		c.begin(now)
		return
	}
	c.again()
}

// again writes the tables and signals the manager even if they did not change.
func (c *Controller) again() {
	c.force = true
	c.write()
}

// fail backs off.
func (c *Controller) fail(now time.Time, code, text string) {
	c.warn(code, text)
	c.reread = code != TablesFailed && code != PublishFailed
	wait := c.set.RetryMax
	if c.failures < 20 {
		wait = min(wait, c.set.RetryFirst<<c.failures)
	}
	c.failures++
	c.deadline = time.Time{}
	c.resume = now.Add(wait)
	c.enter(Backoff)
}
