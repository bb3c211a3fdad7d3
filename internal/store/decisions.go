package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/internal/sealed"
)

// Decisions are what was decided about parts of the fabric, by the name of who decides:
// JSON that only they know.
type Decisions map[string]json.RawMessage

// decisionsSerial is the name under which decisions are counted, so that the later of two
// sets is known.
const decisionsSerial = "serial"

// Serial is how many decisions led to these.
func (d Decisions) Serial() (n uint64) {
	_ = json.Unmarshal(d[decisionsSerial], &n) // those of old have none, and are the earliest
	return n
}

// Count notes that one more was decided.
func (d Decisions) Count() { d[decisionsSerial] = strconv.AppendUint(nil, d.Serial()+1, 10) }

const decisionsFile = "decisions.json"

// Decisions reads what was decided, nothing where nothing was.
func (s *Store) Decisions() (Decisions, error) {
	var out Decisions
	if err := sealed.ReadFile(filepath.Join(s.dir, decisionsFile), &out); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for name, text := range out { // as it was before it was laid out to be read
		var plain bytes.Buffer
		if err := json.Compact(&plain, text); err != nil {
			return nil, err
		}
		out[name] = plain.Bytes()
	}
	return out, nil
}

// SaveDecisions makes what was decided durable.
func (s *Store) SaveDecisions(d Decisions) (err error) {
	defer s.oweWhere(&err)
	if err := s.here(); err != nil {
		return err
	}
	path := filepath.Join(s.dir, decisionsFile)
	if len(d) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return syncPath(s.dir)
	}
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(path, sealed.Seal(text), 0o644); err != nil {
		return fmt.Errorf("save %s: %w", decisionsFile, err)
	}
	return syncPath(s.dir)
}
