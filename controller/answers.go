package controller

import (
	"slices"
	"time"
)

// answer handles the outcome of the action that the controller waits for. It ignores late
// outcomes of other actions.
func (c *Controller) answer(now time.Time, e Event) {
	if c.standby || c.outdated {
		if c.Busy() {
			c.watched(now, e)
		}
		return
	}
	switch e := e.(type) {
	case Planned:
		if c.at.state == Before || c.at.state == After {
			c.planned(now, e)
		}
	case Published:
		if c.at.state == Publishing || c.at.state == Finishing {
			c.published(now, e)
		}
	case Written:
		if c.at.state == Writing {
			c.written(now, e)
		}
	case Signalled:
		if c.at.state == Signalling {
			c.signalled(now, e)
		}
	case ReadBackDone:
		if c.at.state == Reading {
			c.wasRead(now, e)
		}
	}
}

func (c *Controller) planned(now time.Time, e Planned) {
	switch {
	case c.overtaken(now):
		return
	case e.GivenUp && c.LossUnconfirmed():
		c.at.wait(Suspect, now.Add(c.set.Confirm))
		return
	case e.GivenUp:
		c.begin(now)
		return
	}
	next := Publishing
	if c.at.state == After {
		next = Finishing
	}
	if next == Finishing && c.reroutedMeanwhile() { // before Finishing the tables are still to be written
		return
	}
	if e.Err == "" {
		if c.refusal != "" {
			c.out.clear(FabricRefused)
		}
		c.noPlan, c.refusal = false, ""
		c.blind = c.blind && next == Publishing
		c.out.clear(PlanFailed, LiquidFailed)
	}
	switch {
	case e.Err == "" && !e.Same:
		c.at.enter(next)
		c.out.do(Publish{Fabric: c.work})
	case e.Err == "":
		c.afterPublish(now, next)
	case next == Publishing:
		// New hosts and LIDs are unreachable with the tables in force, so the tables come
		// first. Held lanes that the plan in force may use stay in them, for the first time:
		// on the new tables there may be a plan without; see finish.
		if c.confirmedID != c.work.ID {
			c.held = minus(c.held, minus(c.held, c.closed))
		}
		c.write()
	default:
		if c.behind == "" && c.stale == "" {
			c.planless(e)
		}
		c.finish(now)
	}
}

// planless handles a failure to plan the fabric on the tables read back. The plan in force is
// not changed.
func (c *Controller) planless(e Planned) {
	code := PlanFailed
	switch {
	case e.Refused:
		code, c.refusal = FabricRefused, c.work.ID
	case c.work.Kind == OwnRoutes:
		code = LiquidFailed
	}
	c.noPlan = true
	c.out.warn(code, e.Err)
}

// reroutedMeanwhile reads the tables again if the manager may have replaced them since they
// were read.
func (c *Controller) reroutedMeanwhile() bool {
	if !c.auditDue || c.work.Kind != OwnRoutes && c.confirmedID != "" {
		return false
	}
	c.auditDue = false
	c.readBack()
	return true
}

func (c *Controller) published(now time.Time, e Published) {
	if e.Err != "" {
		c.fail(now, PublishFailed, e.Err)
		return
	}
	c.out.clear(PublishFailed)
	if c.overtaken(now) {
		return
	}
	c.afterPublish(now, c.at.state)
}

func (c *Controller) afterPublish(now time.Time, s State) {
	if s == Finishing {
		c.finish(now)
		return
	}
	c.write()
}

// finish ends the work: the plan and the tables in force fit the fabric.
func (c *Controller) finish(now time.Time) {
	if c.behind != "" {
		c.out.do(Settled{Fabric: c.work, Planless: c.noPlan})
		c.fail(now, TablesFailed, c.behind) // the file is written again
		return
	}
	if c.stale != "" {
		c.mismatch(now)
		return
	}
	c.failures, c.misreads = 0, 0
	c.out.clear(PublishFailed, TablesFailed, SignalFailed, SweepTimeout, ReadBackFailed, TablesStale)
	if c.force && !c.LossUnconfirmed() {
		c.begin(now) // a reroute was requested after the signal
		return
	}
	if c.reroutedMeanwhile() {
		return
	}
	c.done = true
	c.at.enter(Idle)
	c.out.do(Settled{Fabric: c.work, Planless: c.noPlan})
	switch {
	case c.LossUnconfirmed():
		c.at.wait(Suspect, now.Add(c.set.Confirm))
	case !slices.Equal(c.held, c.holding(c.work)):
		c.begin(now) // a hold ended in the meantime, or a held lane is still in the tables
	}
}

func (c *Controller) written(now time.Time, e Written) {
	if e.Changed || e.Err != "" {
		c.confirmedID = ""
	}
	if e.Err != "" {
		c.fail(now, TablesFailed, e.Err)
		return
	}
	if c.behind == "" {
		c.out.clear(TablesFailed)
	}
	switch {
	case c.overtaken(now):
	case e.Changed || c.force:
		c.force, c.early = false, false
		c.at.enter(Signalling)
		c.out.do(Signal{})
	case c.confirmedID == c.work.ID:
		c.planAfter()
	default:
		c.readBack()
	}
}

func (c *Controller) signalled(now time.Time, e Signalled) {
	if e.Err != "" {
		c.fail(now, SignalFailed, e.Err)
		return
	}
	c.out.clear(SignalFailed)
	if c.overtaken(now) {
		return
	}
	if c.early {
		c.readBack() // in case the dump is from a sweep before the signal: see mismatch
		return
	}
	c.at.wait(Sweeping, now.Add(c.set.SweepTimeout))
}

func (c *Controller) wasRead(now time.Time, e ReadBackDone) {
	c.behind = e.Unwritten
	c.known = (c.known || e.Err == "") && c.work.Kind != OwnRoutes
	if e.Match && e.Unwritten == "" {
		c.confirmedID = c.work.ID
		c.closed = union(c.work.Down, c.held)
		c.lastAudit = now
		c.out.clear(TablesFailed, ReadBackFailed, TablesStale, SweepTimeout, SignalFailed)
	}
	if c.overtaken(now) {
		return
	}
	switch {
	case e.Match && e.Unwritten == "":
		c.misreads = 0
		c.planAfter()
	case e.Err != "":
		c.fail(now, ReadBackFailed, e.Err)
	case e.Unwritten != "":
		c.confirmedID, c.misreads = "", 0
		c.out.warn(TablesFailed, e.Unwritten)
		c.planAfter()
	default:
		c.confirmedID, c.stale = "", "the switches do not hold the tables planned: "+e.Difference
		if c.misreads++; c.blind {
			c.planAfter() // the manager may hang, and the plan may not use the entries that differ
		} else {
			c.mismatch(now)
		}
	}
}

// mismatch makes the manager load the tables again that the switches do not hold. The first
// time, the manager may not have been informed, or the dump may be from the sweep before. After
// that it is a failure.
func (c *Controller) mismatch(now time.Time) {
	text := c.stale
	if c.stale = ""; c.misreads > 1 {
		c.fail(now, TablesStale, text)
		return
	}
	c.force = true
	c.write()
}

func (c *Controller) planAfter() {
	p := Plan{Fabric: c.work, Avoid: c.held, Hold: c.held, Final: true}
	if c.behind != "" || c.stale != "" { // the file could bring back tables without the closed lanes
		_, p.Avoid = c.Ground()
	}
	if p.Fabric.Kind == OwnRoutes { // a reroute needs no signal
		p.Anew, c.force = c.force, false
	}
	c.at.enter(After)
	c.out.do(p)
}

// union and minus operate on ascending lists.
func union(a, b []Lane) []Lane {
	all := slices.Concat(a, b)
	slices.SortFunc(all, Compare)
	return slices.Compact(all)
}

func minus(a, b []Lane) []Lane {
	var out []Lane
	for _, l := range a {
		if _, found := slices.BinarySearchFunc(b, l, Compare); !found {
			out = append(out, l)
		}
	}
	return out
}
