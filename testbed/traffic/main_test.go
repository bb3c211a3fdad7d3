package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/programs"
)

// TestTraffic is make testbed on 16 hosts. Throughputs are a matter of the machine's
// load, so it looks at what is counted: every byte arrives, also where a cable is pulled
// in the middle, no packet is lost on tables at rest, and no exchange in step is faster
// than the tables allow.
func TestTraffic(t *testing.T) {
	programs.Needs(t, "mpirun", "mpicc", "make")
	if err := ibsim.Available(); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute, errors.New("the test takes too long"))
	defer cancel()
	o := options{n: 4, bytes: 32 << 10, rounds: 1, rate: 2_000_000, dir: t.TempDir(), tell: func(measurement) {}}
	var err error
	if o.forsd, err = e2e.Build(ctx, o.dir); err != nil {
		t.Fatal(err)
	}
	o.shim = filepath.Join(o.dir, "libforsmpi.so")
	if err := built.Make(ctx, "mpi/libforsmpi", o.dir, o.shim); err != nil {
		t.Fatal(err)
	}
	if err := o.build(ctx); err != nil {
		t.Fatal(err)
	}
	seen := map[string]measurement{}
	for _, way := range []func(context.Context, options) ([]measurement, error){minHop, byForsd} {
		all, err := way(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			t.Logf("%s, %s, %s: %.3f of a link, %.3f predicted; waited %.3f; late %v", m.tables, m.state, m.exchange, m.measured, m.predicted, m.waited, m.count.Late)
			seen[m.tables+", "+m.state+", "+m.exchange] = m
			if m.exchange == "shift in step" && m.measured > m.predicted*(1+tolerance) {
				t.Errorf("%s, %s: a shift in step has %.3f of a link, and the tables allow %.3f", m.tables, m.state, m.measured, m.predicted)
			}
			if m.lost() > 0 {
				t.Errorf("%s, %s, %s: %d packets were lost", m.tables, m.state, m.exchange, m.lost())
			}
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d measurements, want 8", len(seen))
	}
	hop, plan := seen["min-hop, a dead cable, shift in step"], seen["forsd, a dead cable, alltoall by the plan"]
	if hop.predicted > 0.7 || plan.predicted < 0.9 {
		t.Errorf("min-hop's tables allow %.3f, the plan %.3f", hop.predicted, plan.predicted)
	}
}
