package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOverrun distinguishes a fault that no Go program can report from others.
func TestOverrun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		want   bool
	}{
		{"kill -SEGV $$", true},
		{"echo ready; kill -SEGV $$", true},
		{"echo 'SIGSEGV: segmentation violation'; kill -SEGV $$", false},
		{"kill -KILL $$", false},
		{"exit 2", false},
	} {
		dir := t.TempDir()
		program := filepath.Join(dir, "forsd")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "forsd.log"), []byte("SIGSEGV of one before\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := startForsd(nil, nil, program, "none", dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Overrun(); got != c.want {
			t.Errorf("%s: overrun %t, want %t", c.script, got, c.want)
		}
	}
}
