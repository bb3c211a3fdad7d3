package plans

import (
	"bytes"
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/view"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// This file publishes plans for base LIDs. They need tables of their own, so they are
// published after those tables have been read back.

// PublishBase publishes the plan for base LIDs that fits the tables read back, unless it is
// in force. If there is none, the plan in force is withdrawn, since programs do better
// without a base plan than with one for another fabric. A failure raises a warning and
// leaves the pinned plan in force.
func (p *Publisher) PublishBase(ctx context.Context, v *view.View, a controller.Plan) {
	if v.Kind == controller.OwnRoutes {
		if e := p.State.Current(); e != nil { // the pinned plan uses base LIDs only
			p.putBase(e.Plan.Table(), e.Report, nil)
		}
		return
	}
	r, err := v.Route(ctx, a.Hold, p.Settings())
	if err == nil {
		p.State.SetLoad(r.Load)
	}
	if err == nil && r.Base != nil {
		err = r.Base.Check(p.Desk.Possible()...)
	}
	if ctx.Err() != nil {
		return // for a fabric that was superseded
	}
	if err != nil {
		r.Base, r.Notes = nil, []planner.Warning{{Code: planner.NoBasePlan, Text: fmt.Sprintf("there is no plan for programs that send to base LIDs: %v", err)}}
	}
	if r.Base == nil {
		p.State.NoBase(r.Notes)
		return
	}
	p.putBase(r.Base.Table(0), r.Base.Report(), append(append([]planner.Warning{}, r.Notes...), r.Base.Cautions()...))
}

// putBase publishes a plan for base LIDs under a number of its own, unless it was the last
// one published.
func (p *Publisher) putBase(t *phasetable.Table, report planner.Report, warnings []planner.Warning) {
	last, before := p.State.LastBase(), uint64(0)
	if last != nil {
		before = last.Epoch()
	}
	plan, err := p.Store.PutBase(*t, last, p.Store.After(p.State.EpochNumber(), before), p.Store.SaveBase)
	if e := p.State.Current(); err == nil && e != nil && bytes.Equal(plan.Bytes(), e.Plan.Bytes()) {
		plan = e.Plan // the same plan; this frees megabytes
	}
	if err == nil {
		err = p.State.SetBase(plan, report, warnings)
	}
	if err != nil {
		p.Log.Error("the plan for base LIDs is not published", zap.Error(err))
	}
}
