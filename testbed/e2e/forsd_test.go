package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStartAgain starts a program again that has crashed without a word, and none that has
// said something.
func TestStartAgain(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]int{"": 3, "ready": 1} {
		dir := t.TempDir()
		program := filepath.Join(dir, "forsd")
		text := "#!/bin/sh\necho x >>" + dir + "/starts\necho -n '" + says + "'\nkill -SEGV $$\n"
		if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := startForsd(nil, nil, program, "none", dir)
		if err != nil {
			t.Fatal(err)
		}
		<-f.Done()
		starts, err := os.ReadFile(filepath.Join(dir, "starts"))
		if n := strings.Count(string(starts), "x"); err != nil || n != want {
			t.Errorf("saying %q it was started %d times, want %d, %v", says, n, want, err)
		}
	}
}
