package delivery

import (
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
)

// TestKept bounds what is remembered of tables that nobody has read back: the oldest are
// forgotten, and what OpenSM can load never is.
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
