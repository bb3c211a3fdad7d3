package store

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/topology"
)

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
