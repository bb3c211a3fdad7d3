package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/nics"
	"github.com/forsd/forsd/optical/ocs"
)

// planTime is the time limit of a request, including its wait for a turn.
const planTime = time.Minute

// Server has the sessions of a program and serves their endpoints.
type Server struct {
	fabric nics.Fabric // its client is nil without a forsd
	log    func(text string)
	mux    *http.ServeMux
	turns  chan struct{} // for requests that plan

	path   string // file for the sessions; may be empty
	saving sync.Mutex

	gpus     *room[GPUSession, GPUFrame, GPUFailures, gpuPlan]
	switches *room[OCSSession, OCSPeriod, ocs.Damage, PeriodReport]
}

// New returns a server without sessions. The NICs of GPU clusters may be hosts of a fabric. log
// receives the events of sessions.
func New(fabric nics.Fabric, log func(text string)) *Server {
	s := &Server{fabric: fabric, log: log, mux: http.NewServeMux(), turns: make(chan struct{}, runtime.GOMAXPROCS(0))}
	s.gpus = &room[GPUSession, GPUFrame, GPUFailures, gpuPlan]{kind: ofGPUs(inTurn(s, s.planGPU)), server: s}
	s.switches = &room[OCSSession, OCSPeriod, ocs.Damage, PeriodReport]{kind: ofOCS(inTurn(s, planPeriod)), server: s}
	s.gpus.endpoints(s.mux)
	s.switches.endpoints(s.mux)
	return s
}

// inTurn limits the number of requests that plan at a time to the number of processors.
func inTurn[A any](s *Server, plan func(context.Context, []byte, *[]byte) (*A, error)) func(context.Context, []byte, *[]byte) (*A, error) {
	return func(ctx context.Context, body []byte, state *[]byte) (*A, error) {
		select {
		case s.turns <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		defer func() { <-s.turns }()
		return plan(ctx, body, state)
	}
}

// ServeHTTP answers the requests of clients.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), planTime)
	defer cancel()
	s.mux.ServeHTTP(w, r.WithContext(ctx))
}

// fault returns an internal error.
func fault(format string, args ...any) error {
	return api.Errorf(api.CodeInternal, "this is a fault of forsplan: "+format, args...)
}

// readBody reads the body of a request.
func readBody(r *http.Request, most int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, most))
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		return nil, api.Errorf(api.CodeTooLarge, "the request is longer than %d bytes", most)
	} else if err != nil {
		return nil, api.BadRequest("read request: %v", err)
	}
	return body, nil
}

// answer converts a function of a request to a handler.
func answer(f func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		write(w, v, err)
	})
}

// write sends a value as JSON, or an error. An error that is not the API's comes from a
// planner, and is about the request.
func write(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = api.Refused("planning did not end within %v: ask for less, or use a command of forsplan that works on files", planTime)
	}
	if err != nil {
		var e *api.Error
		if !errors.As(err, &e) {
			e = api.BadRequest("%v", err)
		}
		v, status = e, e.Status()
	}
	body, err := json.Marshal(v)
	if err != nil {
		body, status = []byte(err.Error()), http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // fails only if the client has disconnected
}
