package forslab

import (
	"bytes"
	"strings"
	"testing"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lab/scenario"
	"github.com/forsd/forsd/phasetable"
)

// TestScenariosWithoutOpenSM runs without the simulation's packages.
func TestScenariosWithoutOpenSM(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr bytes.Buffer
	if code := Run([]string{"scenarios", "--opensm"}, &stdout, &stderr); code != command.Unusable {
		t.Errorf("exit code %d, want %d", code, command.Unusable)
	}
	for _, want := range []string{"forslab: --opensm: the fabric simulation needs ", "run apt-get install "} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("standard error has no %q: %s", want, &stderr)
		}
	}
	if stdout.Len() > 0 {
		t.Errorf("it printed %q", &stdout)
	}
}

func TestOverBound(t *testing.T) {
	for want, gaps := range map[string][]int{
		"3 plans, none over its bound":                     {0, 0, 0},
		"4 plans, 2 over their bound, by 3 phases at most": {0, 3, 0, 1},
	} {
		var results []scenario.Result
		for _, gap := range gaps {
			results = append(results, scenario.Result{Summary: phasetable.Summary{Gap: gap}})
		}
		if got := overBound(results); got != want {
			t.Errorf("gaps %v: %q, want %q", gaps, got, want)
		}
	}
}
