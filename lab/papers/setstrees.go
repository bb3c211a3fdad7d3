package papers

import (
	"context"
	"sync"

	"github.com/forsd/forsd/lab/yardstick"
)

// trees are the sets of fat trees, one for each figure of a plan. Their cases are planned once.
func trees() (sets []Set) {
	for _, from := range yardstick.Sets() {
		plans := make([]func(context.Context) ([]float64, error), from.Cases)
		for n := range plans {
			var once sync.Once
			var is []float64
			var err error
			plans[n] = func(ctx context.Context) ([]float64, error) {
				once.Do(func() { is, err = from.Measure(ctx, n) })
				return is, err
			}
		}
		for i, figure := range from.Figures {
			set := Set{Name: "trees " + from.Name + ": " + figure}
			for _, plan := range plans {
				set.Cases = append(set.Cases, func(ctx context.Context) (float64, error) {
					is, err := plan(ctx)
					if err != nil {
						return 0, err
					}
					return is[i], nil
				})
			}
			sets = append(sets, set)
		}
	}
	return sets
}
