package worker

import (
	"context"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/topology"
)

// PinRequest is a request for the lanes of an exchange between GPUs.
type PinRequest struct {
	Request  lanes.Request
	Tree     *topology.FatTree
	Settings Settings
	Tables   *lft.Tables // tables in the switches
}

// Pin pins the exchange on the lanes of the tree, and checks it on the tables.
func Pin(ctx context.Context, p *Pool, q *PinRequest) (*lanes.Plan, error) {
	return call[PinRequest, lanes.Plan](ctx, p, lanesTask, q)
}

// pin returns the task.
func pin(ctx context.Context, q *PinRequest) (*lanes.Plan, error) {
	tree := planner.Settings(q.Settings).Apart(q.Tree)
	plan, err := lanes.Pin(ctx, &q.Request, tree)
	if err != nil {
		return nil, api.BadRequest("%v", err)
	}
	if err := plan.Verify(&q.Request, tree, q.Tables); err != nil {
		return nil, api.Errorf(api.CodeNoPlan, "the tables that the switches have do not carry this exchange, as while they change: %v", err)
	}
	return plan, nil
}
