// Package sessions serves planning sessions over HTTP. A session has a cluster of GPUs, or
// optical circuit switches, the options for its plans, its failures, and the frames planned for
// it so far. Frames are exchanges or periods.
package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
)

// The limits of sessions.
const (
	mostSessions = 16
	mostFrames   = 64        // maximum that a session remembers
	mostIdle     = time.Hour // a session ends after it
	mostName     = 64
	openingBody  = 256 << 10 // bytes: a site with the maximum number of GPUs
)

// kind describes the sessions of one kind: S is the API's form of a session, F of a frame, X
// the possible failures, and A the answer to a frame.
type kind[S, F, X, A any] struct {
	path        string
	header      string   // of an answer; it has the number of the frame
	name, frame string   // in words
	ofFrame     []string // the fields of a plan's request that come with each frame
	ofFailures  []string // the fields of X
	body        int64    // of a frame, in bytes
	follows     bool     // each frame starts from the one before, so only one is planned at a time

	session func(*S) (*Session, *X, *[]F)
	of      func(*F) (*Frame, *X)
	open    func(settings map[string]json.RawMessage, text []byte) (s S, about string, err error)
	nothing func(*S) (field string, side int) // names a field for a matrix of zeros
	// plan carries out the request in body. It starts from state, and replaces it by the state
	// for the next frame.
	plan    func(ctx context.Context, body []byte, state *[]byte) (*A, error)
	figures func(*F, *A)    // copies the figures of an answer
	tidy    func(*X)        // turns nil lists into empty ones for JSON
	failed  func(*X) string // in words
	result  func(*F) string // in words
}

// room has all sessions of a kind.
type room[S, F, X, A any] struct {
	kind[S, F, X, A]
	server *Server

	mu       sync.Mutex
	sessions []*session[S] // by ID
	last     uint64
}

// session is a session; the room's lock guards it too.
type session[S any] struct {
	Shown    S                          `json:"session"`
	Settings map[string]json.RawMessage `json:"settings"` // fields of the requests
	Number   uint64                     `json:"number"`   // of the last frame
	Failed   string                     `json:"failed"`   // the failures that the last frame was planned with, in words
	State    []byte                     `json:"state"`    // starting point of the next frame
	busy     bool                       // a frame is being planned, if frames follow each other
}

// endpoints adds the room's endpoints.
func (r *room[S, F, X, A]) endpoints(mux *http.ServeMux) {
	mux.Handle("GET "+r.path, answer(r.list))
	mux.Handle("POST "+r.path, answer(r.opening))
	mux.Handle("GET "+r.path+"/{session}", answer(r.show))
	mux.Handle("DELETE "+r.path+"/{session}", answer(r.end))
	mux.Handle("POST "+r.path+"/{session}/failures", answer(r.fail))
	mux.HandleFunc("POST "+r.path+"/{session}/"+r.frame+"s", r.next)
}

// lock acquires the lock and ends the sessions that received no request for mostIdle. The
// returned function releases the lock and logs the sessions that ended.
func (r *room[S, F, X, A]) lock() (unlock func()) {
	r.mu.Lock()
	var idle []S
	r.sessions = slices.DeleteFunc(r.sessions, func(s *session[S]) bool {
		if time.Since(r.head(&s.Shown).Asked) < mostIdle {
			return false
		}
		idle = append(idle, r.summary(s))
		return true
	})
	return func() {
		r.mu.Unlock()
		for _, s := range idle {
			r.changed(&s, fmt.Sprintf(" has ended: no %s for %v", r.frame, mostIdle))
		}
	}
}

// find returns the session of a request, and records the time of the request.
func (r *room[S, F, X, A]) find(req *http.Request) (*session[S], error) {
	text := req.PathValue("session")
	id, err := strconv.ParseUint(text, 10, 64)
	i := slices.IndexFunc(r.sessions, func(s *session[S]) bool { return r.head(&s.Shown).ID == id })
	if err != nil || i < 0 {
		return nil, api.NotFound("there is no session %.40q: it may have ended", text)
	}
	r.head(&r.sessions[i].Shown).Asked = time.Now()
	return r.sessions[i], nil
}

// use calls f with the session of a request, under the lock.
func (r *room[S, F, X, A]) use(req *http.Request, f func(s *session[S])) error {
	defer r.lock()()
	s, err := r.find(req)
	if err == nil {
		f(s)
	}
	return err
}

// head returns the part that all kinds of sessions have.
func (r *room[S, F, X, A]) head(s *S) *Session {
	h, _, _ := r.session(s)
	return h
}

// summary returns a session without its frames.
func (r *room[S, F, X, A]) summary(s *session[S]) S {
	out := s.Shown
	_, _, list := r.session(&out)
	*list = nil
	return out
}

// label names a session in words.
func (r *room[S, F, X, A]) label(s *S) string {
	h := r.head(s)
	if h.Name == "" {
		return fmt.Sprintf("%s %d", r.name, h.ID)
	}
	return fmt.Sprintf("%s %d (%s)", r.name, h.ID, h.Name)
}

func (r *room[S, F, X, A]) list(*http.Request) (any, error) {
	defer r.lock()()
	list := []S{}
	for _, s := range r.sessions {
		list = append(list, r.summary(s))
	}
	return map[string][]S{"sessions": list}, nil
}

func (r *room[S, F, X, A]) show(req *http.Request) (any, error) {
	var out S
	err := r.use(req, func(s *session[S]) { out = s.Shown }) // frames are never changed in place
	return out, err
}

// end ends a session.
func (r *room[S, F, X, A]) end(req *http.Request) (any, error) {
	var out S
	if err := r.use(req, func(s *session[S]) {
		r.sessions = slices.DeleteFunc(r.sessions, func(x *session[S]) bool { return x == s })
		out = r.summary(s)
	}); err != nil {
		return nil, err
	}
	r.changed(&out, " has ended")
	return out, nil
}

// fail records failures. An empty frame is planned first, to check them.
func (r *room[S, F, X, A]) fail(req *http.Request) (any, error) {
	body, err := readBody(req, openingBody)
	if err != nil {
		return nil, err
	}
	var q X
	if err := api.Decode(body, &q); err != nil {
		return nil, err
	}
	r.tidy(&q)
	var shown, out S
	var settings map[string]json.RawMessage
	if missing := r.use(req, func(s *session[S]) {
		settings, err = r.with(s.Settings, &q)
		shown = s.Shown
	}); missing != nil || err != nil {
		return nil, cmp.Or(missing, err)
	}
	if err := r.try(req, settings, &shown); err != nil {
		return nil, err
	}
	if err := r.use(req, func(s *session[S]) {
		_, failures, _ := r.session(&s.Shown)
		s.Settings, *failures = settings, q
		out = r.summary(s)
	}); err != nil {
		return nil, err
	}
	r.changed(&out, fmt.Sprintf(": from now on %ss are planned with %s", r.frame, r.failed(&q)))
	return out, nil
}

// with returns settings with the given failures.
func (r *room[S, F, X, A]) with(settings map[string]json.RawMessage, failures *X) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(failures)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(settings)
	for _, name := range r.ofFailures {
		out[name] = json.RawMessage("null") // failures may lack this field, and the settings may spell it with capitals, which JSON would accept
	}
	return out, json.Unmarshal(text, &out)
}
