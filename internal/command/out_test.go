package command

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWriteOut writes into a pipe, which must remain a pipe, and replaces a file.
func TestWriteOut(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		data, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		read <- string(data)
	}()
	if err := WriteOut(nil, pipe, []byte("phases")); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "phases" {
		t.Errorf("the pipe gave %q", got)
	}
	if at, err := os.Stat(pipe); err != nil || at.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe has become %v (%v)", at.Mode(), err)
	}
	for _, data := range []string{"long", "new"} {
		if err := WriteOut(nil, file, []byte(data)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); string(got) != data {
			t.Errorf("the file has %q (%v), want %q", got, err, data)
		}
	}
	if err := WriteOut(nil, filepath.Join(dir, "no", "file"), nil); err == nil {
		t.Error("a file in no directory was written")
	}
}
