package ocs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Method is a way to schedule.
type Method string

// The methods: Spectra as published, Spectra improved, and its published variant by Eclipse.
const (
	Fast    Method = "fast"
	Best    Method = "best"
	Eclipse Method = "eclipse"
)

// Methods lists them.
var Methods = []Method{Fast, Best, Eclipse}

// MaxSwitches is the most switches that are scheduled in parallel.
const MaxSwitches = 1024

// Options say how to schedule: the flags of forsplan ocs schedule, and the members of the
// corresponding request.
type Options struct {
	Switches int     `json:"switches"` // s
	Delta    float64 `json:"delta"`    // δ, in the demand's unit
	Method   Method  `json:"method"`   // Fast if empty

	// Steps bound the search of Best; 0 is DefaultSteps. The same demand, options and
	// steps give the same schedule.
	Steps int `json:"steps"`
	// Budget, if positive, bounds the search by time instead; the result then depends on
	// the machine.
	Budget time.Duration `json:"-"`

	// From is a schedule for Best to begin with, such as that of the previous demand. If
	// it carries the demand on at most as many switches, with this delay or a longer one,
	// the result is never longer.
	From *Schedule `json:"-"`

	Damage // dead switches and ports

	LP         bool `json:"-"`           // Fast and Best: weights by linear programming rather than greedily
	NoEqualize bool `json:"no_equalize"` // Fast and Eclipse: leave Equalize out
	Levels     int  `json:"-"`           // Eclipse: levels of weights to try; 0 means bisection
}

// Refine says how Fast and Best choose weights: greedy or lp.
func (o *Options) Refine(how string) error {
	if o.LP = how == "lp"; !o.LP && how != "greedy" {
		return fmt.Errorf("refine %.100q: want greedy or lp", how)
	}
	return nil
}

// check returns an error if options are out of range or the method does not use them.
func (o Options) check() error {
	switch {
	case o.Switches < 1 || o.Switches > MaxSwitches:
		return fmt.Errorf("%d switches: want 1 to %d", o.Switches, MaxSwitches)
	case !(o.Delta >= 0) || o.Delta > maxTime:
		return fmt.Errorf("a reconfiguration delay of %v: want a number from zero to %g", o.Delta, maxTime)
	case o.Steps < 0:
		return fmt.Errorf("%d steps: want zero or more", o.Steps)
	case o.Budget < 0:
		return fmt.Errorf("a budget of %v: want zero or more", o.Budget)
	case o.Steps > 0 && o.Budget > 0:
		return errors.New("steps and a budget are both given: one of them bounds the search")
	}
	return o.checkMethod()
}

// checkMethod returns an error for options that the method does not use.
func (o Options) checkMethod() error {
	fast := o.Method == Fast || o.Method == ""
	switch {
	case (o.Steps > 0 || o.Budget > 0) && o.Method != Best:
		return fmt.Errorf("steps or a budget bound the search of method best: method %s has none", cmp.Or(o.Method, Fast))
	case o.LP && !fast && o.Method != Best:
		return fmt.Errorf("weights by linear programming are for methods fast and best, not for %s", o.Method)
	case o.From != nil && o.Method != Best:
		return fmt.Errorf("method best begins with a schedule, method %s does not", cmp.Or(o.Method, Fast))
	case o.NoEqualize && !fast && o.Method != Eclipse:
		return fmt.Errorf("equalize is left out of methods fast and eclipse, not of %s", o.Method)
	case o.Levels != 0 && o.Method != Eclipse:
		return fmt.Errorf("levels of weights are for method eclipse, not for %s", cmp.Or(o.Method, Fast))
	}
	return nil
}

// Make schedules a demand. A demand of zeros gives a schedule without configurations.
// Make fails if options are out of range, and with ctx.Err() soon after ctx ends. Best
// always has a schedule: it ignores the error of a deadline, and on cancellation returns
// the best schedule so far with the error.
func Make(ctx context.Context, d *Demand, o Options) (*Schedule, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if !o.None() {
		return o.makeDamaged(ctx, d)
	}
	c, p, err := o.plan(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return p.schedule(c), err
	}
	return p.schedule(c), nil
}

// plan decomposes a demand and assigns the permutations to switches.
func (o Options) plan(ctx context.Context, d *Demand) (*cover, *plan, error) {
	switch o.Method {
	case Best:
		return o.best(ctx, d)
	case Eclipse, Fast, "":
	default:
		return nil, nil, fmt.Errorf("method %q: want fast, best or eclipse", o.Method)
	}
	var c *cover
	var err error
	if o.Method == Eclipse {
		c, err = eclipse(ctx, d, o.Delta, o.Levels, o.Switches, math.Inf(1))
	} else {
		c, err = o.spectra(ctx, d)
	}
	if err != nil {
		return nil, nil, err
	}
	p := lpt(c.weight, o.Switches, o.Delta)
	if !o.NoEqualize {
		p.equalize()
	}
	return c, p, nil
}

// spectra covers the demand by Alg. 1 and Alg. 2.
func (o Options) spectra(ctx context.Context, d *Demand) (*cover, error) {
	c, err := decompose(ctx, d)
	if err != nil || !o.LP {
		return c, err
	}
	return c, c.refineLP(ctx)
}
