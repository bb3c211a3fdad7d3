// Package tiers answers the requests to the planners of the other tiers: GPU
// clusters, optical circuit switches, and topologies that are not fat trees. It
// plans in processes of their own and knows nothing of the daemon.
package tiers

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/worker"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Routes are the fabric that forsd looks after: the tree that plans are made for, nil where
// it is not a fat tree of two levels, and the tables as they were read back last, nil where
// there are none.
type Routes func() (*topology.Fabric, *topology.FatTree, *lft.Tables)

// ground is what a schedule for forsd's own fabric needs.
type ground struct {
	Fabric *topology.Fabric
	Tree   *topology.FatTree
	Tables *lft.Tables
	State  []byte // what a plan goes on from, and leaves for the next
}

// tier is a planner: a request of at most so many bytes in, an answer as JSON out.
type tier struct {
	limit  int64                                   // 0 where it has no endpoint
	ground func(routes Routes, body []byte) ground // what it needs of forsd's own fabric; nil for nothing
	plan   func(ctx context.Context, body []byte, g *ground) (any, error)
}

// GPU is the pattern of the planner of GPU clusters.
const GPU = "POST /v1/gpu/schedule"

// tiers are the planners by ServeMux pattern.
var tiers = map[string]tier{
	GPU:                         {limit: GPUBody, ground: treeForGPUs, plan: read((*ground).planGPU)},
	"POST /v1/optical/ocs":      {limit: ocsBody, plan: read((*ground).planOCS)},
	OCSPeriod:                   {plan: read((*ground).planPeriod)},
	"POST /v1/optical/photonic": {limit: photonicRequest, plan: read((*ground).planPhotonic)},
	"POST /v1/liquid":           {limit: liquidBody, ground: fabricForLiquid, plan: read((*ground).planLiquid)},
}

// read is a planner that reads the body of a request first.
func read[Q any](plan func(*ground, context.Context, *Q) (any, error)) func(context.Context, []byte, *ground) (any, error) {
	return func(ctx context.Context, body []byte, g *ground) (any, error) {
		var q Q
		if err := api.Decode(body, &q); err != nil {
			return nil, err
		}
		return plan(g, ctx, &q)
	}
}

// Tasks are what the processes of a pool do for Handlers.
func Tasks() map[string]worker.Task {
	tasks := map[string]worker.Task{}
	for pattern, t := range tiers {
		tasks[pattern] = t.task
	}
	return tasks
}

// task plans in a process of its own. Errors of the planner are those of a bad request.
func (t tier) task(ctx context.Context, in *bufio.Reader) ([]byte, error) {
	var g ground
	if err := gob.NewDecoder(in).Decode(&g); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	answer, err := t.plan(ctx, body, &g)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	if err != nil {
		var e *api.Error
		if !errors.As(err, &e) {
			err = api.BadRequest("%v", err)
		}
		return nil, err
	}
	out, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return slices.Concat(binary.BigEndian.AppendUint64(nil, uint64(len(g.State))), g.State, out, []byte{'\n'}), nil
}

// Plan has a process of a pool plan what the body of a request asks for, and hands its answer
// over. Its errors are those that the request is answered with.
type Plan func(ctx context.Context, body []byte, take func(*worker.Answer) error) error

// Planner is a planner by its name: that of an endpoint is its ServeMux pattern. routes is
// for schedules of forsd's own fabric. A plan goes on from the state, and where it is answered
// with, what the next one is to go on from takes its place.
func Planner(p *worker.Pool, routes Routes, pattern string, state *[]byte) Plan {
	t := tiers[pattern]
	return func(ctx context.Context, body []byte, take func(*worker.Answer) error) error {
		g := ground{State: *state}
		if t.ground != nil {
			g = t.ground(routes, body)
		}
		return worker.Refusal(p.Run(ctx, pattern, func(in io.Writer) error {
			err := gob.NewEncoder(in).Encode(&g)
			if err == nil {
				_, err = in.Write(body)
			}
			return err
		}, func(a *worker.Answer) error {
			var size [8]byte
			if _, err := io.ReadFull(a, size[:]); err != nil {
				return err
			}
			next := make([]byte, binary.BigEndian.Uint64(size[:]))
			if _, err := io.ReadFull(a, next); err != nil {
				return err
			}
			*state = next
			return take(&worker.Answer{Size: a.Size - int64(len(size)+len(next)), Reader: a.Reader})
		}))
	}
}

// mostHead is how much of an answer Answer shows: what a plan takes stands before its stages.
const mostHead = 4096

// mostKept is the longest answer whose process does not wait for the client to take it.
const mostKept = 16 << 20

// Answer answers a request with what is planned for body, and shows how that begins. A client
// that has got half of it sees by its length that it ended early.
func (plan Plan) Answer(w http.ResponseWriter, r *http.Request, body []byte, begins func(head []byte)) {
	begun := false
	begin := func(size int64) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		begun = true
	}
	var kept []byte
	err := plan(r.Context(), body, func(a *worker.Answer) (err error) {
		answer := bufio.NewReaderSize(a, mostHead)
		head, _ := answer.Peek(mostHead) // all of a short one
		begins(head)
		if a.Size <= mostKept && api.Keep(r, a.Size) {
			kept, err = io.ReadAll(answer)
			return err
		}
		begin(a.Size)
		_, err = io.Copy(w, answer)
		return err
	})
	if err != nil && !begun { // then it is too late for an error, and the client may have gone
		api.WriteError(w, err)
	} else if !begun {
		begin(int64(len(kept)))
		_, _ = w.Write(kept) // the client has gone if this fails
	}
}

// Handlers are the endpoints by ServeMux pattern.
func Handlers(p *worker.Pool, routes Routes) map[string]http.Handler {
	handlers := map[string]http.Handler{}
	for pattern, t := range tiers {
		if t.limit == 0 {
			continue
		}
		handlers[pattern] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := api.ReadBody(r, t.limit)
			if err != nil {
				api.WriteError(w, err)
				return
			}
			Planner(p, routes, pattern, new([]byte)).Answer(w, r, body, func([]byte) {})
		})
	}
	return handlers
}
