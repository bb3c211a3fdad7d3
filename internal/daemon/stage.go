package daemon

import (
	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/planner"
)

// early is a schedule whose table was encoded and written while it was being
// verified.
type early struct {
	schedule *planner.Schedule
	epoch    *store.Epoch // nil where there was no need, or it failed
}

// of is the epoch made early, if it is that of the schedule: verification may
// have led to another one.
func (e early) of(s *planner.Schedule) *store.Epoch {
	if e.schedule != s {
		return nil
	}
	return e.epoch
}

// stage begins to encode a schedule that is not in force, and to write its table,
// beside its verification. The caller receives what came of it before it does
// anything else with the store. A failure is nobody's business yet, for publishing
// tries again.
func (d *Daemon) stage(s *planner.Schedule) <-chan early {
	done := make(chan early, 1)
	if d.inForceIs(view.TreePlan{Schedule: s}) || d.store.Owed() != nil {
		done <- early{schedule: s}
		return done
	}
	go func() {
		e, err := store.NewEpoch(s.Table(d.store.Next()))
		if err == nil {
			err = d.store.Stage(e)
		}
		if err != nil {
			d.log.Warn("the table could not be written ahead of verification", zap.Error(err))
			e = nil
		}
		done <- early{s, e}
	}()
	return done
}
