// Package parallel distributes numbered steps to goroutines.
package parallel

import (
	"context"
	"sync"
	"sync/atomic"
)

// Each runs the steps below n on the given number of goroutines, at least one, until ctx ends.
// Each goroutine runs its steps with the function that worker returns for its number. The error
// is that of the lowest step that failed or was not run.
func Each(ctx context.Context, n, goroutines int, worker func(number int) func(step int) error) (step int, err error) {
	errs := make([]error, n)
	var next atomic.Int32
	var group sync.WaitGroup
	for number := range min(max(1, goroutines), n) {
		take := worker(number)
		group.Go(func() {
			for i := int(next.Add(1) - 1); i < n; i = int(next.Add(1) - 1) {
				if errs[i] = ctx.Err(); errs[i] == nil {
					errs[i] = take(i)
				}
			}
		})
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return i, err
		}
	}
	return n, nil
}

// All is Each for steps without a context.
func All(n, goroutines int, worker func(number int) func(step int) error) error {
	_, err := Each(context.Background(), n, goroutines, worker)
	return err
}
