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

// TestListen replaces the socket of a process that has crashed, and neither that of one that listens
// nor another file.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Listen(path, 0o620)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o620 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if _, err := Listen(path, 0o600); err == nil {
		t.Error("two listen on one socket")
	}
	if err := first.UnixListener.Close(); err != nil { // as in a crash, the file stays
		t.Fatal(err)
	}
	second, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, 0o600); err == nil {
		t.Error("a file is replaced")
	}
}
