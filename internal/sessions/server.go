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

// planTime is how long a request may take, with its wait for a turn.
const planTime = time.Minute

// Server is the sessions of one program, and their endpoints.
type Server struct {
	fabric nics.Fabric // its client is nil without a forsd
	log    func(text string)
	mux    *http.ServeMux
	turns  chan struct{} // of requests that plan

	path   string // of the file that keeps the sessions; "" if none
	saving sync.Mutex

	gpus     *room[GPUSession, GPUFrame, GPUFailures, gpuPlan]
	switches *room[OCSSession, OCSPeriod, ocs.Damage, PeriodReport]
}

// New returns a server without sessions. NICs of GPU clusters may be hosts of a fabric. log
// is told what becomes of sessions.
func New(fabric nics.Fabric, log func(text string)) *Server {
	s := &Server{fabric: fabric, log: log, mux: http.NewServeMux(), turns: make(chan struct{}, runtime.GOMAXPROCS(0))}
	s.gpus = &room[GPUSession, GPUFrame, GPUFailures, gpuPlan]{kind: ofGPUs(inTurn(s, s.planGPU)), server: s}
	s.switches = &room[OCSSession, OCSPeriod, ocs.Damage, PeriodReport]{kind: ofOCS(inTurn(s, planPeriod)), server: s}
	s.gpus.endpoints(s.mux)
	s.switches.endpoints(s.mux)
	return s
}

// inTurn has a planner wait until no more requests plan than the machine has processors.
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
