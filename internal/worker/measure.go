package worker

import (
	"context"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/tomography"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/topology"
)

// MeasureRequest has the times of an exchange by a plan.
type MeasureRequest struct {
	Times  []byte // api.ExchangeTimes as JSON
	Plan   []byte // phase table
	Fabric *topology.Fabric
	Tables *lft.Tables // in the switches
}

// Measure finds the slow parts of the fabric.
func Measure(ctx context.Context, p *Pool, q *MeasureRequest) (*api.Measured, error) {
	return call[MeasureRequest, api.Measured](ctx, p, measureTask, q)
}

// measure returns the task.
func measure(_ context.Context, q *MeasureRequest) (*api.Measured, error) {
	plan, err := phasetable.Decode(q.Plan)
	if err != nil {
		return nil, err
	}
	var times api.ExchangeTimes
	if err := api.Decode(q.Times, &times); err != nil {
		return nil, err
	}
	sent, err := tomography.SentBy(plan, &times)
	if err != nil {
		return nil, api.BadRequest("%v", err)
	}
	m, err := tomography.Measure(q.Fabric, q.Tables, sent, false)
	if err != nil {
		return nil, api.Refused("%v", err)
	}
	return m, nil
}
