package sessions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/internal/sealed"
)

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
