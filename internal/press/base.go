package press

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

// This file puts plans for base LIDs in force. They need tables of their own, so
// their turn is when those have been read back.

// PublishBase puts the plan for base LIDs in force that goes with the tables read back,
// unless it is in force. Where there is none, the one in force ends: a program that follows
// base plans does better without than by one for another fabric. A failure leaves the
// fabric's other plan as it is, and is a warning.
func (p *Press) PublishBase(ctx context.Context, v *view.View, a controller.Plan) {
	if v.Kind == controller.OwnRoutes {
		if e := p.Board.Current(); e != nil { // its plan sends to base LIDs
			p.putBase(e.Plan.Table(), e.Report, nil)
		}
		return
	}
	r, err := v.Route(ctx, a.Hold, p.Settings())
	if err == nil {
		p.Board.SetLoad(r.Load)
	}
	if err == nil && r.Base != nil {
		err = r.Base.Check(p.Desk.Possible()...)
	}
	if ctx.Err() != nil {
		return // for a fabric that has been seen since
	}
	if err != nil {
		r.Base, r.Notes = nil, []planner.Warning{{Code: planner.NoBasePlan, Text: fmt.Sprintf("there is no plan for programs that send to base LIDs: %v", err)}}
	}
	if r.Base == nil {
		p.Board.NoBase(r.Notes)
		return
	}
	p.putBase(r.Base.Table(0), r.Base.Report(), append(append([]planner.Warning{}, r.Notes...), r.Base.Cautions()...))
}

// putBase puts a plan for base LIDs in force under a number of its own, unless it is the
// one published last.
func (p *Press) putBase(t *phasetable.Table, report planner.Report, warnings []planner.Warning) {
	last, before := p.Board.LastBase(), uint64(0)
	if last != nil {
		before = last.Epoch()
	}
	plan, err := p.Store.PutBase(*t, last, p.Store.After(p.Board.EpochNumber(), before), p.Store.SaveBase)
	if e := p.Board.Current(); err == nil && e != nil && bytes.Equal(plan.Bytes(), e.Plan.Bytes()) {
		plan = e.Plan // megabytes, and the same
	}
	if err == nil {
		err = p.Board.SetBase(plan, report, warnings)
	}
	if err != nil {
		p.Log.Error("the plan for base LIDs is not published", zap.Error(err))
	}
}
