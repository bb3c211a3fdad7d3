package board

import (
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// SetBase puts a plan for base LIDs in force for all readers, unless it already is.
func (b *Board) SetBase(plan *phasetable.View, report planner.Report, warnings []planner.Warning) error {
	b.Health.Set("base", warnings, time.Now())
	if now := b.Bases.Current(); now != nil && now.Epoch == plan.Epoch() {
		return nil
	}
	p, err := published.NewPlan(plan, report, time.Now())
	if err != nil {
		return err
	}
	summary := api.Epoch{Epoch: plan.Epoch(), PublishedAt: p.At, Length: report.Length, TopologyHash: report.TopologyHash}
	b.mu.Lock()
	b.baseInForce, b.basePlan, b.baseReport = &summary, plan, report
	b.mu.Unlock()
	b.Bases.Publish(p)
	b.log.Info("published for base LIDs", zap.Uint64("number", summary.Epoch), zap.Int("phases", summary.Phases), zap.Int("lower_bound", summary.LowerBound))
	b.Say(api.KindBase, summary)
	return nil
}

// SetLoad sets the load of the busiest cable with the tables read back.
func (b *Board) SetLoad(l phasetable.Load) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.load = l
}

// Load returns the load last set by SetLoad.
func (b *Board) Load() phasetable.Load {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.load
}

// NoBase ends the plan for base LIDs in force.
func (b *Board) NoBase(warnings []planner.Warning) {
	b.Health.Set("base", warnings, time.Now())
	b.mu.Lock()
	b.baseInForce = nil
	b.mu.Unlock()
	b.Bases.Withdraw()
}

// ResumeBase loads the stored plan for base LIDs, which may be nil. It is not in force until it
// is verified.
func (b *Board) ResumeBase(plan *phasetable.View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.basePlan = plan
}

// LastBase returns the last published plan for base LIDs, or nil.
func (b *Board) LastBase() *phasetable.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.basePlan
}

// BasePlan returns the plan for base LIDs in force, with its report, or nil.
func (b *Board) BasePlan() (*phasetable.View, planner.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.baseInForce == nil {
		return nil, planner.Report{}
	}
	return b.basePlan, b.baseReport
}

// BaseLIDs returns the plan for base LIDs in force, or nil.
func (b *Board) BaseLIDs() *api.Epoch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.baseInForce
}
