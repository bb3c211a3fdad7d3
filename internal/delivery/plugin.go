package delivery

import (
	"slices"
	"time"
)

// ofPlugin handles the plugin's events: its sweeps, and its use of the answers.
func (c *Core) ofPlugin(now time.Time, e Event) {
	s := &c.sweep
	switch e := e.(type) {
	case Connected:
		c.sweep = sweep{connected: true}
	case Disconnected:
		for _, a := range c.asks {
			c.do(Answer{Number: a.Number, Why: "OpenSM's plugin has gone"})
		}
		c.sweep, c.asks = sweep{}, nil
	case SweepStarted:
		c.sweep = sweep{connected: true, state: unasked, routing: true}
	case Routed:
		s.routing = false
	case SweepEnded:
		c.ended()
	case Missed:
		s.state, s.given = unserved, nil
	case Asked:
		s.routing = s.routing || s.state != noSweep // a sweep may route twice
		if !now.Before(e.Deadline) {
			c.do(Answer{Number: e.Number, Late: true})
			if s.state == unasked { // otherwise OpenSM has continued, and the sweep may be over
				s.state = unserved
			}
			return
		}
		c.asks, s.state = append(c.asks, e), unasked
	case Withdrawn:
		for i := range c.asks {
			if c.asks[i].Number == e.Number {
				c.asks[i].Deadline = now
			}
		}
	}
}

// ended handles the end of a sweep. The sweep counts as having loaded the tables
// ordered unless another one was asked for or it loaded older tables.
func (c *Core) ended() {
	s := &c.sweep
	if s.state != served {
		s.given = nil
	}
	s.state, s.routing = noSweep, false
	if !s.ordered && (s.given == nil || s.given == c.tables) {
		c.do(Loaded{})
	}
}

// serve answers questions whose tables exist or were declined, or whose deadline has
// passed.
func (c *Core) serve(now time.Time) {
	c.asks = slices.DeleteFunc(c.asks, func(a Asked) bool {
		s := &c.sweep
		switch {
		case !now.Before(a.Deadline):
			s.state = unserved
			c.do(Answer{Number: a.Number, Late: true})
		case c.tables != nil && c.fabric == a.Fabric:
			s.state, s.given = served, c.tables
			c.do(Answer{Number: a.Number, Tables: c.tables})
		case c.declined == a.Fabric:
			s.state = unserved
			c.do(Answer{Number: a.Number, Why: c.why})
		default:
			return false
		}
		s.routing = true // OpenSM loads tables now; they are not confirmed
		return true
	})
}
