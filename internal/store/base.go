package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// The last plan for base LIDs is stored, so that the same plan has the same number after a
// restart.

// SaveBase makes a plan for base LIDs durable and replaces the last one. A crash before it
// returns leaves one of the two.
func (s *Store) SaveBase(plan *phasetable.View) (err error) {
	defer s.oweWhere(&err)
	if err = s.here(); err == nil {
		err = s.saveGiven(plan.Epoch())
	}
	if err == nil {
		err = renameio.WriteFile(filepath.Join(s.dir, planner.BaseBinaryFile), plan.Bytes(), 0o644)
	}
	if err == nil {
		err = syncPath(s.dir)
	}
	if err != nil {
		return fmt.Errorf("save base plan %d: %w", plan.Epoch(), err)
	}
	return nil
}

// Base is the plan for base LIDs kept, nil for none.
func (s *Store) Base() (*phasetable.View, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, planner.BaseBinaryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return phasetable.Decode(data)
}
