package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/internal/sealed"
	"github.com/forsd/forsd/topology"
)

const (
	baselineFile = "baseline.json"
	baselineCopy = "baseline.copy.json" // same content
)

// Baseline reads the stored baseline, or its copy if the file is missing or damaged;
// damaged then describes the fault. If neither can be read, b is nil. If no baseline was
// stored yet, b and damaged are both nil.
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
	if lost && len(s.Epochs.kept()) == 0 {
		return nil, nil
	}
	return nil, err
}

// copyBaseline writes the copy of the baseline if it is missing or differs: older versions
// wrote none, and an operator may have replaced the file. Errors are ignored, because only
// the copy is affected.
func copyBaseline(dir string, b *topology.Baseline) {
	path, text := filepath.Join(dir, baselineCopy), sealed.Seal(b.Encode())
	if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, text) {
		_ = renameio.WriteFile(path, text, 0o644)
	}
}

// readBaseline reads a baseline file. Errors contain the path.
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

// SaveBaseline stores the baseline durably. After a crash during the call, either the
// previous baseline or this one is stored.
func (s *Store) SaveBaseline(b *topology.Baseline) (err error) {
	defer s.markPendingOn(&err)
	if err = s.here(); err != nil {
		return err
	}
	text := sealed.Seal(b.Encode())
	for _, name := range []string{baselineFile, baselineCopy} {
		if err = replaceFile(filepath.Join(s.dir, name), text); err != nil {
			return fmt.Errorf("save baseline: %w", err)
		}
	}
	return nil
}

// acceptedDir holds replaced baselines, at most keepAccepted of them.
const (
	acceptedDir  = "baselines"
	keepAccepted = 20
)

// KeepCopy stores a baseline that is about to be replaced, under a name made from the time
// now, and returns the file's path. Copies over keepAccepted are removed, the oldest first.
func KeepCopy(s *Store, b *topology.Baseline, now time.Time) (string, error) {
	dir := filepath.Join(s.dir, acceptedDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("keep a copy of the baseline: %w", err)
	}
	path := filepath.Join(dir, now.UTC().Format("20060102T150405.000Z")+".json")
	if err := renameio.WriteFile(path, b.Encode(), 0o644); err != nil {
		return "", fmt.Errorf("keep a copy of the baseline: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.json")) // ascending
	for len(old) > keepAccepted && err == nil {
		err = os.Remove(old[0])
		old = old[1:]
	}
	return path, err
}
