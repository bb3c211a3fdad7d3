package main

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/programs"
)

var scratch string

func TestMain(m *testing.M) { programs.Scratch(m, &scratch) }

func needed(t *testing.T) {
	t.Helper()
	programs.Needs(t, "mpirun", "mpicc", "make")
	if err := ibsim.Available(); err != nil {
		t.Skip(err)
	}
}

// buildAll builds the programs of the tests, once for all of them.
func buildAll(ctx context.Context, o options) error {
	if _, err := os.Stat(o.program()); err == nil {
		return nil
	}
	_, err := e2e.Build(ctx, o.dir)
	return errors.Join(err, built.Make(ctx, "mpi/libforsmpi", o.dir, o.shim), built.Make(ctx, "mpi/libforslanes", o.dir, o.lanes), o.build(ctx))
}

// TestTraffic is make testbed on 16 hosts. Throughputs depend on the machine's load, so it
// checks counts: every byte arrives, also if a cable is pulled in the middle, no packet is
// lost on tables at rest, no exchange in step is faster than the tables allow, and packets of
// planned exchanges hardly wait for links, while those of a linear shift on min-hop tables do
// with a dead cable.
func TestTraffic(t *testing.T) {
	ctx, o := prepared(t)
	seen := map[string]measurement{}
	for _, way := range []func(context.Context, options) ([]measurement, error){measureMinHop, measureForsd} {
		all, err := way(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			t.Logf("%s, %s, %s: %.3f of a link, %.3f predicted; waited %.3f; late %v", m.tables, m.state, m.exchange.name, m.measured, m.predicted, m.waited, m.count.Late)
			seen[m.tables+", "+m.state+", "+m.exchange.name] = m
			if m.state == pulled { // packets may be lost, or not
				continue
			}
			if !m.exchange.loose && m.measured > m.predicted*(1+tolerance) {
				t.Errorf("%s, %s, %s: %.3f of a link, and the tables allow %.3f", m.tables, m.state, m.exchange.name, m.measured, m.predicted)
			}
			if m.lost() > 0 {
				t.Errorf("%s, %s, %s: %d packets were lost", m.tables, m.state, m.exchange.name, m.lost())
			}
		}
	}
	if len(seen) != 10 {
		t.Errorf("%d measurements, want 10", len(seen))
	}
	hop, plan := seen["min-hop, a dead cable, shift in step"], seen["forsd, a dead cable, by the plan"]
	lanes := seen["forsd, a dead cable, on lanes"]
	if hop.waited < 2*max(plan.waited, lanes.waited) {
		t.Errorf("with a dead cable packets wait for links for %.3f of the time in which these are busy by min-hop, %.3f by the plan, %.3f on lanes",
			hop.waited, plan.waited, lanes.waited)
	}
	if hop.predicted > 0.7 || plan.predicted < 0.9 {
		t.Errorf("min-hop's tables allow %.3f, the plan %.3f", hop.predicted, plan.predicted)
	}
}

// TestPrograms is make testbed with -programs on 16 healthy hosts, for equal and for unequal
// blocks: every byte of each exchange arrives, whichever way it goes.
func TestPrograms(t *testing.T) {
	ctx, o := prepared(t)
	o.upTo, o.bytes, o.programs = 1, 4096, []string{"third", "lognormal"}
	all, err := measurePrograms(ctx, o)
	if err != nil || len(all) != len(o.programs) {
		t.Fatal(all, err)
	}
	for _, p := range all {
		if p.minHop <= 0 || p.without <= 0 || p.plan <= 0 || p.chosen <= 0 {
			t.Errorf("%+v", p)
		}
	}
}
