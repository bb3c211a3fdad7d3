package opensm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/fabgen"
)

// TestDiscover reads the output of a command, and checks the errors of commands that do not
// print a fabric.
func TestDiscover(t *testing.T) {
	want := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1})
	path := filepath.Join(t.TempDir(), "net")
	put(t, path, fabgen.Ibnetdiscover(want))
	got, err := Discover(t.Context(), []string{"cat", path}, time.Minute)
	if err != nil || got.Hash() != want.Hash() {
		t.Errorf("another fabric, or %v", err)
	}
	for fault, command := range map[string][]string{
		"no-such-program":              {"no-such-program"},
		"it printed: no port is there": {"sh", "-c", "echo no port is there >&2; exit 3"},
		"no cable is described":        {"echo", "vendid=0x2c9"},
	} {
		_, err := Discover(t.Context(), command, time.Minute)
		mustContain(t, err, fault)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if f, err := Discover(ctx, []string{"sleep", "1000"}, time.Minute); f != nil || err == nil {
		t.Errorf("a discovery that was given up: %v", err)
	}
	_, err = Discover(t.Context(), []string{"sleep", "1000"}, time.Millisecond)
	mustContain(t, err, "longer than 1ms")
}

// TestInstall gives the command the file as its last argument.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "tables"), []byte("x"))
	if err := Install(t.Context(), []string{"ln", "-s", "-t", dir + "/.", "-T"}, filepath.Join(dir, "tables"), time.Minute); err == nil {
		t.Error("a command that fails is none")
	}
	script := filepath.Join(dir, "push")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nmv \"$2\" \"$1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Install(t.Context(), []string{script, filepath.Join(dir, "there")}, filepath.Join(dir, "tables"), time.Minute); err != nil {
		t.Error(err)
	}
	if err := Install(t.Context(), []string{"no-such-program"}, "x", time.Minute); err == nil || strings.Contains(err.Error(), "infiniband-diags") {
		t.Errorf("a program that is not there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "there")); err != nil {
		t.Error(err)
	}
}
