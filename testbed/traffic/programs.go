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
// plan, and as the shim chooses, on forsd's tables, and without the shim on those of min-hop.

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
	state, name                   string
	minHop, without, plan, chosen float64
}

// share is the chosen way's throughput as a share of the better of the others.
func (p *program) share() float64 { return p.chosen / max(p.without, p.plan) }

// measurePrograms measures all programs in all states, and prints them.
func measurePrograms(ctx context.Context, o options) (all []program, err error) {
	for _, s := range o.states() {
		for _, name := range o.programs {
			all = append(all, program{state: s.name, name: name})
		}
	}
	err = measureWays(ctx, o, bringMinHop, func(b *bed) routes { return minHop{b} }, all, func(*bed) []way {
		return []way{{func(p *program) *float64 { return &p.minHop }, []string{adapter.OwnAlgorithm}, roundsFixed}}
	})
	if err != nil {
		return nil, fmt.Errorf("min-hop: %w", err)
	}
	fmt.Printf("%-18s %-10s %9s %9s %9s %9s %9s\n", "state", "exchange", "min-hop", "no shim", "plan", "chosen", "share")
	err = measureWays(ctx, o, bringForsd, func(b *bed) routes { return byForsd{b} }, all, func(b *bed) []way {
		shim := append([]string{adapter.OwnAlgorithm, "LD_PRELOAD=" + o.shim}, b.ranks()...)
		return []way{
			{func(p *program) *float64 { return &p.without }, shim[:1], roundsFixed},
			{func(p *program) *float64 { return &p.plan }, append(slices.Clone(shim), "FORS_WAY=plan"), roundsFixed},
			{func(p *program) *float64 { return &p.chosen }, shim, roundsChosen},
		}
	})
	return all, err
}

// way is how a program's exchanges are carried out, and where their throughput is noted.
type way struct {
	to     func(*program) *float64
	env    []string
	rounds int
}

// measureWays measures programs on one kind of tables. It prints those that are complete.
func measureWays(ctx context.Context, o options, bring func(context.Context, options) (*bed, error), routes func(*bed) routes, all []program, ways func(*bed) []way) (err error) {
	b, err := bring(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	var was state
	for _, s := range o.states() {
		if err := errors.Join(b.change(ctx, was, s), b.settled(ctx, routes(b), s)); err != nil {
			return err
		}
		was = s
		for i := range all {
			p := &all[i]
			if p.state != s.name {
				continue
			}
			for _, w := range ways(b) {
				m := measurement{exchange: exchange{name: p.name, way: p.name, env: w.env}}
				cmd, out, err := b.job(ctx, m.exchange, o.bytes, w.rounds)
				if err != nil {
					return err
				}
				if err := b.data.Clear(); err != nil {
					return err
				}
				if err := b.finish(ctx, &m, cmd, out, cmd.Run()); err != nil {
					return err
				}
				*w.to(p) = m.measured
			}
			if p.chosen > 0 {
				fmt.Printf("%-18s %-10s %9.3f %9.3f %9.3f %9.3f %9.3f\n", p.state, p.name, p.minHop, p.without, p.plan, p.chosen, p.share())
			}
		}
	}
	return nil
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
