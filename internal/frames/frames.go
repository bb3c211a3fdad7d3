// Package frames keeps sessions of GPU exchanges: a cluster and how it wants its plans, what
// of it has failed, and the frames that were planned for it, one after the other. The plans
// are those of single exchanges.
package frames

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/tiers"
)

// The limits of sessions.
const (
	mostSessions = 16
	mostFrames   = 64        // that a session remembers
	mostIdle     = time.Hour // after which a session ends
	mostName     = 64
	openingBody  = 256 << 10 // bytes: a site of the most GPUs
)

// Room is the sessions that there are.
type Room struct {
	plan tiers.Plan // of an exchange
	tell func(api.GPUEvent)
	file string // that keeps the sessions; "" for none

	saving sync.Mutex // of the file; taken before mu

	mu               sync.Mutex
	sessions         []*session // by ID
	last             uint64
	planned, refused uint64 // frames
}

// session is one of them; the room's lock is for it too.
type session struct {
	api.GPUSession
	Settings map[string]json.RawMessage `json:"settings"` // fields of the requests
	Number   uint64                     `json:"number"`   // of the last frame
	Changed  bool                       `json:"changed"`  // other NICs have failed since the last frame
}

// New is a room whose frames plan plans. tell is told of what becomes of sessions.
func New(plan tiers.Plan, tell func(api.GPUEvent)) *Room { return &Room{plan: plan, tell: tell} }

// Readers are the endpoints that change nothing, Operators those that do, by their patterns.
func (r *Room) Readers() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /v1/gpu/sessions":           api.Answer(r.list),
		"GET /v1/gpu/sessions/{session}": api.Answer(r.show),
	}
}

// Operators are the endpoints that change something.
func (r *Room) Operators() map[string]http.Handler {
	return map[string]http.Handler{
		"POST /v1/gpu/sessions":                    api.Answer(r.open),
		"POST /v1/gpu/sessions/{session}/failures": api.Answer(r.fail),
		"POST /v1/gpu/sessions/{session}/frames":   http.HandlerFunc(r.frame),
		"DELETE /v1/gpu/sessions/{session}":        api.Answer(r.end),
	}
}

// Counts is how many sessions there are, and how many frames were planned and refused.
func (r *Room) Counts() (sessions int, planned, refused uint64) {
	defer r.lock()()
	return len(r.sessions), r.planned, r.refused
}

// lock takes the lock and ends the sessions that nobody has asked for long; what it returns
// gives the lock back and tells of them.
func (r *Room) lock() (unlock func()) {
	r.mu.Lock()
	var idle []api.GPUSession
	r.sessions = slices.DeleteFunc(r.sessions, func(s *session) bool {
		if time.Since(s.Asked) < mostIdle {
			return false
		}
		idle = append(idle, s.summary())
		return true
	})
	return func() {
		r.mu.Unlock()
		for _, s := range idle {
			r.changed(api.GPUEvent{What: "ended", Session: s, Text: fmt.Sprintf("%s has ended: no frame for %v", label(&s), mostIdle)})
		}
	}
}

// find is the session of a request, which counts as asked for.
func (r *Room) find(req *http.Request) (*session, error) {
	text := req.PathValue("session")
	id, err := strconv.ParseUint(text, 10, 64)
	i := slices.IndexFunc(r.sessions, func(s *session) bool { return s.ID == id })
	if err != nil || i < 0 {
		return nil, api.Errorf(http.StatusNotFound, api.CodeNotFound, "there is no session %.40q: it may have ended", text)
	}
	r.sessions[i].Asked = time.Now()
	return r.sessions[i], nil
}

// summary is a session without its frames.
func (s *session) summary() api.GPUSession {
	out := s.GPUSession
	out.Frames = nil
	return out
}

// label names a session in words.
func label(s *api.GPUSession) string {
	if s.Name == "" {
		return fmt.Sprintf("GPU session %d", s.ID)
	}
	return fmt.Sprintf("GPU session %d (%s)", s.ID, s.Name)
}

func (r *Room) list(*http.Request) (any, error) {
	defer r.lock()()
	out := api.GPUSessions{Sessions: []api.GPUSession{}}
	for _, s := range r.sessions {
		out.Sessions = append(out.Sessions, s.summary())
	}
	return out, nil
}

func (r *Room) show(req *http.Request) (any, error) {
	defer r.lock()()
	s, err := r.find(req)
	if err != nil {
		return nil, err
	}
	out := s.GPUSession
	out.Frames = slices.Clone(s.Frames)
	return out, nil
}

// end ends a session.
func (r *Room) end(req *http.Request) (any, error) {
	unlock := r.lock()
	s, err := r.find(req)
	if err != nil {
		unlock()
		return nil, err
	}
	r.sessions = slices.DeleteFunc(r.sessions, func(x *session) bool { return x == s })
	out := s.summary()
	unlock()
	r.changed(api.GPUEvent{What: "ended", Session: out, Text: label(&out) + " has ended"})
	return out, nil
}

// fail notes what has failed. It is tried on an exchange of nothing first.
func (r *Room) fail(req *http.Request) (any, error) {
	body, err := api.ReadBody(req, openingBody)
	if err != nil {
		return nil, err
	}
	var q api.GPUFailures
	if err := api.Decode(body, &q); err != nil {
		return nil, err
	}
	unlock := r.lock()
	s, err := r.find(req)
	if err != nil {
		unlock()
		return nil, err
	}
	settings, gpus := with(s.Settings, &q), s.GPUs
	unlock()
	if err := r.try(req, settings, gpus); err != nil {
		return nil, err
	}
	unlock = r.lock()
	if s, err = r.find(req); err != nil {
		unlock()
		return nil, err
	}
	s.Settings, s.BadNICs, s.DeadGPUs, s.Changed = settings, list(q.BadNICs), list(q.DeadGPUs), true
	out := s.summary()
	unlock()
	r.changed(api.GPUEvent{What: "failures", Session: out, Text: fmt.Sprintf("%s: from now on frames are planned with %s", label(&out), failed(&q))})
	return out, nil
}

// with is settings with other failures.
func with(settings map[string]json.RawMessage, q *api.GPUFailures) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for k, v := range settings {
		out[k] = v
	}
	for k, v := range map[string][]string{"bad_nics": q.BadNICs, "dead_gpus": q.DeadGPUs} {
		if delete(out, k); len(v) > 0 {
			out[k], _ = json.Marshal(v) // strings have a form in JSON
		}
	}
	return out
}

// failed says in words what has failed.
func failed(q *api.GPUFailures) string {
	var parts []string
	for what, names := range map[string][]string{"bad NICs ": q.BadNICs, "dead GPUs ": q.DeadGPUs} {
		if len(names) > 8 {
			parts = append(parts, fmt.Sprintf("%d %s", len(names), strings.TrimSpace(what)))
		} else if len(names) > 0 {
			parts = append(parts, what+strings.Join(names, ", "))
		}
	}
	if len(parts) == 0 {
		return "all NICs and GPUs"
	}
	slices.Sort(parts)
	return strings.Join(parts, " and ")
}

// list is a list that JSON shows as one.
func list(names []string) []string { return append([]string{}, names...) }
