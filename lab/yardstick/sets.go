package yardstick

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
)

// Set is a number of fixed cases. Measure plans one by its number, and returns for each of the
// names how many times its bound the figure is, or one plus the share of transfers that move.
type Set struct {
	Name    string
	Cases   int
	Figures []string
	Measure func(ctx context.Context, n int) ([]float64, error)
}

// Sets are those on which a heuristic of the planner must show its gain.
func Sets() []Set {
	plans := []string{"phases", "base phases", "busiest cable"}
	return []Set{
		{"damaged", Fabrics, append(slices.Clone(plans), "moved"), damaged},
		{"two levels", 120, plans, func(ctx context.Context, n int) ([]float64, error) { return twoLevels(ctx, n, 0, 0) }},
		{"exchanges", 60, plans, func(ctx context.Context, n int) ([]float64, error) { return twoLevels(ctx, n, 2+n%3, .03) }},
		{"mixed exchanges", 30, plans, func(ctx context.Context, n int) ([]float64, error) { return twoLevels(ctx, n, 2+n%3, 1) }},
		{"partly filled", 60, plans, partlyFilled},
		{"one more cable", 120, append(slices.Clone(plans), "moved"), oneMore},
		{"what remains", 60, []string{"phases", "moved"}, whatRemains},
	}
}

// failed ends a generator, whose fabrics are sound.
type failed struct{}

func (failed) Helper()          {}
func (failed) Fatal(why ...any) { panic(fmt.Sprint(why...)) }

func times(phases, bound int) float64 { return float64(phases) / float64(max(1, bound)) }

// damaged has the fabrics of Measure.
func damaged(ctx context.Context, n int) ([]float64, error) {
	_, is, err := Measure(ctx, failed{}, n)
	if err != nil {
		return nil, err
	}
	return []float64{times(is[0], is[1]), times(is[3], is[4]), times(is[5], is[4]), 1 + float64(is[2])/1e4}, nil
}

// twoLevels plans a drawn tree, in several exchanges if there are so many.
func twoLevels(ctx context.Context, n, exchanges int, strays float64) ([]float64, error) {
	spec, dead := fabgen.Drawn(uint64(n))
	tree, err := spec.Fit(dead...)
	if err != nil {
		return nil, err
	}
	if exchanges > 0 {
		tree = fabgen.Divided(tree, rand.New(rand.NewPCG(uint64(n), 36)), exchanges, strays)
	}
	r, err := planner.Make(ctx, tree, planner.Settings{MaxUnreachable: &all})
	if err != nil {
		return nil, err
	}
	return figures(r.Report(), r.Base != nil), nil
}

// figures are those of a plan and its base plan.
func figures(r planner.Report, base bool) []float64 {
	f := []float64{times(r.Phases, r.LowerBound), 1, 1}
	if base {
		f[1], f[2] = times(r.Base.Phases, r.Base.LowerBound), times(r.Load.BusiestCable, r.Load.FairShare)
	}
	return f
}

// oneMore plans a drawn tree, and again when one more cable has died. What moves are the leaves'
// entries for base LIDs.
func oneMore(ctx context.Context, n int) ([]float64, error) {
	spec, dead := fabgen.Drawn(uint64(n))
	tree, err := spec.Fit(dead...)
	if err != nil {
		return nil, err
	}
	set := planner.Settings{MaxUnreachable: &all}
	was, err := planner.Make(ctx, tree, set)
	if err != nil {
		return nil, err
	}
	if was.Base != nil {
		if set.Before, err = phasetable.New(was.Base.Table(1)); err != nil {
			return nil, err
		}
		set.Tables = was.Tables
	}
	lanes := spec
	lanes.Spines *= spec.Cables
	if tree, err = spec.Fit(append(dead, fabgen.DrawCables(rand.New(rand.NewPCG(uint64(n), 33)), lanes, 1)...)...); err != nil {
		return nil, err
	}
	r, err := planner.Make(ctx, tree, set)
	if err != nil {
		return nil, err
	}
	moved, entries := 0, 0
	for l := range tree.Leaves {
		a, b := was.Tables.Find(tree.Leaves[l].GUID), r.Tables.Find(tree.Leaves[l].GUID)
		for _, i := range tree.Servers {
			if entries++; was.Tables.Port(a, tree.Hosts[i].LID) != r.Tables.Port(b, tree.Hosts[i].LID) {
				moved++
			}
		}
	}
	return append(figures(r.Report(), r.Base != nil), 1+float64(moved)/float64(max(1, entries))), nil
}

// partlyFilled plans a tree of three levels, the last ten with 16 ports a switch.
func partlyFilled(ctx context.Context, n int) ([]float64, error) {
	tree, err := fabgen.Ragged(uint64(n), n >= 50)
	if err != nil {
		return nil, err
	}
	r, err := podplan.Make(ctx, tree, podplan.Settings{MaxUnreachable: &all})
	if err != nil {
		return nil, err
	}
	return figures(r.Report().Report, r.Base != nil), nil
}

// whatRemains plans what remains of an exchange, when cables or a spine have died in its middle;
// the last ten are of FT(2;20,18).
func whatRemains(ctx context.Context, n int) ([]float64, error) {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	spec, dead := fabgen.Drawn(uint64(n))
	if n >= 50 {
		spec = fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}
		dead = fabgen.DrawCables(rng, spec, 1+rng.IntN(9))
	}
	whole, err := spec.Fit()
	if err != nil {
		return nil, err
	}
	r, err := planner.Make(ctx, whole, planner.Settings{MaxUnreachable: &all})
	if err != nil {
		return nil, err
	}
	if rng.IntN(3) == 0 {
		dead = dead[:0]
		for l := range spec.Leaves {
			dead = append(dead, [2]int{l, 0})
		}
	}
	hurt, err := spec.Fit(dead...)
	if err != nil {
		return nil, err
	}
	plan, err := phasetable.New(r.Table(1))
	if err != nil {
		return nil, err
	}
	rest, err := planner.Remaining(ctx, hurt, plan, plan.Phases()*(n%9)/9)
	if err != nil {
		return nil, err
	}
	moved := float64(rest.Moved+rest.Shed) / float64(max(1, rest.Kept+rest.Moved+rest.Shed))
	return []float64{times(rest.Plan.Phases, rest.Plan.LowerBound), 1 + moved}, nil
}
