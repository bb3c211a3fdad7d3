package backend

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/phasetable"
)

// mostMeasured is how many exchanges are kept.
const mostMeasured = 16

// measured has the last exchange of the fabric and of each job that was measured.
type measured struct {
	mu   sync.Mutex // guards the field below
	last []api.Measured
}

func (m *measured) add(now api.Measured) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := append(slices.DeleteFunc(slices.Clone(m.last), func(x api.Measured) bool { return x.Job == now.Job }), now)
	m.last = kept[max(0, len(kept)-mostMeasured):]
}

func (m *measured) list() []api.Measured {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]api.Measured{}, m.last...)
}

// Measure finds slow parts of the fabric by the times of an exchange by a plan, in a process of
// its own. It goes on if the client, a rank that has better things to do, leaves.
func (b *Backend) Measure(ctx context.Context, plan *phasetable.View, times []byte) (*api.Measured, error) {
	if err := b.MayLead(); err != nil {
		return nil, err
	}
	v, tables := b.State.Now().Latest, b.Desk.InSwitches()
	if v == nil || tables == nil {
		return nil, api.Errorf(api.CodeNoPlan, "the tables in the switches are not known yet")
	}
	m, err := worker.Measure(context.WithoutCancel(ctx), b.Workers.Times, &worker.MeasureRequest{Times: times, Plan: plan.Bytes(), Fabric: v.Fabric, Tables: tables})
	if err != nil {
		return nil, err
	}
	m.At, m.Epoch, m.Job = time.Now(), plan.Epoch(), plan.Job()
	b.measured.add(*m)
	return m, b.Loop.Measured(ctx, m)
}
