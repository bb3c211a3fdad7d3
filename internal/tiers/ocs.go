package tiers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/matrix"
	"github.com/forsd/forsd/optical/ocs"
)

// The limits of POST /v1/optical/ocs: a matrix with numbers of 18 digits, a
// schedule, and a search of some seconds.
const (
	ocsRacks  = 1024
	ocsBody   = 30 * ocsRacks * ocsRacks
	ocsSteps  = 10_000_000
	ocsBudget = 10 * time.Second
)

// ocsRequest is the body of POST /v1/optical/ocs. The method is best if empty.
type ocsRequest struct {
	Demand [][]float64 `json:"demand"` // [sending rack][receiving rack]
	ocs.Options
	Within string      `json:"budget"` // such as "250ms"
	Refine string      `json:"refine"` // greedy or lp
	From   *ocs.Report `json:"from"`   // an answer before, for best to begin with
}

// planOCS answers POST /v1/optical/ocs, as forsctl ocs schedule --json does. The
// schedule is replayed before it is answered with.
func planOCS(ctx context.Context, q *ocsRequest) (any, error) {
	if q.Demand == nil {
		return nil, errors.New(`demand is missing: want {"demand": [[0, 1], [2, 0]], "switches": 1, "delta": 0.01}`)
	}
	o, err := q.options()
	if err != nil {
		return nil, err
	}
	m, err := matrix.FromRows(q.Demand, matrix.Options{Square: true, MaxSide: ocsRacks})
	if err != nil {
		return nil, err
	}
	d, err := ocs.NewDemand(m.Rows, m.Data)
	if err != nil {
		return nil, err
	}
	s, err := ocs.Make(ctx, d, o)
	if err != nil {
		return nil, err
	}
	r, err := ocs.NewReport(d, s, o.Method)
	if err != nil {
		return nil, api.Errorf(http.StatusInternalServerError, api.CodeInternal, "this is a fault of forsd: %v", err)
	}
	return r, nil
}

// options reads how a request wants its schedule to be made.
func (q *ocsRequest) options() (ocs.Options, error) {
	o := q.Options
	o.Method = cmp.Or(o.Method, ocs.Best)
	if q.Steps > ocsSteps {
		return o, fmt.Errorf("%d steps: this takes %d at most, and forsctl more", q.Steps, ocsSteps)
	}
	if q.From != nil {
		o.From = q.From.Schedule()
	}
	if q.Within != "" {
		var err error
		if o.Budget, err = time.ParseDuration(q.Within); err != nil || o.Budget <= 0 || o.Budget > ocsBudget {
			return o, fmt.Errorf("budget %.100q: want a time such as \"250ms\", at most %v", q.Within, ocsBudget)
		}
	}
	return o, o.Refine(cmp.Or(q.Refine, "greedy"))
}
