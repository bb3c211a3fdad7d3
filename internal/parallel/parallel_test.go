package parallel

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

// TestEach counts how often each step runs, and checks which error is returned, and that no
// step starts after the context has ended.
func TestEach(t *testing.T) {
	wrong := errors.New("wrong")
	for _, c := range []struct{ n, goroutines int }{{0, 3}, {1, 0}, {1, 3}, {100, 1}, {100, 3}, {3, 100}} {
		taken, workers := make([]atomic.Int32, c.n), 0
		at, err := Each(t.Context(), c.n, c.goroutines, func(number int) func(int) error {
			if number != workers {
				t.Errorf("%+v: worker %d begins after %d", c, number, workers)
			}
			workers++
			busy := false
			return func(step int) error {
				if busy {
					t.Errorf("%+v: worker %d takes two steps at a time", c, number)
				}
				busy = true
				taken[step].Add(1)
				busy = false
				if step >= 50 {
					return fmt.Errorf("step %d: %w", step, wrong)
				}
				return nil
			}
		})
		if want := min(c.n, 50); at != want || (err != nil) != (c.n > 50) || err != nil && err.Error() != "step 50: wrong" {
			t.Errorf("%+v: step %d, %v", c, at, err)
		}
		if workers > max(1, c.goroutines) || workers > c.n {
			t.Errorf("%+v: %d workers", c, workers)
		}
		for i := range taken {
			if n := taken[i].Load(); n != 1 {
				t.Errorf("%+v: step %d is taken %d times", c, i, n)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	at, err := Each(ctx, 3, 2, func(int) func(int) error {
		return func(int) error { t.Error("a step is taken after the end"); return nil }
	})
	if at != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: step %d, %v", at, err)
	}
}
