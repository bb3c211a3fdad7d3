package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/nics"
	"github.com/forsd/forsd/internal/sealed"
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
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
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
		e, ok := errors.AsType[*api.Error](err)
		if !ok {
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

// kept is a room's part of the file.
type kept[S any] struct {
	Last     uint64       `json:"last"` // the last number given
	Sessions []session[S] `json:"sessions"`
}

// file is the data kept across a restart.
type file struct {
	GPU kept[GPUSession] `json:"gpu"`
	OCS kept[OCSSession] `json:"ocs"`
}

// renamed replaces the names that times had in files of earlier versions.
var renamed = strings.NewReplacer(`"opened":`, `"opened_at":`, `"asked":`, `"asked_at":`, `"at":`, `"planned_at":`)

// Keep restores the sessions from a file, if it exists, and stores them there from now on. If
// it returns an error, the old sessions are lost.
func (s *Server) Keep(path string) error {
	s.path = path
	var text json.RawMessage
	err := sealed.ReadFile(path, &text)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var f file
	if err == nil {
		err = sealed.Decode([]byte(renamed.Replace(string(text))), &f)
	}
	if err != nil {
		// This prevents a client from taking a new session for its own.
		s.gpus.last, s.switches.last = uint64(time.Now().Unix()), uint64(time.Now().Unix())
		return err
	}
	s.gpus.resume(f.GPU)
	s.switches.resume(f.OCS)
	return s.save(false)
}

// resume restores sessions. The time while they were stored does not count as idle time.
func (r *room[S, F, X, A]) resume(k kept[S]) {
	r.last = k.Last
	for i := range k.Sessions {
		r.head(&k.Sessions[i].Shown).Asked = time.Now()
		r.sessions = append(r.sessions, &k.Sessions[i])
	}
}

// Save stores the sessions before the program ends. They are also stored when one is opened or
// ended and when failures change, but not with each frame, so that frames do not wait for a
// disk.
func (s *Server) Save() error { return s.save(true) }

// save stores the sessions. It stores the states for their next frames only if the program
// ends, because after a crash these would be out of date.
func (s *Server) save(states bool) error {
	if s.path == "" {
		return nil
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	text, err := json.Marshal(file{s.gpus.kept(states), s.switches.kept(states)})
	if err != nil {
		return err
	}
	return renameio.WriteFile(s.path, sealed.Seal(text), 0o600)
}

func (r *room[S, F, X, A]) kept(states bool) kept[S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := kept[S]{Last: r.last}
	for _, s := range r.sessions {
		x := *s
		if !states {
			x.State = nil
		}
		k.Sessions = append(k.Sessions, x)
	}
	return k
}

// changed stores the sessions and logs a change of one. If they cannot be stored, the change
// holds in memory.
func (r *room[S, F, X, A]) changed(s *S, text string) {
	text = r.label(s) + text
	if err := r.server.save(false); err != nil {
		text += fmt.Sprintf("; a restart would forget that: %v", err)
	}
	r.server.log(text)
}
