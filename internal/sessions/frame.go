package sessions

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/forsd/forsd/api"
)

// opening opens a session. The body has the fields of a plan's request without those of frames,
// a name, and the fields of the kind. An empty frame is planned first, to check the settings.
func (r *room[S, F, X, A]) opening(req *http.Request) (any, error) {
	settings, err := fields(req, openingBody)
	if err != nil {
		return nil, err
	}
	for _, name := range r.ofFrame {
		if _, is := settings[name]; is {
			return nil, api.BadRequest("%s comes with each %s", name, r.frame)
		}
	}
	var q struct {
		Name string `json:"name"`
	}
	all, err := json.Marshal(settings)
	if err == nil {
		err = json.Unmarshal(all, &q)
	}
	if err != nil {
		return nil, api.BadRequest("%v", err)
	}
	if len(q.Name) > mostName || strings.ContainsFunc(q.Name, unicode.IsControl) {
		return nil, api.BadRequest("the name has more than %d bytes, or control characters", mostName)
	}
	delete(settings, "name")
	shown, about, err := r.open(settings, all)
	if err != nil {
		return nil, err
	}
	unlock := r.lock()
	full := len(r.sessions) == mostSessions
	if unlock(); full {
		return nil, errFull
	}
	if err := r.try(req, settings, &shown); err != nil {
		return nil, err
	}
	_, failures, _ := r.session(&shown)
	r.tidy(failures)
	now := time.Now()
	*r.head(&shown) = Session{Name: q.Name, Opened: now, Asked: now}
	s := &session[S]{Settings: settings, Shown: shown, Failed: r.failed(failures)}
	unlock = r.lock()
	if len(r.sessions) == mostSessions {
		unlock()
		return nil, errFull
	}
	r.last++
	r.head(&s.Shown).ID = r.last
	r.sessions = append(r.sessions, s)
	out := r.summary(s)
	unlock()
	r.changed(&out, " was opened, "+about)
	return out, nil
}

var errFull = api.Busy("there are %d sessions, the most that there may be: end one", mostSessions)

// fields reads the fields of a request.
func fields(req *http.Request, most int64) (map[string]json.RawMessage, error) {
	body, err := readBody(req, most)
	if err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	if err := api.Decode(body, &out); err != nil {
		return nil, err
	}
	if out == nil {
		return nil, api.BadRequest("want an object")
	}
	return out, nil
}

// try plans an empty frame, to find settings that do not work.
func (r *room[S, F, X, A]) try(req *http.Request, settings map[string]json.RawMessage, s *S) error {
	field, side := r.nothing(s)
	row := "[" + strings.TrimSuffix(strings.Repeat("0,", side), ",") + "]"
	zero := "[" + strings.TrimSuffix(strings.Repeat(row+",", side), ",") + "]"
	x := map[string]json.RawMessage{field: json.RawMessage(zero)}
	maps.Copy(x, settings)
	body, err := json.Marshal(x)
	if err != nil {
		return err
	}
	_, err = r.plan(req.Context(), body, new([]byte))
	return err
}

// next plans the next frame of a session. The answer is the same as that of a plan without a
// session, with the frame's number in a header.
func (r *room[S, F, X, A]) next(w http.ResponseWriter, req *http.Request) {
	x, err := fields(req, r.body)
	for name := range x {
		if err == nil && !slices.Contains(r.ofFrame, name) {
			err = api.BadRequest("%.40q does not come with a %s: want %s; the rest is the session's", name, r.frame, strings.Join(r.ofFrame, ", "))
		}
	}
	if err != nil {
		write(w, nil, err)
		return
	}
	unlock := r.lock()
	s, err := r.find(req)
	if err == nil && s.busy {
		err = api.Refused("a %s of %s is being planned: the next one goes on from it", r.frame, r.label(&s.Shown))
	}
	if err != nil {
		unlock()
		write(w, nil, err)
		return
	}
	s.Number++
	s.busy = r.follows
	var f F
	h, failures := r.of(&f)
	_, now, _ := r.session(&s.Shown)
	*h, *failures = Frame{Number: s.Number, At: time.Now()}, *now
	settings, state := s.Settings, s.State
	unlock()
	w.Header().Set(r.header, strconv.FormatUint(h.Number, 10))
	maps.Copy(x, settings) // settings have no field of a frame
	var a *A
	body, err := json.Marshal(x)
	if err == nil {
		a, err = r.plan(req.Context(), body, &state)
	}
	if err == nil {
		r.figures(&f, a)
	}
	h.PlanningSeconds = time.Since(h.At).Seconds()
	unlock = r.lock()
	if s.busy = false; err == nil {
		s.State = state
	}
	changed := r.note(s, f, err == nil)
	out := r.summary(s)
	unlock()
	if changed {
		r.server.log(fmt.Sprintf("%s: %s %d, with %s, %s", r.label(&out), r.frame, h.Number, r.failed(failures), r.result(&f)))
	}
	write(w, a, err)
}

// note records a frame. It returns a changed frame if it was planned with other failures than
// the frame before it.
func (r *room[S, F, X, A]) note(s *session[S], f F, good bool) (changed bool) {
	h, _, list := r.session(&s.Shown)
	if !good {
		h.Refused++
		return false
	}
	h.Planned++
	if len(*list) == mostFrames {
		*list = slices.Clone((*list)[1:])
	}
	*list = append(*list, f)
	_, failures := r.of(&f)
	before := s.Failed
	s.Failed = r.failed(failures)
	return s.Failed != before
}
