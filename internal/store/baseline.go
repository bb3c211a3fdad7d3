package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forsd/forsd/internal/sealed"
	"github.com/forsd/forsd/topology"
	"github.com/google/renameio/v2"
)

const (
	baselineFile = "baseline.json"
	baselineCopy = "baseline.copy.json" // of the same content
)

// Baseline reads the stored baseline, or its copy where that is damaged or lost, of which
// damaged tells. It is nil where there is neither; without damage there was none yet.
func (s *Store) Baseline() (b *topology.Baseline, damaged error) {
	b, err := readBaseline(filepath.Join(s.dir, baselineFile))
	if err == nil {
		copyBaseline(s.dir, b)
		return b, nil
	}
	lost := errors.Is(err, fs.ErrNotExist)
	if b, _ := readBaseline(filepath.Join(s.dir, baselineCopy)); b != nil {
		return b, fmt.Errorf("%w; its copy, %s, is used in its place", err, baselineCopy)
	}
	if lost && len(s.epochs.kept()) == 0 {
		return nil, nil
	}
	return nil, err
}

// copyBaseline makes a copy of the baseline where there is another one, or none: older
// versions made none, and the file may have been put there by hand. Without it nothing else
// is amiss.
func copyBaseline(dir string, b *topology.Baseline) {
	path, text := filepath.Join(dir, baselineCopy), sealed.Seal(b.Encode())
	if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, text) {
		_ = renameio.WriteFile(path, text, 0o644)
	}
}

// readBaseline reads a file with the baseline. The error names it.
func readBaseline(path string) (*topology.Baseline, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b, err := topology.ReadBaseline(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// SaveBaseline makes the baseline durable. A crash before it returns leaves the one
// before, or this one.
func (s *Store) SaveBaseline(b *topology.Baseline) (err error) {
	defer s.oweWhere(&err)
	if err = s.here(); err != nil {
		return err
	}
	text := sealed.Seal(b.Encode())
	for _, name := range []string{baselineFile, baselineCopy} {
		if err = renameio.WriteFile(filepath.Join(s.dir, name), text, 0o644); err != nil {
			return fmt.Errorf("save baseline: %w", err)
		}
		if err = syncPath(s.dir); err != nil {
			return err
		}
	}
	return nil
}
