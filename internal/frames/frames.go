// Package frames keeps sessions: a cluster of GPUs, or optical circuit switches, and how plans
// are wanted for it, what of it has failed, and the frames that were planned for it, one after
// the other: exchanges, or periods.
package frames

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/tiers"
	"github.com/forsd/forsd/internal/worker"
)

// The limits of sessions.
const (
	mostSessions = 16
	mostFrames   = 64        // that a session remembers
	mostIdle     = time.Hour // after which a session ends
	mostName     = 64
	openingBody  = 256 << 10 // bytes: a site of the most GPUs
)

// Sort is what sessions of one sort are: S a session as the API has it, F a frame, X what may
// have failed.
type Sort[S, F, X any] struct {
	path        string
	planner     string   // of frames, as tiers has it
	header      string   // of an answer, with the number of the frame
	name, frame string   // in words
	ofFrame     []string // the fields of a plan's request that come with each frame
	ofFailures  []string // those of X
	body        int64    // of a frame, in bytes
	follows     bool     // frames go on from the one before: there is one at a time

	session func(*S) (*api.Session, *X, *[]F)
	of      func(*F) (*api.Frame, *X)
	open    func(settings map[string]json.RawMessage, text []byte) (s S, about string, err error)
	nothing func(*S) (field string, side int) // a matrix of zeros
	figures func(*F) map[string]any           // by their names in the answer
	tidy    func(*X)                          // makes lists that JSON shows as such
	failed  func(*X) string                   // in words
	result  func(*F) string                   // in words
}

// Room is the sessions of a sort that there are.
type Room[S, F, X any] struct {
	Sort[S, F, X]
	plan func(state *[]byte) tiers.Plan // of a frame
	tell func(what string, s *S, f *F, text string)
	file string // that keeps the sessions; "" for none

	saving sync.Mutex // of the file; taken before mu

	mu               sync.Mutex
	sessions         []*session[S] // by ID
	last             uint64
	planned, refused uint64 // frames
}

// session is one of them; the room's lock is for it too.
type session[S any] struct {
	Shown    S                          `json:"session"`
	Settings map[string]json.RawMessage `json:"settings"` // fields of the requests
	Number   uint64                     `json:"number"`   // of the last frame
	Changed  bool                       `json:"changed"`  // other parts have failed since the last frame
	State    []byte                     `json:"state"`    // that the next frame goes on from
	busy     bool                       // where frames follow each other: one is being planned
}

// New is a room whose frames are planned by a pool's processes, on routes where they are
// pinned. tell is told of what becomes of sessions.
func New[S, F, X any](sort Sort[S, F, X], pool *worker.Pool, routes tiers.Routes, tell func(what string, s *S, f *F, text string)) *Room[S, F, X] {
	plan := func(state *[]byte) tiers.Plan { return tiers.Planner(pool, routes, sort.planner, state) }
	return &Room[S, F, X]{Sort: sort, plan: plan, tell: tell}
}

// Readers are the endpoints that change nothing, Operators those that do, by their patterns.
func (r *Room[S, F, X]) Readers() map[string]http.Handler {
	return map[string]http.Handler{
		"GET " + r.path:                api.Answer(r.list),
		"GET " + r.path + "/{session}": api.Answer(r.show),
	}
}

// Operators are the endpoints that change something.
func (r *Room[S, F, X]) Operators() map[string]http.Handler {
	return map[string]http.Handler{
		"POST " + r.path:                                 api.Answer(r.opening),
		"POST " + r.path + "/{session}/failures":         api.Answer(r.fail),
		"POST " + r.path + "/{session}/" + r.frame + "s": http.HandlerFunc(r.next),
		"DELETE " + r.path + "/{session}":                api.Answer(r.end),
	}
}

// Counts is how many sessions there are, and how many frames were planned and refused.
func (r *Room[S, F, X]) Counts() (sessions int, planned, refused uint64) {
	defer r.lock()()
	return len(r.sessions), r.planned, r.refused
}

// lock takes the lock and ends the sessions that nobody has asked for long; what it returns
// gives the lock back and tells of them.
func (r *Room[S, F, X]) lock() (unlock func()) {
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
			r.changed("ended", &s, fmt.Sprintf(" has ended: no %s for %v", r.frame, mostIdle))
		}
	}
}

// find is the session of a request, which counts as asked for.
func (r *Room[S, F, X]) find(req *http.Request) (*session[S], error) {
	text := req.PathValue("session")
	id, err := strconv.ParseUint(text, 10, 64)
	i := slices.IndexFunc(r.sessions, func(s *session[S]) bool { return r.head(&s.Shown).ID == id })
	if err != nil || i < 0 {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "there is no session %.40q: it may have ended", text)
	}
	r.head(&r.sessions[i].Shown).Asked = time.Now()
	return r.sessions[i], nil
}

// head is what a session has of all.
func (r *Room[S, F, X]) head(s *S) *api.Session {
	h, _, _ := r.session(s)
	return h
}

// summary is a session without its frames.
func (r *Room[S, F, X]) summary(s *session[S]) S {
	out := s.Shown
	_, _, list := r.session(&out)
	*list = nil
	return out
}

// label names a session in words.
func (r *Room[S, F, X]) label(s *S) string {
	h := r.head(s)
	if h.Name == "" {
		return fmt.Sprintf("%s %d", r.name, h.ID)
	}
	return fmt.Sprintf("%s %d (%s)", r.name, h.ID, h.Name)
}

func (r *Room[S, F, X]) list(*http.Request) (any, error) {
	defer r.lock()()
	list := []S{}
	for _, s := range r.sessions {
		list = append(list, r.summary(s))
	}
	return map[string][]S{"sessions": list}, nil
}

func (r *Room[S, F, X]) show(req *http.Request) (any, error) {
	defer r.lock()()
	s, err := r.find(req)
	if err != nil {
		return nil, err
	}
	return s.Shown, nil // its frames are never changed in place
}

// end ends a session.
func (r *Room[S, F, X]) end(req *http.Request) (any, error) {
	unlock := r.lock()
	s, err := r.find(req)
	if err != nil {
		unlock()
		return nil, err
	}
	r.sessions = slices.DeleteFunc(r.sessions, func(x *session[S]) bool { return x == s })
	out := r.summary(s)
	unlock()
	r.changed("ended", &out, " has ended")
	return out, nil
}

// fail notes what has failed. It is tried on nothing first.
func (r *Room[S, F, X]) fail(req *http.Request) (any, error) {
	body, err := api.ReadBody(req, openingBody)
	if err != nil {
		return nil, err
	}
	var q X
	if err := api.Decode(body, &q); err != nil {
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
	s.Settings, *failures, s.Changed = settings, q, true
	out := r.summary(s)
	unlock()
	r.changed("failures", &out, fmt.Sprintf(": from now on %ss are planned with %s", r.frame, r.failed(&q)))
	return out, nil
}

// with is settings with other failures.
func (r *Room[S, F, X]) with(settings map[string]json.RawMessage, failures *X) (map[string]json.RawMessage, error) {
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
