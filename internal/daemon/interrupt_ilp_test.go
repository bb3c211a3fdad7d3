//go:build lpsolve

package daemon

import (
	"testing"
	"time"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
)

// TestFailureAmidILP lets a cable die while the integer programme makes the plan for the
// previous failure. That planning is cancelled, and the plan for the second failure takes
// as long as without the first one. Waiting for the first plan would take most of its
// time in addition.
func TestFailureAmidILP(t *testing.T) {
	healthy := fabric(32, 32)
	first, both := lackingSome(healthy, 32, 32, 1, 2), lackingSome(healthy, 32, 32, 1, 3)
	byILP := func(d *Daemon) { d.cfg.Planning.Engine = config.EngineILP }
	var alone, amid []time.Duration
	for range 3 {
		alone = append(alone, after(t, healthy, both, func(*site) {}, byILP))
		amid = append(amid, after(t, healthy, both, func(s *site) {
			epoch := s.board.EpochNumber()
			s.told(first)
			s.in(controller.Before)
			time.Sleep(50 * time.Millisecond)
			if state := s.Daemon.backend.Status().State; state != controller.Before.String() || s.board.EpochNumber() != epoch {
				t.Errorf("the first failure has its plan already (%s)", state)
			}
		}, byILP))
	}
	a, b := median(alone), median(amid)
	t.Logf("the plan is there after %v, and amid the planning for another failure after %v: %v later", a, b, b-a)
	if b > a+a/3 {
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
	}}}, func(d *Daemon) { d.cfg.Planning.Engine = config.EngineILP })
}
