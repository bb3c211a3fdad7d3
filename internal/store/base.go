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

// The plan for base LIDs that was published last is kept beside the epochs, so that its
// number is known: numbers of base plans count for themselves, and none is given to two.

// SaveBase keeps a plan for base LIDs in place of the one before.
func (s *Store) SaveBase(plan *phasetable.View) error {
	if err := s.here(); err != nil {
		return fmt.Errorf("save base plan %d: %w", plan.Epoch(), err)
	}
	if err := renameio.WriteFile(filepath.Join(s.dir, planner.BaseBinaryFile), plan.Bytes(), 0o644); err != nil {
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
