package rights

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLockedDirectory listens in a directory that this process has locked, as forsd has its
// state directory.
func TestLockedDirectory(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l, err := Listen(filepath.Join(dir.Name(), "s"), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Listen(filepath.Join(dir.Name(), "none", "s"), 0o600); err == nil {
		t.Error("a socket in a directory that does not exist")
	}
}
