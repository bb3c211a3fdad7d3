// Package tiers answers the requests to the planners of the other tiers: GPU
// clusters, optical circuit switches, and topologies that are no fat tree. It
// works beside the daemon and knows nothing of it.
package tiers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Routes are the fabric that forsd looks after, with its tables as they were read
// back last; the tables are nil where there are none.
type Routes func() (*topology.Fabric, *lft.Tables)

// Handlers are the endpoints by ServeMux pattern. routes is for schedules of
// forsd's own fabric.
func Handlers(routes Routes) map[string]http.Handler {
	return map[string]http.Handler{
		"POST /v1/gpu/schedule":     handler(gpuBody, planGPU),
		"POST /v1/optical/ocs":      handler(ocsBody, planOCS),
		"POST /v1/optical/photonic": handler(photonicRequest, planPhotonic),
		"POST /v1/liquid":           handler(liquidBody, routes.planLiquid),
	}
}

// planTime is how long a plan of another tier may take, with the wait for its
// turn.
const planTime = time.Minute

// turns bounds how many plans of other tiers are made at once: they are for
// whoever asks, and the fabric's own come first, on a core that is left to them.
var turns = make(chan struct{}, max(1, runtime.NumCPU()-1))

// handler is that of a planner of another tier: a request of at most so
// many bytes in, an answer as JSON out. It works beside the daemon's loop and knows
// nothing of the fabric. plan is given a context that ends when time is up or the
// client has gone; its errors are answered as bad requests.
func handler[Q any](limit int64, plan func(context.Context, *Q) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := api.ReadJSON(w, r, limit, &q); err != nil {
			api.WriteError(w, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), planTime)
		defer cancel()
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			api.WriteError(w, tooLong(ctx))
			return
		}
		answer, err := plan(ctx, &q)
		if err != nil {
			var e *api.Error
			switch {
			case ctx.Err() != nil:
				err = tooLong(ctx)
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

// tooLong says why there is no plan.
func tooLong(ctx context.Context) error {
	return api.Refused("planning did not end within %v (%v): ask for less, or use forsctl", planTime, context.Cause(ctx))
}
