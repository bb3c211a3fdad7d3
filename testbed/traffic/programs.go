package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forsd/forsd/testbed/adapter"
)

// This file measures exchanges as programs make them: of equal blocks, among a third of the
// hosts, of unequal blocks, of few, and to few receivers. Each runs without the shim, by the
// plan, and as the shim chooses, all on forsd's tables.

// shapes are exchanges of testdata/exchange.c.
var shapes = []string{"alltoall", "third", "lognormal", "sparse", "popular"}

// take reads the programs to measure.
func (o *options) take(list string) error {
	if o.programs = strings.Split(list, ","); list == "all" {
		o.programs = shapes
	}
	for _, name := range o.programs {
		if !slices.Contains(shapes, name) {
			return fmt.Errorf("%q is none of %s, and not all", name, strings.Join(shapes, ", "))
		}
	}
	return nil
}

// A program's exchanges are measured so often. The shim tries each way in the first of them.
const (
	roundsFixed  = 5
	roundsChosen = 40
)

// leastChosen is the least throughput as the shim chooses, as a share of the better of the
// others.
const leastChosen = 0.98

// program is how fast a program's exchange was, as shares of a link at the busiest host.
type program struct {
	state, name           string
	without, plan, chosen float64
}

// share is the chosen way's throughput as a share of the better of the others.
func (p *program) share() float64 { return p.chosen / max(p.without, p.plan) }

// measurePrograms measures all programs in all states, and prints them.
func measurePrograms(ctx context.Context, o options) (all []program, err error) {
	b, err := bringForsd(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	shim := append([]string{adapter.OwnAlgorithm, "LD_PRELOAD=" + o.shim}, b.ranks()...)
	fmt.Printf("%-18s %-10s %9s %9s %9s %9s\n", "state", "exchange", "no shim", "plan", "chosen", "share")
	var was state
	for _, s := range o.states() {
		if err := errors.Join(b.change(ctx, was, s), b.settled(ctx, byForsd{b}, s)); err != nil {
			return all, err
		}
		was = s
		for _, name := range o.programs {
			p := program{state: s.name, name: name}
			for _, way := range []struct {
				to     *float64
				env    []string
				rounds int
			}{{&p.without, shim[:1], roundsFixed}, {&p.plan, append(slices.Clone(shim), "FORS_WAY=plan"), roundsFixed}, {&p.chosen, shim, roundsChosen}} {
				m := measurement{exchange: exchange{name: name, way: name, env: way.env}}
				cmd, out, err := b.job(ctx, m.exchange, o.bytes, way.rounds)
				if err != nil {
					return all, err
				}
				if err := b.data.Clear(); err != nil {
					return all, err
				}
				if err := b.finish(ctx, &m, cmd, out, cmd.Run()); err != nil {
					return all, err
				}
				*way.to = m.measured
			}
			fmt.Printf("%-18s %-10s %9.3f %9.3f %9.3f %9.3f\n", p.state, p.name, p.without, p.plan, p.chosen, p.share())
			all = append(all, p)
		}
	}
	return all, nil
}

// judgePrograms reports the exchanges that the shim makes slower than they are otherwise.
func judgePrograms(all []program) error {
	var errs []error
	for _, p := range all {
		if p.share() < leastChosen {
			errs = append(errs, fmt.Errorf("%s, %s: %.3f as the shim chooses, %.3f without it and %.3f by the plan", p.state, p.name, p.chosen, p.without, p.plan))
		}
	}
	return errors.Join(errs...)
}
