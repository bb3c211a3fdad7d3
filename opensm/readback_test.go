package opensm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
)

// someTables is what dump_fts prints for a switch.
const someTables = `Unicast lids [0x0-0x5] of switch DR path slid 0; dlid 0; 0,1 guid 0x0000000000200000 (Leaf000):
  Lid  Out   Destination
       Port     Info 
0x0002 001 : (unknown node and type)
0x0004 000 : (unknown node and type)
2 valid lids dumped 
`

func shell(script string) []string { return []string{"sh", "-c", script} }

func TestReadBack(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	file := filepath.Join(t.TempDir(), "tables")
	put(t, file, []byte(someTables))
	r := ReadBack{Timeout: time.Minute, Command: shell(`pwd >&2; test "$(ls -A)" = "" && touch left && cat ` + file)}
	got, err := r.Tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, err := lft.Read(strings.NewReader(someTables))
	if err != nil {
		t.Fatal(err)
	}
	if err := lft.Compare(want, got, nil); err != nil || len(got.Switches) != 1 || got.Port(0, 2) != 1 {
		t.Errorf("tables %+v, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestReadBackFails(t *testing.T) {
	for name, c := range map[string]struct {
		r    ReadBack
		want []string
	}{
		"status":     {ReadBack{Timeout: time.Minute, Command: shell("echo half; echo no umad device >&2; exit 3")}, []string{"exit status 3", "no umad device", "sh -c"}},
		"no program": {ReadBack{Timeout: time.Minute, Command: []string{"no-such-program"}}, []string{"no-such-program", "not found", "infiniband-diags"}},
		"parser":     {ReadBack{Timeout: time.Minute, Command: shell("echo no table")}, []string{"is not a part of a table dump"}},
		"too slow":   {ReadBack{Command: shell("echo first; sleep 1000 & wait"), Timeout: 50 * time.Millisecond}, []string{"took longer than 50ms"}},
		"chatty":     {ReadBack{Timeout: time.Minute, Command: shell("yes complaint | head -c 100000 >&2; exit 1")}, []string{"exit status 1", "complaint"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.r.Tables(t.Context())
			mustContain(t, err, append(c.want, "read tables back")...)
			if got != nil {
				t.Error("tables with an error")
			}
			if len(err.Error()) > 2*errorText {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// TestReadBackKillsAll checks that the whole process group ends with ctx.
func TestReadBackKillsAll(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := ReadBack{Timeout: time.Minute, Command: shell(`(exec 3>` + fifo + `; echo up >&3; sleep 1000; sleep 1000) & wait`)}.Tables(ctx)
		ended <- err
	}()
	reader, err := os.Open(fifo) // opens when the grandchild does
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := io.ReadFull(reader, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if rest, err := io.ReadAll(reader); err != nil || len(rest) > 0 { // ends when the last writer does
		t.Errorf("%q, %v", rest, err)
	}
}

func TestHead(t *testing.T) {
	var h head
	if n, err := io.Copy(&h, bytes.NewReader(make([]byte, 3*errorText))); n != 3*errorText || err != nil || len(h.kept) != errorText {
		t.Errorf("took %d, %v, kept %d", n, err, len(h.kept))
	}
}

func TestProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("tool", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := Program("./tool")
	if err != nil || !filepath.IsAbs(path) {
		t.Errorf("%q, %v", path, err)
	}
	if _, err := Program("./none"); !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
