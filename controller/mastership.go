package controller

import "time"

// Standby reports whether another manager is the master.
func (c *Controller) Standby() bool { return c.standby }

// mastership records whether the local manager is the master. If it is not, the controller
// plans the fabric it sees, to be ready, and requests nothing else: the master's daemon
// publishes and writes. The tables in the switches are then unknown. Work begins when the new
// master has found the fabric, in the same way as at the first start: with the tables, which
// are those in force if nothing has changed.
func (c *Controller) mastership(master bool) {
	if c.standby == !master {
		return
	}
	c.standby, c.outdated = !master, c.Busy()
	c.known, c.confirmedID, c.done, c.force, c.swept = false, "", false, false, false
	c.out.clear(PublishFailed, TablesFailed, SignalFailed, SweepTimeout, ReadBackFailed, TablesStale)
	if !c.outdated {
		c.at.enter(Idle)
	}
}

// watched handles a response to a request made before mastership changed, or to a plan made
// while the manager is not the master: neither has consequences.
func (c *Controller) watched(now time.Time, e Event) {
	overtaken := c.outdated || c.work.ID != c.latest.ID
	c.outdated = false
	c.at.enter(Idle)
	p, planned := e.(Planned)
	switch {
	case c.LossUnconfirmed():
		c.at.wait(Suspect, now.Add(c.set.Confirm))
	case overtaken:
		c.begin(now)
	case planned && p.Err != "":
		c.out.warn(PlanFailed, p.Err)
		c.done = true
	case planned:
		c.out.clear(PlanFailed)
		c.done = true
	}
}
