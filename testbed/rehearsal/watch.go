package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/e2e"
)

// Watch follows the plans of several forsd as ranks do, through restarts, and checks that a
// number stands for one plan for ever and that no reader sees the numbers go down. The numbers
// of plans for base LIDs are of their own.
type Watch struct {
	mu          sync.Mutex
	plans, base numbers
	warned      map[string]api.Warning // by code
}

var seed = maphash.MakeSeed()

// numbers are the plans of one kind.
type numbers struct {
	seen   map[uint64]uint64    // [epoch] of its table, by any forsd
	at     map[uint64]time.Time // [epoch] when the first reader had it
	broken error                // the first violation
}

// Watch begins to follow the plans of the managers until ctx ends.
func (m *Managers) Watch(ctx context.Context) *Watch {
	w := &Watch{warned: map[string]api.Warning{}}
	for _, n := range []*numbers{&w.plans, &w.base} {
		n.seen, n.at = map[uint64]uint64{}, map[uint64]time.Time{}
	}
	for _, one := range []*e2e.Site{m.First, m.Second} {
		if one != nil {
			go w.follow(ctx, one.Client)
			go w.followBase(ctx, one.Client)
		}
	}
	return w
}

// follow reads the plans of one forsd until ctx ends.
func (w *Watch) follow(ctx context.Context, c *api.Client) {
	last := uint64(0)
	for ctx.Err() == nil {
		plan, err := c.WaitEpoch(ctx, last)
		if err != nil {
			time.Sleep(10 * time.Millisecond) // it is being restarted
			continue
		}
		now := time.Now()
		table, err := c.Table(ctx)
		if err != nil {
			continue
		}
		w.take(&w.plans, now, plan.Epoch, last, table)
		last = max(last, plan.Epoch, table.Epoch())
	}
}

// followBase reads the warnings, except those of a standby, and the plans for base LIDs of one
// forsd until ctx ends. A plan is read when its number is new or lower, and once a second. What
// takes long is read less often.
func (w *Watch) followBase(ctx context.Context, c *api.Client) {
	last, next := uint64(0), time.Time{} // when to read the same plan again
	for took := time.Duration(0); ctx.Err() == nil; time.Sleep(max(50*time.Millisecond, 50*took)) {
		asked := time.Now()
		st, err := c.Status(ctx)
		took = time.Since(asked)
		if err == nil && !st.OpenSM.Standby {
			w.warn(st.Warnings)
		}
		if err != nil || st.Base == nil || st.Base.Epoch == last && time.Now().Before(next) {
			continue
		}
		began := time.Now()
		if table, err := c.BaseTable(ctx); err == nil {
			w.take(&w.base, time.Now(), table.Epoch(), last, table)
			last, next = max(last, table.Epoch()), time.Now().Add(max(time.Second, 50*time.Since(began)))
		}
	}
}

func (w *Watch) warn(all []api.Warning) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range all {
		w.warned[x.Code] = x
	}
}

func (w *Watch) take(n *numbers, now time.Time, epoch, last uint64, table *phasetable.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.at[epoch].IsZero() {
		n.at[epoch] = now
	}
	sum := maphash.Bytes(seed, table.Bytes())
	switch was, known := n.seen[table.Epoch()]; {
	case n.broken != nil:
	case epoch < last || table.Epoch() < last:
		n.broken = fmt.Errorf("after epoch %d a reader was given epoch %d", last, min(epoch, table.Epoch()))
	case known && was != sum:
		n.broken = fmt.Errorf("epoch %d stands for two plans", table.Epoch())
	}
	n.seen[table.Epoch()] = sum
}

// Since returns how long after an event the first plan came, how many came, and the first
// violation.
func (w *Watch) Since(at time.Time) (first time.Duration, plans int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.plans.at {
		if d := t.Sub(at); d >= 0 {
			plans++
			if first == 0 || d < first {
				first = d
			}
		}
	}
	return first, plans, errors.Join(w.plans.broken, w.base.broken)
}

// Warned returns the warnings that were seen since it was last called, by code.
func (w *Watch) Warned() map[string]api.Warning {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.warned
	w.warned = map[string]api.Warning{}
	return out
}
