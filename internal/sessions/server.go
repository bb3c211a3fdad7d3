package sessions

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

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
