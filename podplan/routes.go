package podplan

import (
	"context"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// byRoutes plans for whole leaves on the tables that the tree has without any plan, by base
// LIDs alone. It is longer than other plans, and takes any number of LIDs.
func byRoutes(ctx context.Context, t *topology.PodTree) (*Result, error) {
	tables, err := lft.BuildPods(ctx, t, nil)
	if err != nil {
		return nil, err
	}
	return newGround(t, Shape(t)).on(ctx, tables, 1, false)
}
