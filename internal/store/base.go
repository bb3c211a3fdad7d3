package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
)

// The last plan for base LIDs is stored so that it keeps its number over a restart.

// SaveBase stores a plan for base LIDs durably, in place of the previous one. After a crash
// during the call, one of the two is stored.
func (s *Store) SaveBase(plan *phasetable.View) (err error) {
	defer s.markPendingOn(&err)
	if err = s.here(); err == nil {
		err = s.saveGiven(plan.Epoch())
	}
	if err == nil {
		err = replaceFile(filepath.Join(s.dir, planner.BaseBinaryFile), plan.Bytes())
	}
	if err != nil {
		return fmt.Errorf("save base plan %d: %w", plan.Epoch(), err)
	}
	return nil
}

// Base returns the stored plan for base LIDs, or nil if there is none.
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
