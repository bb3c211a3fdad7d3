package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/topology"
)

// TestKeepCopy checks that only the last copies are kept.
func TestKeepCopy(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	ok(t, err)
	defer s.Close()
	began := time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)
	for i := range keepAccepted + 3 {
		path, err := KeepCopy(s, &topology.Baseline{Version: 1, Rate: "0x?"}, began.Add(time.Duration(i)*time.Second))
		ok(t, err)
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	kept, err := filepath.Glob(filepath.Join(dir, acceptedDir, "*.json"))
	ok(t, err)
	if len(kept) != keepAccepted || filepath.Base(kept[0]) != "20260701T080003.000Z.json" {
		t.Errorf("%d copies, the first %s", len(kept), kept[0])
	}
}
