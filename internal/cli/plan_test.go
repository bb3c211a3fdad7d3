package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestPlanInterrupted checks that interrupted planning yields the plan of auto, with exit code
// 1.
func TestPlanInterrupted(t *testing.T) {
	dir := t.TempDir()
	fabric := filepath.Join(dir, "fabric.lst")
	if err := os.WriteFile(fabric, fabgen.SubnetLst(fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})), 0o644); err != nil {
		t.Fatal(err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	out := filepath.Join(dir, "out")
	root := Command()
	root.SetArgs([]string{"plan", "--topology", fabric, "--lmc", "2", "--out", out})
	root.SetOut(io.Discard)
	if err := root.ExecuteContext(interrupted); !errors.As(err, new(command.Violated)) || !strings.HasPrefix(err.Error(), "interrupted: ") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(out, planner.BinaryFile)); err != nil {
		t.Error(err)
	}
}
