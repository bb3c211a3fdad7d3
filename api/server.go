package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Config is what the handlers of an API serve, and their limits.
type Config struct {
	Backend Backend
	Jobs    Jobs // nil for a service without jobs
	Plans   *Plans
	Bases   *Plans // those for programs that send to base LIDs; nil for a service without
	Events  *Events
	Past    Past         // what has happened; nil for a service that does not keep it
	Metrics http.Handler // of /metrics; nil for none
	// Mount holds further handlers by ServeMux pattern, such as
	// "POST /v1/gpu/schedule". They compute and must change nothing: they are
	// open to all who may read, bound the bodies that they take themselves, and
	// have as long as a change may take.
	Mount map[string]http.Handler
	// Local holds further handlers that change something: they are reached on the
	// Unix socket only, and are like those of Mount otherwise.
	Local map[string]http.Handler
	// Names are those by which requests over TCP may address the service, besides addresses
	// and the name of the machine.
	Names []string
	// ReadOverTCP opens more than /healthz, /readyz and /metrics over TCP.
	ReadOverTCP bool
}

// The limits of the service.
const (
	maxBody     = 1 << 20          // bytes of a request of our own
	maxWait     = 5 * time.Minute  // longest long poll
	maxChange   = 2 * time.Minute  // longest reroute, what-if or rollback
	keepAlive   = 15 * time.Second // between comments in a silent event stream
	writeWithin = 30 * time.Second // for a client to take what it asked for
)

// access says who may call an endpoint.
type access uint8

const (
	anyone  access = iota // health and metrics: over TCP in any case
	readers               // over TCP where reading is allowed there
	local                 // over the Unix socket only
)

// service answers the requests of one kind of listener.
type service struct {
	Config
	mux      *http.ServeMux
	tcp      bool
	patterns []string // of the endpoints
}

// Endpoints lists the patterns of the endpoints of an API.
func Endpoints(c Config) []string { return newService(c, false).patterns }

// Handler is the HTTP interface for a listener: of a Unix socket, where all is
// allowed, or of TCP, where nothing can be changed.
func Handler(c Config, tcp bool) http.Handler { return newService(c, tcp) }

func newService(c Config, tcp bool) *service {
	s := &service{Config: c, mux: http.NewServeMux(), tcp: tcp}
	s.handle(anyone, "GET /healthz", s.healthz)
	s.handle(anyone, "GET /readyz", s.readyz)
	s.handle(readers, "GET /v1/status", s.status)
	s.handle(readers, "GET /v1/topology", s.topology)
	s.handle(readers, "GET /v1/plan", s.plan)
	s.handle(readers, "GET /v1/plan/phases", s.phases)
	s.handle(readers, "GET /v1/plan/changes", s.changes)
	s.handle(readers, "GET /v1/plan/servers/{server...}", s.server)
	s.handle(readers, "GET /v1/events", s.events)
	s.handle(readers, "GET /v1/epochs", s.epochs)
	s.handle(local, "POST /v1/reroute", s.reroute)
	s.handle(local, "POST /v1/whatif", s.whatIf)
	s.handle(local, "POST /v1/rollback", s.rollback)
	if c.Past != nil {
		s.handle(readers, "GET /v1/history", s.history)
	}
	if c.Jobs != nil {
		s.handleJobs()
	}
	if c.Metrics != nil {
		s.handle(anyone, "GET /metrics", func(w http.ResponseWriter, r *http.Request) error {
			c.Metrics.ServeHTTP(w, r)
			return nil
		})
	}
	for pattern, h := range c.Mount {
		s.handle(readers, pattern, mounted(h))
	}
	for pattern, h := range c.Local {
		s.handle(local, pattern, mounted(h))
	}
	return s
}

// endpoint answers a request, or returns the error to answer with as long as it
// has written nothing.
type endpoint func(w http.ResponseWriter, r *http.Request) error

// mounted is the endpoint of a handler that answers its errors itself.
func mounted(h http.Handler) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := unhurried(w, r, maxChange)
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
		return nil
	}
}

// handle registers an endpoint.
func (s *service) handle(who access, pattern string, answer endpoint) {
	s.patterns = append(s.patterns, pattern)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := s.permit(who)
		if err == nil {
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				r = r.WithContext(withEpoch(r.Context(), s.Plans))
			}
			err = answer(w, r)
		}
		if err != nil {
			WriteError(w, err)
		}
	})
}

// permit refuses what the listener does not allow.
func (s *service) permit(who access) error {
	switch {
	case !s.tcp || who == anyone:
		return nil
	case who == local:
		return Errorf(http.StatusForbidden, CodeForbidden, "this is accepted on the Unix socket only: ask there, with forsctl on the host of forsd or by curl --unix-socket")
	case !s.ReadOverTCP:
		return Errorf(http.StatusForbidden, CodeForbidden, "reading over TCP is switched off: set api.read_over_tcp in forsd.yaml, or ask on the Unix socket")
	}
	return nil
}

// ServeHTTP answers with JSON also what no endpoint knows.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := s.strange(r); err != nil {
		WriteError(w, err)
		return
	}
	h, pattern := s.mux.Handler(r)
	if pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	refusal := refusal{header: http.Header{}}
	h.ServeHTTP(&refusal, r)
	if refusal.status == http.StatusMethodNotAllowed {
		allowed := refusal.header.Get("Allow")
		w.Header().Set("Allow", allowed)
		WriteError(w, Errorf(refusal.status, CodeMethodNotAllowed, "%s is not allowed on %s: use %s", r.Method, r.URL.Path, allowed))
		return
	}
	WriteError(w, Errorf(http.StatusNotFound, CodeNotFound, "there is nothing at %s: docs/api.md lists the endpoints", r.URL.Path))
}

// refusal catches the mux's own answer to what it does not know.
type refusal struct {
	header http.Header
	status int
}

func (r *refusal) Header() http.Header         { return r.header }
func (r *refusal) WriteHeader(status int)      { r.status = status }
func (r *refusal) Write(p []byte) (int, error) { return len(p), nil }

// WriteError answers with an error as every endpoint does; mounted handlers use
// it too.
func WriteError(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = Errorf(http.StatusInternalServerError, CodeInternal, "%v", err)
	}
	body, _ := json.Marshal(e) // two strings
	for _, stale := range []string{"ETag", "Content-Disposition", "Content-Length"} {
		w.Header().Del(stale)
	}
	w.Header().Set("Content-Type", "application/json")
	if e.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
}

// WriteJSON answers with a value. Few answers are made at a time, so that the process
// has time for its own work, and each is counted until the client has taken it.
func WriteJSON(w http.ResponseWriter, r *http.Request, v any) error {
	making <- struct{}{}
	body, err := json.Marshal(v)
	<-making
	if err != nil {
		return err
	}
	if !answers.reserve(r.Context(), int64(len(body))) {
		return Busy("other clients have not taken their answers yet: ask again later")
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
	return nil
}

// ReadJSON reads the body of a request of our own, one JSON object, into v.
func ReadJSON(r *http.Request, v any) error {
	body, err := ReadBody(r, maxBody)
	if err != nil {
		return err
	}
	return Decode(body, v)
}
