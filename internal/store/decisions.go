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

	"github.com/forsd/forsd/internal/sealed"
)

// Decisions are operators' decisions about parts of the fabric, such as drains. Keys name
// the package that decides; values are JSON that only that package reads.
type Decisions map[string]json.RawMessage

// decisionsSerial is the key of the counter that determines the later of two sets.
const decisionsSerial = "serial"

// Serial returns the number of decisions made up to these.
func (d Decisions) Serial() (n uint64) {
	_ = json.Unmarshal(d[decisionsSerial], &n) // sets of older versions have no serial and sort first
	return n
}

// Count increments the serial.
func (d Decisions) Count() { d[decisionsSerial] = strconv.AppendUint(nil, d.Serial()+1, 10) }

const decisionsFile = "decisions.json"

// Decisions reads the stored decisions, nil if none are stored.
func (s *Store) Decisions() (Decisions, error) {
	var out Decisions
	if err := sealed.ReadFile(filepath.Join(s.dir, decisionsFile), &out); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for name, text := range out { // undo the indentation of SaveDecisions
		var plain bytes.Buffer
		if err := json.Compact(&plain, text); err != nil {
			return nil, err
		}
		out[name] = plain.Bytes()
	}
	return out, nil
}

// SaveDecisions stores the decisions durably. An empty set removes the file.
func (s *Store) SaveDecisions(d Decisions) (err error) {
	defer s.markPendingOn(&err)
	if err := s.here(); err != nil {
		return err
	}
	path := filepath.Join(s.dir, decisionsFile)
	if len(d) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return SyncPath(s.dir)
	}
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	if err := replaceFile(path, sealed.Seal(text)); err != nil {
		return fmt.Errorf("save %s: %w", decisionsFile, err)
	}
	return nil
}
