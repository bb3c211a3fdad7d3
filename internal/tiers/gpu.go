package tiers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/internal/matrix"
)

// The limits of POST /v1/gpu/schedule: a matrix of the most GPUs with numbers of 13
// digits (GPUBody), and an answer that a client can take in.
const (
	gpuRanks     = 1024
	GPUBody      = 14 * gpuRanks * gpuRanks
	gpuTransfers = 1 << 20
)

// gpuRequest is the body of POST /v1/gpu/schedule.
type gpuRequest struct{ lanes.Request }

// treeForGPUs is the tree and its tables, where a request may ask for them.
func treeForGPUs(routes Routes, body []byte) (g ground) {
	if bytes.Contains(body, []byte(`"fabric"`)) {
		_, g.Tree, g.Tables = routes()
	}
	return g
}

// planGPU answers POST /v1/gpu/schedule, as forsplan gpu schedule --json does. The
// plan is carried out before it is answered with.
func (g *ground) planGPU(ctx context.Context, q *gpuRequest) (any, error) {
	t, err := q.traffic()
	if err != nil {
		return nil, err
	}
	o, err := q.options()
	if err != nil {
		return nil, err
	}
	site, err := q.site(t.Cluster)
	if err != nil {
		return nil, err
	}
	p := gpu.Planner{MaxTransfers: gpuTransfers}
	var plan *gpu.Plan
	verify := func() error { return gpu.Verify(ctx, t, plan) }
	if site != nil {
		plan, err = p.PlanSite(ctx, site, t.Bytes, o)
		verify = func() error { return gpu.VerifySite(ctx, site, t.Bytes, plan) }
	} else {
		plan, err = p.Plan(ctx, t, o)
	}
	if err != nil && (plan == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded)) {
		return nil, err
	}
	pinning := ctx
	ctx = context.WithoutCancel(ctx) // what is left of the time is for the best plan until then
	if err := verify(); err != nil {
		return nil, api.Errorf(http.StatusInternalServerError, api.CodeInternal, "the plan fails its replay, which is a fault of forsd: %v", err)
	}
	if q.Rank != nil && (*q.Rank < 0 || int(*q.Rank) >= plan.Ranks()) {
		return nil, fmt.Errorf("rank %d: want 0 to %d", *q.Rank, plan.Ranks()-1)
	}
	report := lanes.Report{Report: plan.Report(o.Model)}
	if report.Fabric, err = g.pin(pinning, q, plan, o.Model); err != nil {
		return nil, err
	}
	if q.Programs || q.Rank != nil {
		if report.Programs, err = plan.Programs(ctx); err != nil {
			return nil, err
		}
	}
	if q.Rank != nil {
		report.Programs = report.Programs[*q.Rank : *q.Rank+1]
	}
	return report, nil
}

// pin pins a plan on the lanes of forsd's own fabric where that is asked for, and checks it
// on the tables that the switches have.
func (g *ground) pin(ctx context.Context, q *gpuRequest, plan *gpu.Plan, m gpu.Model) (*lanes.Plan, error) {
	switch {
	case !q.Fabric && q.NICs != nil:
		return nil, errors.New("nics go with fabric: they are hosts of forsd's own fabric")
	case !q.Fabric:
		return nil, nil
	case g.Tree == nil:
		return nil, api.Refused("forsd's fabric is not a fat tree of two levels, or has not been seen yet: there are no lanes to pin stages on")
	case g.Tables == nil:
		return nil, api.Errorf(http.StatusServiceUnavailable, api.CodeNoPlan, "the tables of the switches have not been read back yet")
	}
	nics, err := lanes.NICs(plan, g.Tree, q.NICs)
	if err != nil && len(q.NICs) == 0 {
		return nil, fmt.Errorf("fabric: %w by nics", err)
	} else if err != nil {
		return nil, fmt.Errorf("nics: %w", err)
	}
	pinned, err := lanes.Pin(ctx, plan, m, g.Tree, nics)
	if err != nil {
		return nil, err
	}
	if err := pinned.Verify(plan, g.Tree, g.Tables); err != nil {
		return nil, api.Errorf(http.StatusServiceUnavailable, api.CodeNoPlan, "the tables that the switches have do not carry this exchange, as while they change: %v", err)
	}
	return pinned, nil
}

// site is what the servers of a cluster have, where they are not all alike.
func (q *gpuRequest) site(c gpu.Cluster) (*gpu.Site, error) {
	if q.Site != nil && q.Rails {
		return nil, errors.New("site says what each server has: rails does not go with it")
	}
	return gpu.Without(q.Site, c, q.Rails, q.BadNICs, q.DeadGPUs)
}

// traffic reads the matrix of a request.
func (q *gpuRequest) traffic() (*gpu.Traffic, error) {
	rows, routed := q.Traffic, q.Routing != nil
	switch {
	case routed && q.Traffic != nil:
		return nil, errors.New("traffic and routing are both given: one of them says what is to be sent")
	case routed:
		rows = q.Routing
	case q.Traffic == nil:
		return nil, errors.New(`traffic is missing: want {"traffic": [[0, 1], [2, 0]], "gpus_per_server": 1}`)
	case q.TokenBytes != 0 || q.Return:
		return nil, errors.New("token_bytes and return go with routing, and traffic is of bytes already")
	}
	if len(rows) > gpuRanks {
		return nil, fmt.Errorf("%d GPUs: this takes %d at most, and forsctl more", len(rows), gpuRanks)
	}
	m, err := matrix.FromRows(rows, matrix.Options{Square: !routed, Integer: true})
	if err != nil {
		return nil, err
	}
	if q.Site != nil && q.GPUsPerServer == 0 {
		q.GPUsPerServer = 1 // a matrix of as many GPUs as the site has
	}
	c, err := gpu.Of(m.Rows, q.GPUsPerServer)
	if err != nil {
		return nil, fmt.Errorf("gpus_per_server: %w", err)
	}
	if !routed {
		return gpu.FromEntries(c, m.Data)
	}
	t, err := gpu.FromRouting(c, m.Cols, m.Data, q.TokenBytes)
	if err == nil && q.Return {
		t = t.Transpose()
	}
	return t, err
}

// options reads how a request wants its plan to be made.
func (q *gpuRequest) options() (gpu.Options, error) {
	o := q.Options
	o.Model = gpu.DefaultModel
	if q.B1 != nil {
		o.Model.B1 = *q.B1
	}
	if q.B2 != nil {
		o.Model.B2 = *q.B2
	}
	for _, x := range []struct {
		name, text string
		to         *time.Duration
	}{{"latency", q.Latency, &o.Model.Latency}, {"budget", q.Budget, &o.Budget}} {
		if x.text == "" {
			continue
		}
		var err error
		if *x.to, err = time.ParseDuration(x.text); err != nil {
			return o, fmt.Errorf("%s %.100q: want a time such as \"10us\"", x.name, x.text)
		}
	}
	return o, nil
}
