package opensm

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestWithdrawTables puts a table file aside. The next write restores it if it is still
// right, and reports no change.
func TestWithdrawTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "lfts")
	text := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	write := func(what string, want bool) {
		t.Helper()
		changed, err := WriteTables(path, text(what))
		if err != nil || changed != want {
			t.Fatalf("changed %v, %v; want %v", changed, err, want)
		}
		check(t, path, what)
		if _, err := os.Stat(path + withdrawn); err == nil {
			t.Error("what was put aside is still there")
		}
	}
	withdraw := func(want string) {
		t.Helper()
		if err := WithdrawTables(path); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Error("the table file is still there")
		}
		if got, err := ReadTables(path); err != nil || string(got) != want {
			t.Errorf("put aside: %q, %v", got, err)
		}
	}
	if err := WithdrawTables(path); err != nil {
		t.Errorf("without a file: %v", err)
	}
	write("tables", true)
	withdraw("tables")
	withdraw("tables")
	write("tables", false)
	withdraw("tables")
	write("others", true)
}

// check compares a file with its expected contents and mode.
func check(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if name := e.Name(); name != "lfts" && name != "lfts.spare" && name != "filler" {
			t.Errorf("beside it: %v, %v", entries, err)
		}
	}
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestWriteTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lfts")
	put(t, path+".new", []byte("left behind by a crash"))
	for _, c := range []struct {
		text    string
		changed bool
	}{{"one\n", true}, {"one\n", false}, {"two\n", true}, {"", true}, {"", false}} {
		before, _ := stat(path)
		changed, err := WriteTables(path, text(c.text))
		if err != nil || changed != c.changed {
			t.Fatalf("%q: changed %v, %v", c.text, changed, err)
		}
		check(t, path, c.text)
		if after, _ := stat(path); (after != before) != c.changed {
			t.Errorf("%q: the file went from %v to %v", c.text, before, after)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := WriteTables(path, text("")); err != nil || !changed {
		t.Errorf("a file that OpenSM may not be able to read was left: %v, %v", changed, err)
	}
	check(t, path, "")
	failure := errors.New("no tables")
	if _, err := WriteTables(path, func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return failure }); !errors.Is(err, failure) {
		t.Error(err)
	}
	check(t, path, "")
	if _, err := WriteTables(filepath.Join(path, "x", "y"), text("x")); err == nil {
		t.Error("no error for a directory that is a file")
	}
}

// TestWriteTablesOnAFullDisk replaces the file again and again though the disk has room for
// nothing, and leaves it as it is where it would take more than is kept for that.
func TestWriteTablesOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("fors", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	path := filepath.Join(dir, "lfts")
	size := 100_000
	if _, err := WriteTables(path, text(strings.Repeat("a", size))); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "filler"))
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	for _, want := range []string{strings.Repeat("b", size), strings.Repeat("c", size-1), strings.Repeat("d", size)} {
		if changed, err := WriteTables(path, text(want)); err != nil || !changed {
			t.Fatalf("changed %v, %v", changed, err)
		}
		check(t, path, want)
	}
	if changed, err := WriteTables(path, text(strings.Repeat("e", 2*size))); !errors.Is(err, syscall.ENOSPC) || changed {
		t.Errorf("changed %v, %v", changed, err)
	}
	check(t, path, strings.Repeat("d", size))
}

// TestReaderSeesWholeFiles reads while another writes: every text is whole.
func TestReaderSeesWholeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lfts")
	a, b := string(make([]byte, 100_000)), "short"
	if _, err := WriteTables(path, text(a)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for i := range 50 {
			if _, err := WriteTables(path, text([]string{a, b}[i%2])); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		got, err := os.ReadFile(path)
		if err != nil || string(got) != a && string(got) != b {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}
