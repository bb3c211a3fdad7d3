//go:build !lpsolve

package ilp

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/fors"
)

// withHelper builds the helper as make build does, and makes the package use it.
func withHelper(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/usr/include/lpsolve/lp_lib.h"); err != nil {
		t.Skip("lp_solve's header is not installed: liblpsolve55-dev")
	}
	path := filepath.Join(t.TempDir(), helper)
	cmd := exec.Command("go", "build", "-tags", "lpsolve", "-ldflags", `-extldflags "-L/usr/lib/lp_solve -Wl,-rpath,/usr/lib/lp_solve"`, "-buildvcs=false", "-o", path, "../cmd/forsd-lpsolve")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CPATH=/usr/include/lpsolve", "LIBRARY_PATH=/usr/lib/lp_solve")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	use(t, findBeside(filepath.Join(filepath.Dir(path), "forsd")))
}

func use(t *testing.T, path string) {
	before := find
	find = func() string { return path }
	t.Cleanup(func() { find = before })
}

// TestHelper solves in a separate process, with the same results as lp_solve in this
// one: a fabric with three dead cables of a leaf has its plan.
func TestHelper(t *testing.T) {
	withHelper(t)
	if !Available() {
		t.Fatal("the helper does not start")
	}
	tree := ft(6, 6, 6)
	for k := range 3 {
		tree.Up[0][k] = false
	}
	plan, err := Plan(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Phases < 60 {
		t.Errorf("a plan of %d phases: leaf 0 needs 6·30/3 = 60", plan.Phases)
	}
}

// TestHelperEnds: the helper ends with the context, and if its caller is gone.
func TestHelperEnds(t *testing.T) {
	withHelper(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s := solve(ctx, &program{upper: []float64{1}}); s.outcome != outOfTime {
		t.Errorf("after the end of its context it says %+v", s)
	}
	cmd := exec.Command(find())
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Error("it goes on after its input has ended")
	}
}

// TestNoHelper: a helper whose library the dynamic linker does not find is ignored.
func TestNoHelper(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, helper), []byte("#!/bin/sh\necho 'error while loading shared libraries: liblpsolve55.so' >&2\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	use(t, findBeside(filepath.Join(dir, "forsd")))
	if Available() {
		t.Error("a helper that does not start counts")
	}
	if _, err := Route(t.Context(), ft(2, 2, 2), [][]fors.Pair{{{Src: 0, Dst: 2}}}); err == nil {
		t.Error("it routes without a helper")
	}
}
