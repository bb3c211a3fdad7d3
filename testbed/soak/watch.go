package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
)

// watch follows the plans of a forsd as a rank does, through restarts, and checks that a number
// stands for one plan for ever and that no reader sees the numbers go down.
type watch struct {
	mu     sync.Mutex
	seen   map[uint64][sha256.Size]byte // [epoch] of its table, by any forsd
	at     map[uint64]time.Time         // [epoch] when the first reader had it
	broken error                        // the first violation
}

func newWatch() *watch {
	return &watch{seen: map[uint64][sha256.Size]byte{}, at: map[uint64]time.Time{}}
}

// follow reads the plans of one forsd until ctx ends.
func (w *watch) follow(ctx context.Context, c *api.Client) {
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
		w.take(now, plan.Epoch, last, table)
		last = max(last, plan.Epoch, table.Epoch())
	}
}

// followBase reads the plans for base LIDs of one forsd until ctx ends; they have numbers of
// their own. A plan is read when its number is new or lower, and once a second.
func (w *watch) followBase(ctx context.Context, c *api.Client) {
	last, read := uint64(0), time.Time{}
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		st, err := c.Status(ctx)
		if err != nil || st.Base == nil || st.Base.Epoch == last && time.Since(read) < time.Second {
			continue
		}
		if table, err := c.BaseTable(ctx); err == nil {
			w.take(time.Now(), table.Epoch(), last, table)
			last, read = max(last, table.Epoch()), time.Now()
		}
	}
}

func (w *watch) take(now time.Time, epoch, last uint64, table *phasetable.View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at[epoch].IsZero() {
		w.at[epoch] = now
	}
	sum := sha256.Sum256(table.Bytes())
	switch was, known := w.seen[table.Epoch()]; {
	case w.broken != nil:
	case epoch < last || table.Epoch() < last:
		w.broken = fmt.Errorf("after epoch %d a reader was given epoch %d", last, min(epoch, table.Epoch()))
	case known && was != sum:
		w.broken = fmt.Errorf("epoch %d stands for two plans", table.Epoch())
	}
	w.seen[table.Epoch()] = sum
}

// since returns how long after an event the first plan came, how many came, and the first
// violation.
func (w *watch) since(at time.Time) (first time.Duration, plans int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.at {
		if d := t.Sub(at); d >= 0 {
			plans++
			if first == 0 || d < first {
				first = d
			}
		}
	}
	return first, plans, w.broken
}
