package frames

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/worker"
)

// opening opens a session: the body has the fields of a plan's request but those of frames,
// a name, and what the sort takes. It is tried on nothing first.
func (r *Room[S, F, X]) opening(req *http.Request) (any, error) {
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
	if err := r.room(); err != nil {
		return nil, err
	}
	if err := r.try(req, settings, &shown); err != nil {
		return nil, err
	}
	_, failures, _ := r.session(&shown)
	r.tidy(failures)
	now := time.Now()
	*r.head(&shown) = api.Session{Name: q.Name, Opened: now, Asked: now}
	s := &session[S]{Settings: settings, Shown: shown}
	unlock := r.lock()
	if len(r.sessions) == mostSessions {
		unlock()
		return nil, errFull
	}
	r.last++
	r.head(&s.Shown).ID = r.last
	r.sessions = append(r.sessions, s)
	out := r.summary(s)
	unlock()
	r.changed("opened", &out, " was opened, "+about)
	return out, nil
}

var errFull = api.Busy("there are %d sessions, the most that there may be: end one", mostSessions)

// room tells whether there is room for a session.
func (r *Room[S, F, X]) room() error {
	defer r.lock()()
	if len(r.sessions) == mostSessions {
		return errFull
	}
	return nil
}

// fields reads the fields of a request.
func fields(req *http.Request, most int64) (map[string]json.RawMessage, error) {
	body, err := api.ReadBody(req, most)
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

// try plans a frame of nothing, which finds settings that make no sense.
func (r *Room[S, F, X]) try(req *http.Request, settings map[string]json.RawMessage, s *S) error {
	field, side := r.nothing(s)
	row := "[" + strings.TrimSuffix(strings.Repeat("0,", side), ",") + "]"
	zero := "[" + strings.TrimSuffix(strings.Repeat(row+",", side), ",") + "]"
	x := map[string]json.RawMessage{field: json.RawMessage(zero)}
	maps.Copy(x, settings)
	body, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return r.plan(new([]byte))(req.Context(), body, func(a *worker.Answer) error {
		_, err := io.Copy(io.Discard, a)
		return err
	})
}

// next plans the next frame of a session. The answer is that of a single plan; a header has
// the frame's number.
func (r *Room[S, F, X]) next(w http.ResponseWriter, req *http.Request) {
	api.Told(req.Context()) // frames are too many to be orders in the history
	x, err := fields(req, r.body)
	for name := range x {
		if err == nil && !slices.Contains(r.ofFrame, name) {
			err = api.BadRequest("%.40q does not come with a %s: want %s; the rest is the session's", name, r.frame, strings.Join(r.ofFrame, ", "))
		}
	}
	if err != nil {
		api.WriteError(w, err)
		return
	}
	unlock := r.lock()
	s, err := r.find(req)
	if err == nil && s.busy {
		err = api.Refused("a %s of %s is being planned: the next one goes on from it", r.frame, r.label(&s.Shown))
	}
	if err != nil {
		unlock()
		api.WriteError(w, err)
		return
	}
	s.Number++
	s.busy = r.follows
	var f F
	h, failures := r.of(&f)
	_, now, _ := r.session(&s.Shown)
	*h, *failures = api.Frame{Number: s.Number, At: time.Now()}, *now
	settings, changed, state := s.Settings, s.Changed, s.State
	s.Changed = false
	unlock()
	w.Header().Set(r.header, strconv.FormatUint(h.Number, 10))
	good := false
	maps.Copy(x, settings) // which has no field of a frame
	if body, err := json.Marshal(x); err != nil {
		api.WriteError(w, err)
	} else {
		r.plan(&state).Answer(w, req, body, func(head []byte) { good = summaryOf(r.figures(&f), head) })
	}
	h.PlanningSeconds = time.Since(h.At).Seconds()
	unlock = r.lock()
	if s.busy = false; good {
		s.State = state
		r.planned++
	} else {
		r.refused++
	}
	r.note(s, f, good, changed)
	out := r.summary(s)
	unlock()
	if good && changed {
		r.tell("replanned", &out, &f, fmt.Sprintf("%s: %s %d, with %s, %s", r.label(&out), r.frame, h.Number, r.failed(failures), r.result(&f)))
	}
}

// note remembers a frame.
func (r *Room[S, F, X]) note(s *session[S], f F, good, changed bool) {
	h, _, list := r.session(&s.Shown)
	if !good {
		h.Refused++
		s.Changed = s.Changed || changed
		return
	}
	h.Planned++
	if len(*list) == mostFrames {
		*list = slices.Clone((*list)[1:])
	}
	*list = append(*list, f)
}

// summaryOf reads the figures of a plan out of the beginning of an answer, and tells whether they
// are all there.
func summaryOf(want map[string]any, text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return false
	}
	for len(want) > 0 && d.More() {
		key, err := d.Token()
		if err != nil {
			return false
		}
		name, _ := key.(string)
		to, is := want[name]
		if !is {
			to = new(json.RawMessage)
		}
		if d.Decode(to) != nil {
			return false
		}
		delete(want, name)
	}
	return len(want) == 0
}
