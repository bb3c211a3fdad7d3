package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"time"

	"forsd/api"
)

// tierTime is how long a plan of another tier may take, with the wait for its
// turn.
const tierTime = time.Minute

// tierTurns bounds how many plans of other tiers are made at once: they are for
// whoever asks, and the fabric's own come first, on a core that is left to them.
var tierTurns = make(chan struct{}, max(1, runtime.NumCPU()-1))

// tierPlan is the handler of a planner of another tier: a request of at most so
// many bytes in, an answer as JSON out. It works beside the daemon's loop and knows
// nothing of the fabric. plan is given a context that ends when time is up or the
// client has gone; its errors are answered as bad requests.
func tierPlan[Q any](limit int64, plan func(context.Context, *Q) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := api.ReadJSON(w, r, limit, &q); err != nil {
			api.WriteError(w, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), tierTime)
		defer cancel()
		select {
		case tierTurns <- struct{}{}:
			defer func() { <-tierTurns }()
		case <-ctx.Done():
			api.WriteError(w, tierTimeout(ctx))
			return
		}
		answer, err := plan(ctx, &q)
		if err != nil {
			var e *api.Error
			switch {
			case ctx.Err() != nil:
				err = tierTimeout(ctx)
			case !errors.As(err, &e):
				err = api.BadRequest("%v", err)
			}
			api.WriteError(w, err)
			return
		}
		body, err := json.Marshal(answer)
		if err != nil {
			api.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n')) // whoever asked is gone if this fails
	})
}

// tierTimeout says why there is no plan.
func tierTimeout(ctx context.Context) error {
	return api.Refused("planning did not end within %v (%v): ask for less, or use forsctl", tierTime, context.Cause(ctx))
}
