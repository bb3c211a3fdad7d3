package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestScenariosWithoutOpenSM runs where the simulation's packages are missing.
func TestScenariosWithoutOpenSM(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr bytes.Buffer
	if code := Run([]string{"scenarios", "--opensm"}, &stdout, &stderr); code != exitUnusable {
		t.Errorf("exit code %d, want %d", code, exitUnusable)
	}
	for _, want := range []string{"forsctl: --opensm: the fabric simulation needs ", "run apt-get install "} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("standard error has no %q: %s", want, &stderr)
		}
	}
	if stdout.Len() > 0 {
		t.Errorf("it printed %q", &stdout)
	}
}
