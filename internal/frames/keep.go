package frames

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/internal/sealed"
)

// kept is what a room keeps in its file.
type kept[S any] struct {
	Last     uint64       `json:"last"` // number given
	Sessions []session[S] `json:"sessions"`
}

// Keep goes on with the sessions of a file, where there is one, and stores them there from
// now on. The error says that they are lost.
func (r *Room[S, F, X]) Keep(file string) error {
	r.file = file
	var k kept[S]
	if err := sealed.ReadFile(file, &k); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		r.last = uint64(time.Now().Unix()) // so that no client takes another's session for its own
		return err
	}
	r.last = k.Last
	for i := range k.Sessions {
		r.head(&k.Sessions[i].Shown).Asked = time.Now() // nobody could ask meanwhile
		r.sessions = append(r.sessions, &k.Sessions[i])
	}
	return r.save(false)
}

// Save stores the sessions. That is done when one is opened or ends and when other things
// have failed, and is to be done before the program ends: not with each frame, which does
// not wait for a disk.
func (r *Room[S, F, X]) Save() error { return r.save(true) }

// save stores the sessions, and what their next frames go on from only where the program
// ends: after a crash that would be of a frame long ago.
func (r *Room[S, F, X]) save(states bool) error {
	if r.file == "" {
		return nil
	}
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	k := kept[S]{Last: r.last}
	for _, s := range r.sessions {
		x := *s
		if !states {
			x.State = nil
		}
		k.Sessions = append(k.Sessions, x)
	}
	r.mu.Unlock()
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return renameio.WriteFile(r.file, sealed.Seal(text), 0o644)
}

// changed stores the sessions and tells what has become of one, which is in force from memory
// where the disk takes nothing.
func (r *Room[S, F, X]) changed(what string, s *S, text string) {
	text = r.label(s) + text
	if err := r.save(false); err != nil {
		text += fmt.Sprintf("; a restart of forsd would forget that: %v", err)
	}
	r.tell(what, s, nil, text)
}
