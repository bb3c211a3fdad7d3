package frames

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/sealed"
)

// kept is what a room keeps in its file.
type kept struct {
	Last     uint64    `json:"last"` // number given
	Sessions []session `json:"sessions"`
}

// Keep goes on with the sessions of a file, where there is one, and stores them there from
// now on. The error says that they are lost.
func (r *Room) Keep(file string) error {
	r.file = file
	var k kept
	if err := sealed.ReadFile(file, &k); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		r.last = uint64(time.Now().Unix()) // so that no client takes another's session for its own
		return err
	}
	r.last = k.Last
	for i := range k.Sessions {
		k.Sessions[i].Asked = time.Now() // nobody could ask meanwhile
		r.sessions = append(r.sessions, &k.Sessions[i])
	}
	return nil
}

// Save stores the sessions. That is done when one is opened or ends and when other things
// have failed, and is to be done before the program ends: not with each frame, which does
// not wait for a disk.
func (r *Room) Save() error {
	if r.file == "" {
		return nil
	}
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	k := kept{Last: r.last}
	for _, s := range r.sessions {
		k.Sessions = append(k.Sessions, *s)
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
func (r *Room) changed(e api.GPUEvent) {
	if err := r.Save(); err != nil {
		e.Text += fmt.Sprintf("; a restart of forsd would forget that: %v", err)
	}
	r.tell(e)
}
