package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"forsd/fors"
	"forsd/ilp"
	"forsd/topology"
)

// Auto lets the planner choose the engine.
const Auto = "auto"

// Engines lists what Settings.Engine may be.
var Engines = []string{Auto, string(fors.Algorithm), string(fors.Exact), string(fors.ILP)}

// ilpLimit bounds the integer programmes of one plan; the paper's solver needed
// 30 s (section 6.3).
const ilpLimit = time.Minute

// schedule runs the chosen engine.
func schedule(t *topology.FatTree, engine string) (*Schedule, error) {
	start := time.Now()
	if len(t.Servers) == 0 {
		return nil, errors.New("the fabric has no server: there is nothing to exchange")
	}
	tree := forsTree(t)
	var plan *fors.Plan
	var err error
	switch engine {
	case "", Auto:
		plan, err = fors.Make(tree)
	case string(fors.Algorithm):
		plan, err = algorithm(tree)
	case string(fors.Exact):
		plan, err = fors.PlanExact(tree)
	case string(fors.ILP):
		plan, err = integer(tree)
	default:
		err = fmt.Errorf("engine %q does not exist: use one of %v", engine, Engines)
	}
	if err != nil {
		return nil, err
	}
	return bind(t, plan, start)
}

// algorithm insists on the FORS paper's own path: the linear shift while no
// lane is lost, section 4's schedule with Algorithm 2 afterwards.
func algorithm(tree *fors.Tree) (*fors.Plan, error) {
	if plan, ok := fors.PlanShift(tree); ok {
		return plan, nil
	}
	if plan, ok := fors.PlanAlgorithm(tree); ok {
		return plan, nil
	}
	b := fors.ComputeBounds(tree)
	return nil, fmt.Errorf("engine algorithm does not apply: failures affect m = %d lanes, and the bandwidth reduction is f = %d (Algorithm 2 needs m ≤ f): use auto or exact", b.Affected, b.Reduction)
}

// integer routes section 4's schedule by the paper's integer programme.
func integer(tree *fors.Tree) (*fors.Plan, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), ilpLimit, fmt.Errorf("engine ilp found no routing within %s: use auto or exact", ilpLimit))
	defer cancel()
	plan, err := ilp.Plan(ctx, tree)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return plan, err
}

func conservative(t *topology.FatTree) (*Schedule, error) {
	start := time.Now()
	return bind(t, fors.PlanConservative(forsTree(t)), start)
}
