package planner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ilp"
	"github.com/forsd/forsd/topology"
)

// Auto lets the planner choose the engine.
const Auto = "auto"

// Engines lists the values of Settings.Engine.
var Engines = []string{Auto, string(fors.Algorithm), string(fors.Exact), string(fors.ILP)}

const (
	// ilpLimit limits the integer programmes of one plan; the paper's solver needed 30 s
	// (section 6.3).
	ilpLimit = time.Minute
	// standInLimit limits them if they replace a plan that failed verification, which the
	// conservative engine can do at once.
	standInLimit = time.Second
)

// schedule runs the chosen engine.
func schedule(ctx context.Context, t *topology.FatTree, s Settings) (*Schedule, error) {
	start := time.Now()
	if len(t.Servers) == 0 {
		return nil, errors.New("the fabric has no server: there is nothing to exchange")
	}
	tree := forsTree(t)
	var plan *fors.Plan
	var err error
	switch s.Engine {
	case "", Auto:
		plan, err = automatic(ctx, tree, s.Memory)
	case string(fors.Algorithm):
		plan, err = algorithm(ctx, tree)
	case string(fors.Exact):
		plan, err = fors.PlanExact(ctx, tree)
	case string(fors.ILP):
		plan, err = integer(ctx, tree, ilpLimit)
	default:
		err = fmt.Errorf("engine %q does not exist: use one of %v", s.Engine, Engines)
	}
	if err != nil {
		return nil, err
	}
	return bind(t, plan, start)
}

// algorithm uses the FORS paper's own path only: the linear shift while no lane is lost,
// otherwise section 4's schedule with Algorithm 2.
func algorithm(ctx context.Context, tree *fors.Tree) (*fors.Plan, error) {
	plan, err := fors.PlanShift(ctx, tree)
	if errors.Is(err, fors.ErrNotApplicable) {
		plan, err = fors.PlanAlgorithm(ctx, tree)
	}
	if !errors.Is(err, fors.ErrNotApplicable) {
		return plan, err
	}
	b := fors.ComputeBounds(tree)
	return nil, fmt.Errorf("engine algorithm does not apply: failures affect m = %d lanes, and the bandwidth reduction is f = %d (Algorithm 2 needs m ≤ f): use auto or exact", b.Affected, b.Reduction)
}

// automatic plans by the first engine that reaches the bound. A tree with standard names is
// planned under these, even without a memory, so that the same tree has the same plan.
func automatic(ctx context.Context, tree *fors.Tree, m *Memory) (*fors.Plan, error) {
	n := standard(tree)
	if n == nil && (m == nil || tree.Closed != nil) {
		return fors.Make(ctx, tree)
	} else if n == nil {
		n = &names{shape: facts(tree), tree: tree}
	}
	plan := m.find(n.shape)
	if plan == nil {
		var err error
		if plan, err = fors.Make(ctx, n.tree); err != nil {
			return nil, err
		}
		m.keep(n.shape, plan)
	}
	return n.back(plan), nil
}

// integer routes section 4's schedule by the paper's integer programme.
func integer(ctx context.Context, tree *fors.Tree, limit time.Duration) (*fors.Plan, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("engine ilp found no routing within %s: use auto or exact", limit))
	defer cancel()
	plan, err := ilp.Plan(ctx, tree)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return plan, err
}

// standIns are the engines that replace one whose plan failed verification, in order.
var standIns = []fors.Engine{fors.Exact, fors.ILP, fors.Conservative}

// fallbacks yields schedules by the engines after the one whose plan failed verification,
// or the reason why there is none: the integer programme is not built in or exceeds its
// time, or lanes are closed to the exact planner.
func (s *Schedule) fallbacks(ctx context.Context) iter.Seq2[*Schedule, error] {
	failed := slices.Index(standIns, s.Plan.Engine)
	return func(yield func(*Schedule, error) bool) {
		tree := forsTree(s.Tree)
		for _, engine := range standIns[failed+1:] {
			if ctx.Err() != nil {
				return
			}
			start := time.Now()
			plan, err := standIn(ctx, tree, engine)
			var second *Schedule
			if err == nil {
				second, err = bind(s.Tree, plan, start)
			}
			if !yield(second, err) {
				return
			}
		}
	}
}

// standIn plans by one of the standIns.
func standIn(ctx context.Context, tree *fors.Tree, engine fors.Engine) (*fors.Plan, error) {
	switch engine {
	case fors.Exact:
		return fors.PlanExact(ctx, tree)
	case fors.ILP:
		return integer(ctx, tree, standInLimit)
	}
	return fors.PlanConservative(ctx, tree)
}

func conservative(ctx context.Context, t *topology.FatTree) (*Schedule, error) {
	start := time.Now()
	plan, err := fors.PlanConservative(ctx, forsTree(t))
	if err != nil {
		return nil, err
	}
	return bind(t, plan, start)
}
