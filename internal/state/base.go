package state

import (
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// SetBase puts a plan for base LIDs in force for all readers, unless it already is.
func (s *State) SetBase(plan *phasetable.View, report planner.Report, warnings []planner.Warning) error {
	s.Health.Set("base", warnings, time.Now())
	if now := s.Bases.Current(); now != nil && now.Epoch == plan.Epoch() {
		return nil
	}
	p, err := published.NewPlan(plan, report, time.Now())
	if err != nil {
		return err
	}
	summary := api.Epoch{Epoch: plan.Epoch(), PublishedAt: p.At, Length: report.Length, TopologyHash: report.TopologyHash}
	s.mu.Lock()
	s.baseInForce, s.basePlan, s.baseReport = &summary, plan, report
	s.mu.Unlock()
	s.Bases.Publish(p)
	s.log.Info("published for base LIDs", zap.Uint64("number", summary.Epoch), zap.Int("phases", summary.Phases), zap.Int("lower_bound", summary.LowerBound))
	s.Emit(api.KindBase, summary)
	return nil
}

// SetLoad sets the load of the busiest cable with the tables read back.
func (s *State) SetLoad(l phasetable.Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load = l
}

// Load returns the load last set by SetLoad.
func (s *State) Load() phasetable.Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load
}

// NoBase ends the plan for base LIDs in force.
func (s *State) NoBase(warnings []planner.Warning) {
	s.Health.Set("base", warnings, time.Now())
	s.mu.Lock()
	s.baseInForce = nil
	s.mu.Unlock()
	s.Bases.Withdraw()
}

// ResumeBase loads the stored plan for base LIDs, which may be nil. It is not in force until it
// is verified.
func (s *State) ResumeBase(plan *phasetable.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.basePlan = plan
}

// LastBase returns the last published plan for base LIDs, or nil.
func (s *State) LastBase() *phasetable.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.basePlan
}

// BasePlan returns the plan for base LIDs in force, with its report, or nil.
func (s *State) BasePlan() (*phasetable.View, planner.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.baseInForce == nil {
		return nil, planner.Report{}
	}
	return s.basePlan, s.baseReport
}

// BaseLIDs returns the plan for base LIDs in force, or nil.
func (s *State) BaseLIDs() *api.Epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.baseInForce
}
