package store

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDecisions checks that decisions are kept, also while the disk is unavailable, and
// that damage is reported.
func TestDecisions(t *testing.T) {
	dir := t.TempDir()
	s := besides(t, dir)
	if d, err := s.Decisions(); d != nil || err != nil {
		t.Fatalf("nothing was decided: %v, %v", d, err)
	}
	d := Decisions{"drains": json.RawMessage(`[{"a":1}]`), "cables": json.RawMessage(`{}`)}
	ok(t, s.SaveDecisions(d))
	got, err := s.Decisions()
	ok(t, err)
	if !maps.EqualFunc(got, d, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		t.Errorf("%s, want %s", got, d)
	}
	file := filepath.Join(s.dir, decisionsFile)
	text, err := os.ReadFile(file)
	ok(t, err, os.WriteFile(file, []byte(strings.Replace(string(text), "1", "2", 1)), 0o644))
	if d, err := s.Decisions(); d != nil || err == nil || !strings.Contains(err.Error(), decisionsFile) {
		t.Errorf("after damage: %v, %v", d, err)
	}
	ok(t, s.SaveDecisions(d), os.Rename(s.dir, s.dir+".away"))
	if err := s.SaveDecisions(nil); err == nil || s.PendingErr() == nil {
		t.Errorf("nothing is pending: %v", err)
	}
	ok(t, os.Rename(s.dir+".away", s.dir), s.Restore(State{Decisions: d}, 20), s.SaveDecisions(nil), s.SaveDecisions(nil))
	if d, err := s.Decisions(); d != nil || err != nil {
		t.Errorf("nothing is decided any more: %v, %v", d, err)
	}
}
