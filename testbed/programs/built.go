package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Scratch runs a package's tests with a directory of their own, for files built once
// for all; it is for TestMain, and does not return. The directory's path is short, as
// sockets in it need it.
func Scratch(m *testing.M, dir *string) {
	var err error
	if *dir, err = os.MkdirTemp("", "fors-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(*dir)
	os.Exit(code)
}

// Needs skips a test that runs programs if tests are to be short, or if one of the
// programs is not installed.
func Needs(t testing.TB, names ...string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("it runs %v", names)
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%v: make deps installs it", err)
		}
	}
}

// Sources reads the files that match the patterns, each of which must match some, so
// that the go command runs the tests again after a change.
func Sources(patterns ...string) error {
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return fmt.Errorf("sources %s: %v, %w", pattern, files, err)
		}
		for _, f := range files {
			if _, err := os.ReadFile(f); err != nil {
				return err
			}
		}
	}
	return nil
}
