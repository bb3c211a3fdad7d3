package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/topology"
)

// state is what has been done to the healthy fabric.
type state struct {
	name string
	dead []cable // cables that are dead
	gone bool    // the first spine is gone
}

// cable is a cable between a leaf and the spine of a lane.
type cable struct{ leaf, lane int }

// states are the measured states, in this order. The first cable is pulled in the middle of
// an exchange.
func (o options) states() []state {
	first := cable{1, 2}
	all := []state{{name: "healthy"}, {name: "a dead cable", dead: []cable{first}},
		{name: "three dead cables", dead: []cable{first, {0, o.n - 1}, {o.n - 1, 1}}}, {name: "a dead spine", gone: true}}
	return all[:o.upTo]
}

// exchange is an exchange that is measured.
type exchange struct {
	name, way string           // way is that of testdata/exchange.c
	env       []string         // further variables of the ranks
	plan      *phasetable.View // of the exchange; nil: a linear shift
	// loose exchanges have no phases that ranks keep: their throughput is printed with the
	// prediction for the same transfers in phases, and not judged by it.
	loose bool
	// bound is the throughput that no exchange in phases exceeds on the fabric as it is, if
	// forsd has reported it; 0 otherwise.
	bound float64
}

// routes is the routing of a fabric, and the exchanges on its tables.
type routes interface {
	// settled waits until the fabric is routed as it is in a state.
	settled(context.Context, state) error
	exchanges(context.Context) ([]exchange, error)
}

// measureAll measures all exchanges in all states.
func (b *bed) measureAll(ctx context.Context, tables string, by routes) (all []measurement, err error) {
	var was state
	for _, s := range b.o.states() {
		if s.name == "a dead cable" {
			m, err := b.midRun(ctx, tables, by, s)
			if err != nil {
				return all, fmt.Errorf("%s: %w", pulled, err)
			}
			all = append(all, m)
			b.o.tell(m)
		} else if err := errors.Join(b.change(ctx, was, s), b.settled(ctx, by, s)); err != nil {
			return all, err
		}
		was = s
		f, switches, err := b.state(ctx)
		if err != nil {
			return all, err
		}
		exchanges, err := by.exchanges(ctx)
		if err != nil {
			return all, err
		}
		for _, x := range exchanges {
			m, err := b.measure(ctx, measurement{tables: tables, state: s.name, exchange: x}, f, switches)
			if err != nil {
				return all, err
			}
			all = append(all, m)
			b.o.tell(m)
		}
	}
	return all, nil
}

// settled waits until the fabric is routed as it is in a state, and the data go that way.
func (b *bed) settled(ctx context.Context, by routes, s state) error {
	if err := errors.Join(by.settled(ctx, s), b.follow.Caught(ctx)); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// state is the fabric as it is, with its tables as they were read from the switches.
func (b *bed) state(ctx context.Context) (*topology.Fabric, *lft.Tables, error) {
	f, err := b.Fabric(ctx)
	if err != nil {
		return nil, nil, err
	}
	tables, err := b.ReadTables(ctx)
	return f, tables, err
}

// change brings the fabric from one state to another.
func (b *bed) change(ctx context.Context, was, is state) (err error) {
	lost := map[cable]bool{}
	for _, c := range was.dead {
		lost[c] = true
	}
	for _, c := range is.dead {
		if !lost[c] {
			err = errors.Join(err, b.Sim.Unlink(ctx, leafName(c.leaf), b.o.n+1+c.lane))
		}
		delete(lost, c)
	}
	for c := range lost {
		err = errors.Join(err, b.Sim.Relink(ctx, leafName(c.leaf), b.o.n+1+c.lane))
	}
	if is.gone && !was.gone {
		err = errors.Join(err, b.Sim.UnlinkNode(ctx, spineName(0)))
	}
	return err
}

func leafName(i int) string  { return fmt.Sprintf("Leaf%03d", i) }
func spineName(i int) string { return fmt.Sprintf("Spine%03d", i) }

// shown accepts a fabric that is in a state.
func (b *bed) shown(s state) func(*api.Topology) error {
	return func(t *api.Topology) error {
		dead := map[cable]bool{}
		for _, c := range s.dead {
			dead[c] = true
		}
		for l := range b.o.n {
			for k := range b.o.n {
				want := "full"
				if dead[cable{l, k}] {
					want = "missing"
				}
				if s.gone && k == 0 {
					continue
				}
				if err := e2e.Cable(l, k, want)(t); err != nil {
					return err
				}
			}
		}
		return e2e.SpinePresent(0, !s.gone)(t)
	}
}
