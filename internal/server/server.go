package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/published"
)

// Config is what the handlers of an API serve, and their limits.
type Config struct {
	Backend Backend
	Jobs    Jobs // nil for a service without jobs
	Plans   *published.Plans
	Bases   *published.Plans // for programs that use base LIDs; nil if the service has none
	Events  *published.Events
	Past    Past         // past events; nil if the service does not keep them
	Metrics http.Handler // of /metrics; may be nil
	// Mount holds further handlers by the role that they need and by ServeMux pattern, such as
	// "POST /v1/gpu/lanes". Those below api.Operator compute and must change nothing. They bound
	// the bodies that they take themselves, and have as long as a change may take. The other
	// forsd may ask "GET /v1/replica", too.
	Mount map[api.Role]map[string]http.Handler
	// Access defines how callers are identified; if it is nil, anyone who may write to the
	// Unix socket may do everything.
	Access *Access
	// Ordered is told of every order, unless its endpoint has told of it (Told), and of
	// those that were refused; Refused of every refusal, by its reason.
	Ordered func(ctx context.Context, what, result string, err error)
	Refused func(reason string)
	// Names are those by which requests over TCP may address the service, besides addresses
	// and the name of the machine.
	Names []string
	// ReadOverTCP opens more than /healthz, /readyz and /metrics over TCP.
	ReadOverTCP bool
}

// The limits of the service.
const (
	maxBody     = 1 << 20              // bytes of a request of our own
	maxChange   = 2 * time.Minute      // longest reroute, what-if or rollback
	writeWithin = published.SendWithin // for a client to take what it asked for
)

// service answers the requests of one kind of listener.
type service struct {
	Config
	mux   *http.ServeMux
	via   via
	roles map[string]api.Role // that the endpoints take, by their patterns
	shown shown
}

// Endpoints tells what role each endpoint of an API takes, by its pattern.
func Endpoints(c Config) map[string]api.Role { return newService(c, bySocket).roles }

// Handler returns the HTTP interface for a listener: of a Unix socket, or of TCP without
// TLS, where nothing can be changed.
func Handler(c Config, tcp bool) http.Handler {
	if tcp {
		return newService(c, byTCP)
	}
	return newService(c, bySocket)
}

func newService(c Config, via via) *service {
	s := &service{Config: c, mux: http.NewServeMux(), via: via, roles: map[string]api.Role{}}
	s.handle(api.Nobody, "GET /v1/whoami", look(func(r *http.Request) (any, error) { return access.CallerOf(r.Context()), nil }))
	s.handle(api.Nobody, "GET /healthz", look(func(*http.Request) (any, error) { return map[string]string{"status": "ok"}, nil }))
	s.handle(api.Nobody, "GET /readyz", look(s.readyz))
	s.handle(api.Reader, "GET /v1/status", look(func(*http.Request) (any, error) { return s.Backend.Status(), nil }))
	s.handle(api.Reader, "GET /v1/topology", s.topology)
	s.handle(api.Reader, "GET /v1/plan", ofPlan(s.byLIDs, sendPlan))
	s.handle(api.Reader, "GET /v1/plan/phases", ofPlan(s.byLIDs, sendPhases))
	s.handle(api.Reader, "GET /v1/plan/changes", s.changes)
	s.handle(api.Reader, "GET /v1/plan/servers/{server...}", ofPlan(s.byLIDs, sendServer))
	s.handle(api.Reader, "POST /v1/plan/times", ofPlan(s.byLIDs, ofTimes(c.Backend)))
	s.handle(api.Reader, "GET /v1/events", s.events)
	s.handle(api.Reader, "GET /v1/epochs", look(func(*http.Request) (any, error) {
		epochs, err := s.Backend.Epochs()
		return api.EpochList{Epochs: append([]api.Epoch{}, epochs...)}, err
	}))
	s.handle(api.Viewer, "POST /v1/whatif", s.whatIf)
	s.handle(api.Operator, "POST /v1/reroute", work(s.reroute))
	s.handle(api.Operator, "POST /v1/rollback", work(s.rollback))
	if c.Access != nil && c.Access.Tokens != nil {
		s.handle(api.Administrator, "GET /v1/tokens", look(func(*http.Request) (any, error) { return api.TokenList{Tokens: c.Access.Tokens.List(time.Now())}, nil }))
		s.handle(api.Administrator, "POST /v1/tokens", look(s.createToken))
		s.handle(api.Administrator, "DELETE /v1/tokens/{token}", look(s.revokeToken))
	}
	s.handle(api.Reader, "GET /v1/plan/phase", s.phase)
	s.handle(api.Nobody, "GET /{$}", mounted(http.HandlerFunc(page)))
	s.handle(api.Nobody, "GET /page/{file}", mounted(http.HandlerFunc(page)))
	if c.Past != nil {
		s.handle(api.Reader, "GET /v1/history", look(s.history))
	}
	if c.Jobs != nil {
		s.handleJobs()
	}
	if c.Metrics != nil {
		s.handle(api.Nobody, "GET /metrics", func(w http.ResponseWriter, r *http.Request) error {
			c.Metrics.ServeHTTP(w, r)
			return nil
		})
	}
	for need, handlers := range c.Mount {
		for pattern, h := range handlers {
			s.handle(need, pattern, mounted(h))
		}
	}
	return s
}

// ForPeer is the endpoint of the other forsd.
const ForPeer = "GET /v1/replica"

// endpoint answers a request, or returns the error to answer with as long as it
// has written nothing.
type endpoint func(w http.ResponseWriter, r *http.Request) error

// look returns an endpoint that answers with a value, which is made quickly.
func look(f func(*http.Request) (any, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		return writeMade(w, r, func() (any, error) { return f(r) })
	}
}

// work returns an endpoint that answers with a value, which takes as long to make as a change may.
func work(f func(*http.Request) (any, error)) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := unhurried(w, r, maxChange)
		defer cancel()
		v, err := f(r.WithContext(ctx))
		if err != nil {
			return err
		}
		return WriteJSON(w, r, v)
	}
}

// mounted returns the endpoint of a handler that answers its errors itself.
func mounted(h http.Handler) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := unhurried(w, r, maxChange)
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
		return nil
	}
}

// handle registers an endpoint for those who have a role. What takes an operator and is
// not a question is an order.
func (s *service) handle(need api.Role, pattern string, answer endpoint) {
	s.roles[pattern] = need
	orders := need >= api.Operator && !strings.HasPrefix(pattern, "GET ")
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		out := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		caller := access.CallerOf(r.Context())
		if orders {
			if p := s.Plans.Current(); p != nil {
				access.RequestOf(r.Context()).Epoch = p.Epoch
			}
		}
		err := s.permit(need, caller)
		if err != nil && pattern == ForPeer {
			err = forOtherForsd(caller, err)
		}
		if err != nil {
			s.refuse(RefusedRole)
			err = s.turnedAway(r, clientKey(caller), err)
		} else if err = simple(r); err != nil {
			s.refuse(RefusedStranger)
		} else {
			err = s.admitted(answer)(out, r)
		}
		if err != nil {
			WriteError(out, err)
		}
		if orders {
			s.tell(r.Context(), r, out)
		}
	})
}

// ServeHTTP answers with JSON also what no endpoint knows.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range policy {
		w.Header().Set(name, value)
	}
	if len(r.TransferEncoding) > 0 {
		// Where a length is given as well, a proxy may think that the request ends elsewhere:
		// what follows is not read (RFC 9112, section 6.3).
		w.Header().Set("Connection", "close")
	}
	if reads := r.Method == http.MethodGet || r.Method == http.MethodHead; reads && r.ContentLength != 0 {
		// With a body that is not read, net/http does not see a client leave.
		w.Header().Set("Connection", "close")
		WriteError(w, api.BadRequest("%s takes no body: leave it out", r.Method))
		return
	}
	err := s.strange(r)
	if err != nil {
		s.refuse(RefusedStranger)
		WriteError(w, err)
		return
	}
	caller, err := s.identify(r)
	if err != nil {
		WriteError(w, s.turnedAway(r, keyOf(r.RemoteAddr), err))
		return
	}
	r = r.WithContext(access.With(r.Context(), &access.Request{Caller: caller}))
	h, pattern := s.mux.Handler(r)
	if pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	if err := s.admitted(func(w http.ResponseWriter, r *http.Request) error { return unknown(w, r, h) })(w, r); err != nil {
		WriteError(w, err)
	}
}

// admitted returns an endpoint for those who do not ask too often.
func (s *service) admitted(answer endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		end, busy := s.admit(clientKey(access.CallerOf(r.Context())))
		if busy != nil {
			return busy
		}
		defer end()
		return answer(w, r)
	}
}

// unknown answers a request that no endpoint is for, which a handler of the mux has refused.
func unknown(w http.ResponseWriter, r *http.Request, h http.Handler) error {
	refusal := Recorder{Head: http.Header{}}
	h.ServeHTTP(&refusal, r)
	if refusal.Status == http.StatusMethodNotAllowed {
		allowed := refusal.Head.Get("Allow")
		w.Header().Set("Allow", allowed)
		return api.Errorf(api.CodeMethodNotAllowed, "%s is not allowed on %s: use %s", r.Method, r.URL.Path, allowed)
	}
	return api.NotFound("there is nothing at %s: docs/api.md lists the endpoints", r.URL.Path)
}

// Recorder keeps an answer.
type Recorder struct {
	Head   http.Header
	Status int
	Body   []byte
}

// Header returns the header.
func (r *Recorder) Header() http.Header { return r.Head }

// WriteHeader keeps the status.
func (r *Recorder) WriteHeader(status int) { r.Status = status }

// Write appends to the body.
func (r *Recorder) Write(p []byte) (int, error) { r.Body = append(r.Body, p...); return len(p), nil }

// WriteError answers with an error as every endpoint does; mounted handlers use
// it too.
func WriteError(w http.ResponseWriter, err error) {
	if out, is := w.(*statusWriter); is {
		out.err = err
	}
	e, is := errors.AsType[*api.Error](err)
	if !is {
		e = api.Errorf(api.CodeInternal, "%v", err)
	}
	body, _ := json.Marshal(e) // two strings
	for _, stale := range []string{"ETag", "Content-Disposition", "Content-Length"} {
		w.Header().Del(stale)
	}
	w.Header().Set("Content-Type", api.MediaJSON)
	status := e.Status()
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	if errors.As(err, new(notJSON)) {
		status = http.StatusUnsupportedMediaType
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
}

// Answer turns a function of a request into a handler: a *Text is sent as it is,
// everything else as JSON.
func Answer(f func(r *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err != nil {
			WriteError(w, err)
			return
		}
		if text, ok := v.(*published.Text); ok {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			text.Send(w)
			return
		}
		if err := WriteJSON(w, r, v); err != nil {
			WriteError(w, err)
		}
	})
}

// Read is Answer for look-ups that take some time and do not wait: only a few run at a
// time.
func Read(f func(r *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := look(f)(w, r); err != nil {
			WriteError(w, err)
		}
	})
}

// WriteJSON answers with a value. Few answers are made at a time, so that the process
// has time for its own work, and each that is not short is counted until the client has taken it.
func WriteJSON(w http.ResponseWriter, r *http.Request, v any) error {
	return writeMade(w, r, func() (any, error) { return v, nil })
}

// writeMade is WriteJSON of a value that has yet to be made.
func writeMade(w http.ResponseWriter, r *http.Request, f func() (any, error)) error {
	body, err := made(r.Context(), f)
	if err != nil {
		return err
	}
	if len(body) > shortAnswer && !answers.reserve(r.Context(), int64(len(body))) {
		return api.Busy("other clients have not taken their answers yet: ask again later")
	}
	w.Header().Set("Content-Type", api.MediaJSON)
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
	return nil
}

// made makes an answer.
func made(ctx context.Context, f func() (any, error)) (body []byte, err error) {
	answer := func() {
		var v any
		if v, err = f(); err == nil {
			body, err = json.Marshal(v)
		}
	}
	if c := access.CallerOf(ctx); c != nil && c.Role >= api.Operator {
		answer()
	} else if !making.use(ctx.Done(), answer) {
		return nil, ctx.Err()
	}
	return body, err
}

// ReadJSON reads the body of a request of our own, one JSON object, into v.
func ReadJSON(r *http.Request, v any) error {
	body, err := ReadBody(r, maxBody)
	if err != nil {
		return err
	}
	return api.Decode(body, v)
}
