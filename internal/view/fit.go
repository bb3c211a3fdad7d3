package view

import (
	"errors"
	"slices"

	"github.com/forsd/forsd/controller"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/exclusions"
	"github.com/forsd/forsd/topology"
)

// Fit returns the view of a fabric through a baseline, or through a new one if base is nil. A
// fabric that is not a fat tree yields a view of another kind, or an error, depending on the
// settings. Before any plan is in force, a tree whose plan would leave out too many pairs is an
// error too. With a plan in force, the tables still follow such a fabric, and the plan stays:
// see controller.PlanFailed.
func Fit(f *topology.Fabric, base *topology.Baseline, c *config.Planning, first bool) (*View, error) {
	if by := topology.Roles(c.Roles); by != (topology.Roles{}) {
		f = f.WithRoles(by)
	}
	var err error
	if base == nil {
		base, err = topology.Recognise(f)
	}
	var v *View
	if err == nil {
		v, err = New(f, base, c)
	}
	if err == nil && first {
		err = v.mayPlan(c.MaxUnreachable)
	}
	if _, other := errors.AsType[*topology.NotFatTree](err); other && c.OtherFabrics == config.OtherLiquid {
		return NewOwnRoutes(f, c.Exclude, err.Error()), nil
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Cables lists the cables of lanes, if the fabric is a tree that has them.
func (v *View) Cables(lanes []controller.Lane) []exclusions.Link {
	if v == nil || v.Tree == nil || len(lanes) == 0 {
		return nil
	}
	return slices.DeleteFunc(exclusions.Links(v.Tree), func(x exclusions.Link) bool { return !slices.Contains(lanes, x.Lane) })
}
