//go:build lpsolve

package daemon

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
)

// TestFailureAmidILP lets a cable die while the integer programme makes the plan for the
// previous failure. That planning is cancelled, and it ends in less than half of the time
// that planning takes. The least of three times counts, because a planner that does not end
// early is late each time.
func TestFailureAmidILP(t *testing.T) {
	healthy := fabric(32, 32)
	first, both := lackingSome(healthy, 32, 32, 1, 2), lackingSome(healthy, 32, 32, 1, 3)
	byILP := func(d *Daemon) { d.actions.plans.Planning.Engine = string(config.EngineILP) }
	var alone, cancelled []time.Duration
	for range 3 {
		alone = append(alone, after(t, healthy, both, func(*site) {}, byILP))
		core, lines := observer.New(zap.InfoLevel)
		var told time.Time
		after(t, healthy, both, func(s *site) {
			epoch := s.state.Now().EpochNumber()
			s.told(first)
			s.in(controller.Before)
			time.Sleep(50 * time.Millisecond)
			if state := s.Daemon.backend.Status().State; state != controller.Before.String() || s.state.Now().EpochNumber() != epoch {
				t.Errorf("the first failure has its plan already (%s)", state)
			}
			told = time.Now()
		}, byILP, func(d *Daemon) { d.actions.plans.Log = zap.New(core) })
		ends := lines.Filter(func(line observer.LoggedEntry) bool {
			return slices.ContainsFunc(line.Context, func(f zap.Field) bool {
				err, is := f.Interface.(error)
				return is && errors.Is(err, context.Canceled)
			})
		}).All()
		if len(ends) != 1 {
			t.Fatalf("%d plannings are cancelled, and not one: %v", len(ends), lines.All())
		}
		cancelled = append(cancelled, ends[0].Time.Sub(told))
	}
	t.Logf("a plan takes %v, and its planning ends %v after a further failure", alone, cancelled)
	if slices.Min(cancelled) > slices.Min(alone)/2 {
		t.Error("it waits for the plan of the failure before")
	}
}

// TestStopsAmidILP stops a daemon while lp_solve works.
func TestStopsAmidILP(t *testing.T) {
	healthy := fabric(32, 32)
	stops(t, healthy, []doing{{"the integer programme makes a plan", func(s *site) {
		s.told(lackingSome(healthy, 32, 32, 1, 2))
		s.in(controller.Before)
		time.Sleep(100 * time.Millisecond)
	}}}, func(d *Daemon) { d.actions.plans.Planning.Engine = string(config.EngineILP) })
}
