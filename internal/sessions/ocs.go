package sessions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/matrix"
	"github.com/forsd/forsd/optical/ocs"
)

// The limits of a period: a matrix with 18-digit numbers, which each session keeps, and a
// search of some seconds.
const (
	ocsRacks  = 512
	ocsBody   = 30 * ocsRacks * ocsRacks
	ocsSteps  = 10_000_000
	ocsBudget = 10 * time.Second
)

// periodRequest is a request for a period. An empty method means best.
type periodRequest struct {
	Racks  int         `json:"racks"`  // the size of every matrix
	Demand [][]float64 `json:"demand"` // [sending rack][receiving rack]
	Period float64     `json:"period"`
	ocs.Options
	Within string `json:"budget"` // such as "250ms"
	Refine string `json:"refine"` // greedy or lp
}

// PeriodReport is the schedule of a period.
type PeriodReport struct {
	Late    float64 `json:"late"`
	Backlog float64 `json:"backlog"`
	Fresh   bool    `json:"fresh"`
	Kept    int     `json:"kept"`
	ocs.Report
}

// Figures returns the figures of the period.
func (r *PeriodReport) Figures() PeriodFigures {
	return PeriodFigures{r.Makespan, r.LowerBound, r.Late, r.Backlog, r.Fresh, r.Kept, r.Configurations}
}

// planPeriod plans a period from a state, and replaces the state by the next one. It replays
// the schedule before it answers.
func planPeriod(ctx context.Context, body []byte, state *[]byte) (*PeriodReport, error) {
	var q periodRequest
	if err := api.Decode(body, &q); err != nil {
		return nil, err
	}
	o, err := q.options()
	if err != nil {
		return nil, err
	}
	m, err := matrix.FromRows(q.Demand, matrix.Options{Square: true, MaxSide: ocsRacks})
	if err != nil {
		return nil, err
	}
	if m.Rows != q.Racks {
		return nil, fmt.Errorf("the matrix has %d racks, the session %d", m.Rows, q.Racks)
	}
	d, err := ocs.NewDemand(m.Rows, m.Data)
	if err != nil {
		return nil, err
	}
	l, err := ocs.NewOnline(o, q.Period)
	if err != nil {
		return nil, err
	}
	if len(*state) > 0 {
		if err := gob.NewDecoder(bytes.NewReader(*state)).Decode(&l.State); err != nil {
			return nil, err
		}
	}
	p, err := l.Next(ctx, d)
	if err != nil {
		return nil, err
	}
	r, err := ocs.NewReport(p.Demand, p.Schedule, o.Method)
	if err != nil {
		return nil, fault("%v", err)
	}
	var next bytes.Buffer
	if err := gob.NewEncoder(&next).Encode(&l.State); err != nil {
		return nil, err
	}
	*state = next.Bytes()
	return &PeriodReport{p.Late, p.Backlog, p.Fresh, p.Kept, *r}, nil
}

// options reads the scheduling options of a session.
func (q *periodRequest) options() (ocs.Options, error) {
	o := q.Options
	o.Method = cmp.Or(o.Method, ocs.Best)
	if q.Steps > ocsSteps {
		return o, fmt.Errorf("%d steps: a session takes %d at most, and forsplan ocs online more", q.Steps, ocsSteps)
	}
	if q.Demand == nil {
		return o, errors.New(`demand is missing: want {"demand": [[0, 1], [2, 0]]}`)
	}
	if q.Within != "" {
		var err error
		if o.Budget, err = time.ParseDuration(q.Within); err != nil || o.Budget <= 0 || o.Budget > ocsBudget {
			return o, fmt.Errorf("budget %.100q: want a time such as \"250ms\", at most %v", q.Within, ocsBudget)
		}
	}
	return o, o.Refine(cmp.Or(q.Refine, "greedy"))
}
