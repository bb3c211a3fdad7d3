package delivery

import (
	"slices"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
)

// TestKept checks the limit on the tables remembered without a read-back. The oldest are
// forgotten, but never tables that OpenSM can load.
func TestKept(t *testing.T) {
	c, now := New(nil, func(a, b *lft.Tables) bool { return a != b }), time.Now()
	var last *lft.Tables
	for n := range Kept + 1 {
		if got := len(c.Possible()); got != 1+n {
			t.Errorf("%d tables are possible after %d orders", got, n)
		}
		last = &lft.Tables{}
		c.Step(now, Order{Fabric: "A", Tables: last})
		c.Step(now, FileWritten{Changed: true})
	}
	if p := c.Possible(); len(p) != 1+Kept || p[Kept] != last {
		t.Errorf("%d tables are possible", len(p))
	}
}

// TestKeptBySweep orders more tables than are remembered while a sweep has not yet
// confirmed the tables that it was given. The switches may still receive these.
func TestKeptBySweep(t *testing.T) {
	c, now := New(nil, func(a, b *lft.Tables) bool { return a != b }), time.Now()
	given := &lft.Tables{}
	for _, e := range []Event{Connected{}, Order{Fabric: "A", Tables: given}, SweepStarted{}, Asked{Number: 1, Fabric: "A", Deadline: now.Add(time.Second)}} {
		c.Step(now, e)
	}
	for n := range 2 * Kept {
		for _, e := range []Event{FileWritten{Changed: true}, Order{Fabric: "A", Tables: &lft.Tables{}}, Tick{}} {
			c.Step(now, e)
			now = now.Add(FileWithin)
			if p := c.Possible(); !slices.Contains(p, given) {
				t.Errorf("after %d further orders the tables given to the sweep are forgotten", n+1)
			}
		}
	}
}
