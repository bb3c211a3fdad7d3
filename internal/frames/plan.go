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
	"github.com/forsd/forsd/internal/tiers"
	"github.com/forsd/forsd/internal/worker"
)

// ofFrame are the fields of a plan's request that come with each frame.
var ofFrame = []string{"traffic", "routing", "token_bytes", "return", "programs", "rank"}

// open opens a session: the body has the fields of a plan's request but those of frames, and
// name and servers. It is tried on an exchange of nothing first.
func (r *Room) open(req *http.Request) (any, error) {
	settings, err := fields(req, openingBody)
	if err != nil {
		return nil, err
	}
	var q struct {
		Name    string `json:"name"`
		Servers int    `json:"servers"`
		GPUs    int    `json:"gpus_per_server"`
		api.GPUFailures
		Site *struct {
			Servers []struct {
				GPUs int `json:"gpus"`
			} `json:"servers"`
		} `json:"site"`
	}
	for _, name := range ofFrame {
		if _, is := settings[name]; is {
			return nil, api.BadRequest("%s comes with each frame", name)
		}
	}
	all, err := json.Marshal(settings)
	if err == nil {
		err = json.Unmarshal(all, &q)
	}
	if err != nil {
		return nil, api.BadRequest("%v", err)
	}
	ranks := q.Servers * q.GPUs
	if q.Site != nil {
		ranks = 0
		for _, s := range q.Site.Servers {
			ranks += s.GPUs
		}
	}
	const mostRanks = 1024
	switch {
	case len(q.Name) > mostName || strings.ContainsFunc(q.Name, unicode.IsControl):
		return nil, api.BadRequest("the name has more than %d bytes, or control characters", mostName)
	case q.Site == nil && (q.Servers < 1 || q.GPUs < 1 || q.Servers > mostRanks || q.GPUs > mostRanks) || ranks < 1 || ranks > mostRanks:
		return nil, api.BadRequest(`want {"servers": 8, "gpus_per_server": 8}, or a site, with %d GPUs at most`, mostRanks)
	}
	delete(settings, "name")
	delete(settings, "servers")
	if err := r.room(); err != nil {
		return nil, err
	}
	if err := r.try(req, settings, ranks); err != nil {
		return nil, err
	}
	now := time.Now()
	s := &session{Settings: settings, GPUSession: api.GPUSession{Name: q.Name, GPUs: ranks, GPUsPerServer: q.GPUs,
		Opened: now, Asked: now, BadNICs: list(q.BadNICs), DeadGPUs: list(q.DeadGPUs)}}
	unlock := r.lock()
	if len(r.sessions) == mostSessions {
		unlock()
		return nil, errFull
	}
	r.last++
	s.ID = r.last
	r.sessions = append(r.sessions, s)
	out := s.summary()
	unlock()
	r.changed(api.GPUEvent{What: "opened", Session: out, Text: fmt.Sprintf("%s was opened, of %d GPUs", label(&out), ranks)})
	return out, nil
}

var errFull = api.Busy("there are %d sessions, the most that there may be: end one", mostSessions)

// room tells whether there is room for a session.
func (r *Room) room() error {
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

// try plans an exchange of nothing, which finds settings that make no sense.
func (r *Room) try(req *http.Request, settings map[string]json.RawMessage, ranks int) error {
	row := "[" + strings.TrimSuffix(strings.Repeat("0,", ranks), ",") + "]"
	zero := "[" + strings.TrimSuffix(strings.Repeat(row+",", ranks), ",") + "]"
	x := map[string]json.RawMessage{"traffic": json.RawMessage(zero)}
	maps.Copy(x, settings)
	body, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return r.plan(req.Context(), body, func(a *worker.Answer) error {
		_, err := io.Copy(io.Discard, a)
		return err
	})
}

// frame plans the next frame of a session. The answer is that of a single exchange; the
// header Forsd-Frame has the frame's number.
func (r *Room) frame(w http.ResponseWriter, req *http.Request) {
	api.Told(req.Context()) // frames are too many to be orders in the history
	x, err := fields(req, tiers.GPUBody)
	for name := range x {
		if err == nil && !slices.Contains(ofFrame, name) {
			err = api.BadRequest("%.40q does not come with a frame: want traffic or routing, token_bytes, return, programs, rank; the rest is the session's", name)
		}
	}
	if err != nil {
		api.WriteError(w, err)
		return
	}
	unlock := r.lock()
	s, err := r.find(req)
	if err != nil {
		unlock()
		api.WriteError(w, err)
		return
	}
	s.Number++
	f := api.GPUFrame{Number: s.Number, At: time.Now(), BadNICs: s.BadNICs, DeadGPUs: s.DeadGPUs}
	settings, changed := s.Settings, s.Changed
	s.Changed = false
	unlock()
	w.Header().Set("Forsd-Frame", strconv.FormatUint(f.Number, 10))
	good := false
	maps.Copy(x, settings) // which has no field of a frame
	if body, err := json.Marshal(x); err != nil {
		api.WriteError(w, err)
	} else {
		r.plan.Answer(w, req, body, func(head []byte) { good = summaryOf(&f, head) })
	}
	f.PlanningSeconds = time.Since(f.At).Seconds()
	unlock = r.lock()
	s.note(f, good, changed)
	if good {
		r.planned++
	} else {
		r.refused++
	}
	out := s.summary()
	unlock()
	if good && changed {
		r.tell(api.GPUEvent{What: "replanned", Session: out, Frame: &f, Text: fmt.Sprintf("%s: frame %d, with %s, sends %d bytes a NIC in %.3g ms",
			label(&out), f.Number, failed(&api.GPUFailures{BadNICs: f.BadNICs, DeadGPUs: f.DeadGPUs}), f.Length, 1000*f.PredictedSeconds)})
	}
}

// note remembers a frame.
func (s *session) note(f api.GPUFrame, good, changed bool) {
	if !good {
		s.Refused++
		s.Changed = s.Changed || changed
		return
	}
	s.Planned++
	if len(s.Frames) == mostFrames {
		s.Frames = slices.Clone(s.Frames[1:])
	}
	s.Frames = append(s.Frames, f)
}

// summaryOf reads the figures of a plan out of the beginning of an answer, and tells whether they
// are all there.
func summaryOf(f *api.GPUFrame, text []byte) bool {
	want := map[string]any{"mode": &f.Mode, "length": &f.Length, "bound": &f.Bound, "predicted_seconds": &f.PredictedSeconds}
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
