package tiers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
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

// planOCS answers POST /v1/optical/ocs, as forsplan ocs schedule --json does. The
// schedule is replayed before it is answered with.
func (*ground) planOCS(ctx context.Context, q *ocsRequest) (any, error) {
	o, err := q.options()
	if err != nil {
		return nil, err
	}
	d, err := q.demand()
	if err != nil {
		return nil, err
	}
	s, err := ocs.Make(ctx, d, o)
	if err != nil {
		return nil, err
	}
	return report(d, s, o.Method)
}

// report replays a schedule and reports it.
func report(d *ocs.Demand, s *ocs.Schedule, m ocs.Method) (*ocs.Report, error) {
	r, err := ocs.NewReport(d, s, m)
	if err != nil {
		return nil, api.Errorf(http.StatusInternalServerError, api.CodeInternal, "this is a fault of forsd: %v", err)
	}
	return r, nil
}

// demand reads the matrix of a request.
func (q *ocsRequest) demand() (*ocs.Demand, error) {
	if q.Demand == nil {
		return nil, errors.New(`demand is missing: want {"demand": [[0, 1], [2, 0]], "switches": 1, "delta": 0.01}`)
	}
	m, err := matrix.FromRows(q.Demand, matrix.Options{Square: true, MaxSide: ocsRacks})
	if err != nil {
		return nil, err
	}
	return ocs.NewDemand(m.Rows, m.Data)
}

// OCSPeriod plans the next period of a session. What its answer has beyond a schedule is
// that of ocs.Period.
const OCSPeriod = "period of optical circuit switches"

// periodRequest is what is asked for a period: what POST /v1/optical/ocs takes, the length
// of a period and, so that no other matrix comes, the racks.
type periodRequest struct {
	ocsRequest
	Racks  int     `json:"racks"`
	Period float64 `json:"period"`
}

// PeriodReport is a schedule of a period.
type PeriodReport struct {
	Late    float64 `json:"late"`
	Backlog float64 `json:"backlog"`
	Fresh   bool    `json:"fresh"`
	Kept    int     `json:"kept"`
	ocs.Report
}

// planPeriod plans a period on from a state, and leaves the next one there.
func (g *ground) planPeriod(ctx context.Context, q *periodRequest) (any, error) {
	o, err := q.options()
	if err != nil {
		return nil, err
	}
	if q.From != nil {
		return nil, errors.New("a period begins with the one before: leave from out")
	}
	d, err := q.demand()
	if err != nil {
		return nil, err
	}
	if d.Racks() != q.Racks {
		return nil, fmt.Errorf("the matrix has %d racks, the session %d", d.Racks(), q.Racks)
	}
	l, err := ocs.NewOnline(o, q.Period)
	if err != nil {
		return nil, err
	}
	if len(g.State) > 0 {
		if err := gob.NewDecoder(bytes.NewReader(g.State)).Decode(&l.State); err != nil {
			return nil, err
		}
	}
	p, err := l.Next(ctx, d)
	if err != nil {
		return nil, err
	}
	r, err := report(p.Demand, p.Schedule, o.Method)
	if err != nil {
		return nil, err
	}
	var next bytes.Buffer
	if err := gob.NewEncoder(&next).Encode(&l.State); err != nil {
		return nil, err
	}
	g.State = next.Bytes()
	return &PeriodReport{p.Late, p.Backlog, p.Fresh, p.Kept, *r}, nil
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
