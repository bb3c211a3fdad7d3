package sessions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/gpu/lanes"
	"github.com/forsd/forsd/internal/matrix"
	"github.com/forsd/forsd/internal/nics"
)

// The limits of a frame: a matrix of the maximum number of GPUs with 13-digit numbers, and an
// answer that a client can process.
const (
	gpuRanks     = 1024
	gpuBody      = 14 * gpuRanks * gpuRanks
	gpuTransfers = 1 << 20
)

// GPURequest is a request for the plan of an exchange. Its fields are the flags of forsplan gpu
// schedule.
type GPURequest struct {
	Traffic       [][]float64 `json:"traffic,omitempty"` // bytes, [source][destination]
	Routing       [][]float64 `json:"routing,omitempty"` // or tokens, [GPU][expert]
	TokenBytes    int64       `json:"token_bytes,omitempty"`
	Return        bool        `json:"return,omitempty"`
	GPUsPerServer int         `json:"gpus_per_server,omitempty"`
	Site          *gpu.Site   `json:"site,omitempty"`      // the parts of each server, instead of gpus_per_server
	BadNICs       []string    `json:"bad_nics,omitempty"`  // "SERVER:NIC", "SERVER:NIC:PERCENT"
	DeadGPUs      []string    `json:"dead_gpus,omitempty"` // "SERVER:GPU"
	Rails         bool        `json:"rails,omitempty"`
	gpu.Options
	B1       *float64  `json:"b1,omitempty"` // bytes per second
	B2       *float64  `json:"b2,omitempty"`
	Latency  string    `json:"latency,omitempty"`  // such as "10us"
	Budget   string    `json:"budget,omitempty"`   // same format
	Programs bool      `json:"programs,omitempty"` // include the lists of all ranks in the answer
	Rank     *gpu.Rank `json:"rank,omitempty"`     // or the list of one rank
	Fabric   bool      `json:"fabric,omitempty"`   // the NICs are hosts on the fabric of --forsd
	NICs     []string  `json:"nics,omitempty"`     // the hosts, server by server; empty means all hosts of the fabric
}

// gpuPlan is the answer to a frame.
type gpuPlan struct {
	nics.Report
	down []string // NICs that are down on the fabric
}

// planGPU plans an exchange in the same way as forsplan gpu schedule --json. It carries out the
// plan before it answers.
func (s *Server) planGPU(ctx context.Context, body []byte, _ *[]byte) (*gpuPlan, error) {
	var q GPURequest
	if err := api.Decode(body, &q); err != nil {
		return nil, err
	}
	t, err := q.traffic()
	if err != nil {
		return nil, err
	}
	o, err := q.options()
	if err != nil {
		return nil, err
	}
	cluster, err := s.cluster(ctx, &q, t.Servers)
	if err != nil {
		return nil, err
	}
	site, err := q.site(t.Cluster, cluster.Bad)
	if err != nil {
		return nil, err
	}
	plan, pinned, err := nics.Within(t.Cluster, site, o, func(site *gpu.Site, o gpu.Options) (*gpu.Plan, error) {
		return planOf(ctx, t, site, o)
	}, func(plan *gpu.Plan) (*lanes.Plan, error) {
		x, err := s.fabric.Pin(ctx, cluster, plan, o.Model)
		return x, unreached(err)
	})
	if err != nil {
		return nil, err
	}
	if q.Rank != nil && (*q.Rank < 0 || int(*q.Rank) >= plan.Ranks()) {
		return nil, fmt.Errorf("rank %d: want 0 to %d", *q.Rank, plan.Ranks()-1)
	}
	a := &gpuPlan{nics.Report{Report: plan.Report(o.Model), Fabric: pinned}, cluster.Bad}
	if q.Programs || q.Rank != nil {
		if a.Programs, err = plan.Programs(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
	}
	if q.Rank != nil {
		a.Programs = a.Programs[*q.Rank : *q.Rank+1]
	}
	return a, nil
}

// unreached makes a client retry if forsd does not answer.
func unreached(err error) error {
	if errors.As(err, new(*net.OpError)) {
		return api.Busy("%v", err)
	}
	return err
}

// planOf plans an exchange and carries out the plan. When the time is up, it uses the best plan
// so far.
func planOf(ctx context.Context, t *gpu.Traffic, site *gpu.Site, o gpu.Options) (plan *gpu.Plan, err error) {
	p := gpu.Planner{MaxTransfers: gpuTransfers}
	if site != nil {
		plan, err = p.PlanSite(ctx, site, t.Bytes, o)
	} else {
		plan, err = p.Plan(ctx, t, o)
	}
	if err != nil && (plan == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded)) {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	if site != nil {
		err = gpu.VerifySite(ctx, site, t.Bytes, plan)
	} else {
		err = gpu.Verify(ctx, t, plan)
	}
	if err != nil {
		return nil, fault("the plan fails its replay: %v", err)
	}
	return plan, nil
}

// cluster requests the hosts that are the NICs of a request. It returns nil if the request does
// not use a fabric.
func (s *Server) cluster(ctx context.Context, q *GPURequest, servers int) (*nics.Cluster, error) {
	switch {
	case !q.Fabric && q.NICs != nil:
		return nil, errors.New("nics go with fabric: they are hosts of the fabric that a forsd looks after")
	case !q.Fabric:
		return &nics.Cluster{}, nil
	case s.fabric.Client == nil:
		return nil, api.Refused("fabric: forsplan serve was started without --forsd, and knows no fabric")
	}
	if q.Site != nil {
		servers = len(q.Site.Servers)
	}
	c, err := s.fabric.Cluster(ctx, q.NICs, servers)
	return c, unreached(err)
}

// site describes the servers of a cluster, unless they are all alike.
func (q *GPURequest) site(c gpu.Cluster, down []string) (*gpu.Site, error) {
	if q.Site != nil && q.Rails {
		return nil, errors.New("site lists the GPUs and NICs of each server: rails does not go with it")
	}
	return gpu.Without(q.Site, c, q.Rails, slices.Concat(q.BadNICs, down), q.DeadGPUs)
}

// traffic reads the matrix of a request.
func (q *GPURequest) traffic() (*gpu.Traffic, error) {
	rows, routed := q.Traffic, q.Routing != nil
	switch {
	case routed && q.Traffic != nil:
		return nil, errors.New("traffic and routing are both given: want one of them")
	case routed:
		rows = q.Routing
	case q.Traffic == nil:
		return nil, errors.New(`traffic is missing: want {"traffic": [[0, 1], [2, 0]], "gpus_per_server": 1}`)
	case q.TokenBytes != 0 || q.Return:
		return nil, errors.New("token_bytes and return go with routing, and traffic is of bytes already")
	}
	if len(rows) > gpuRanks {
		return nil, fmt.Errorf("%d GPUs: a session takes %d at most, and forsplan gpu schedule more", len(rows), gpuRanks)
	}
	m, err := matrix.FromRows(rows, matrix.Options{Square: !routed, Integer: true})
	if err != nil {
		return nil, err
	}
	if q.Site != nil && q.GPUsPerServer == 0 {
		q.GPUsPerServer = 1 // the matrix has a row for each GPU of the site
	}
	c, err := gpu.Of(m.Rows, q.GPUsPerServer)
	if err != nil {
		return nil, fmt.Errorf("gpus_per_server: %w", err)
	}
	if !routed {
		return gpu.FromEntries(c, m.Data, m.Large)
	}
	t, err := gpu.FromRouting(c, m.Cols, m.Data, q.TokenBytes)
	if err == nil && q.Return {
		t = t.Transpose()
	}
	return t, err
}

// options reads the planning options of a request.
func (q *GPURequest) options() (gpu.Options, error) {
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
