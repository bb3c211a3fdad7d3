// Package sessions serves sessions over HTTP: a cluster of GPUs, or optical circuit switches,
// with how plans are wanted for it, what of it has failed, and the frames that were planned for
// it, one after the other: exchanges, or periods.
package sessions

import (
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
	mostFrames   = 64        // that a session remembers
	mostIdle     = time.Hour // after which a session ends
	mostName     = 64
	openingBody  = 256 << 10 // bytes: a site of the most GPUs
)

// kind is what sessions of one kind are: S a session as the API has it, F a frame, X what may
// have failed, A the answer to a frame.
type kind[S, F, X, A any] struct {
	path        string
	header      string   // of an answer, with the number of the frame
	name, frame string   // in words
	ofFrame     []string // the fields of a plan's request that come with each frame
	ofFailures  []string // those of X
	body        int64    // of a frame, in bytes
	follows     bool     // frames go on from the one before: there is one at a time

	session func(*S) (*Session, *X, *[]F)
	of      func(*F) (*Frame, *X)
	open    func(settings map[string]json.RawMessage, text []byte) (s S, about string, err error)
	nothing func(*S) (field string, side int) // a matrix of zeros
	// plan plans what the body of a request asks for, on from a state, in whose place it leaves
	// that of the next frame.
	plan    func(ctx context.Context, body []byte, state *[]byte) (*A, error)
	figures func(*F, *A)    // takes those of an answer
	tidy    func(*X)        // makes lists that JSON shows as such
	failed  func(*X) string // in words
	result  func(*F) string // in words
}

// room is the sessions of a kind.
type room[S, F, X, A any] struct {
	kind[S, F, X, A]
	server *Server

	mu       sync.Mutex
	sessions []*session[S] // by ID
	last     uint64
}

// session is one of them; the room's lock is for it too.
type session[S any] struct {
	Shown    S                          `json:"session"`
	Settings map[string]json.RawMessage `json:"settings"` // fields of the requests
	Number   uint64                     `json:"number"`   // of the last frame
	Failed   string                     `json:"failed"`   // when the last frame was planned, in words
	State    []byte                     `json:"state"`    // that the next frame goes on from
	busy     bool                       // where frames follow each other: one is being planned
}

// endpoints adds those of the room.
func (r *room[S, F, X, A]) endpoints(mux *http.ServeMux) {
	mux.Handle("GET "+r.path, answer(r.list))
	mux.Handle("POST "+r.path, answer(r.opening))
	mux.Handle("GET "+r.path+"/{session}", answer(r.show))
	mux.Handle("DELETE "+r.path+"/{session}", answer(r.end))
	mux.Handle("POST "+r.path+"/{session}/failures", answer(r.fail))
	mux.HandleFunc("POST "+r.path+"/{session}/"+r.frame+"s", r.next)
}

// lock takes the lock and ends the sessions that were not asked for during mostIdle. The
// function that it returns gives the lock back, and has these logged.
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

// find returns the session of a request, which counts as asked for.
func (r *room[S, F, X, A]) find(req *http.Request) (*session[S], error) {
	text := req.PathValue("session")
	id, err := strconv.ParseUint(text, 10, 64)
	i := slices.IndexFunc(r.sessions, func(s *session[S]) bool { return r.head(&s.Shown).ID == id })
	if err != nil || i < 0 {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "there is no session %.40q: it may have ended", text)
	}
	r.head(&r.sessions[i].Shown).Asked = time.Now()
	return r.sessions[i], nil
}

// head returns what a session has of all.
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
	defer r.lock()()
	s, err := r.find(req)
	if err != nil {
		return nil, err
	}
	return s.Shown, nil // its frames are never changed in place
}

// end ends a session.
func (r *room[S, F, X, A]) end(req *http.Request) (any, error) {
	unlock := r.lock()
	s, err := r.find(req)
	if err != nil {
		unlock()
		return nil, err
	}
	r.sessions = slices.DeleteFunc(r.sessions, func(x *session[S]) bool { return x == s })
	out := r.summary(s)
	unlock()
	r.changed(&out, " has ended")
	return out, nil
}

// fail notes what has failed. It is tried on nothing first.
func (r *room[S, F, X, A]) fail(req *http.Request) (any, error) {
	body, err := readBody(req, openingBody)
	if err != nil {
		return nil, err
	}
	var q X
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	r.tidy(&q)
	unlock := r.lock()
	s, err := r.find(req)
	if err != nil {
		unlock()
		return nil, err
	}
	settings, err := r.with(s.Settings, &q)
	shown := s.Shown
	unlock()
	if err != nil {
		return nil, err
	}
	if err := r.try(req, settings, &shown); err != nil {
		return nil, err
	}
	unlock = r.lock()
	if s, err = r.find(req); err != nil {
		unlock()
		return nil, err
	}
	_, failures, _ := r.session(&s.Shown)
	s.Settings, *failures = settings, q
	out := r.summary(s)
	unlock()
	r.changed(&out, fmt.Sprintf(": from now on %ss are planned with %s", r.frame, r.failed(&q)))
	return out, nil
}

// with is settings with other failures.
func (r *room[S, F, X, A]) with(settings map[string]json.RawMessage, failures *X) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(failures)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(settings)
	for _, name := range r.ofFailures {
		out[name] = json.RawMessage("null") // failures may leave it out; spellings with capitals come before it, and it counts
	}
	return out, json.Unmarshal(text, &out)
}
