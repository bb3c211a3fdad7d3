package controller

import "time"

// Standby tells whether another manager is the master.
func (c *Controller) Standby() bool { return c.standby }

// mastership takes note of whether the manager next door is the master. Beside
// one that is not, the controller plans what it sees, to be ready, and has nothing
// published or written: those are the business of the daemon beside the master.
// What the switches hold then is not known any more. Work begins when the new
// master has found the fabric, and as at the first start: with the tables, which
// are those in force if nothing has changed.
func (c *Controller) mastership(master bool) {
	if c.standby == !master {
		return
	}
	c.standby, c.outdated = !master, c.Busy()
	c.known, c.confirmedID, c.done, c.force, c.swept = false, "", false, false, false
	c.clear(PublishFailed, TablesFailed, SignalFailed, SweepTimeout, ReadBackFailed, TablesStale)
	if !c.outdated {
		c.enter(Idle)
	}
}

// watched takes the answer to what was asked for before mastership changed, and to
// a plan made beside a manager that is not the master: nothing follows from either.
func (c *Controller) watched(now time.Time, e Event) {
	overtaken := c.outdated || c.work.ID != c.latest.ID
	c.outdated = false
	c.enter(Idle)
	p, planned := e.(Planned)
	switch {
	case c.Doubts():
		c.wait(Suspect, now.Add(c.set.Confirm))
	case overtaken:
		c.begin(now)
	case planned && p.Err != "":
		c.warn(PlanFailed, p.Err)
		c.done = true
	case planned:
		c.clear(PlanFailed)
		c.done = true
	}
}
