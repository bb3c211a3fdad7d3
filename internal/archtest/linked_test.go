package archtest

import (
	"os/exec"
	"strings"
	"testing"
)

// drawing are the modules that plot, set LaTeX, and write PDF and fonts: what the
// laboratory needs and the operator's programs must not carry.
var drawing = []string{"gonum.org/v1/plot", "codeberg.org/go-latex/", "codeberg.org/go-pdf/", "codeberg.org/go-fonts/",
	"git.sr.ht/~sbinet/gg", "github.com/ajstarks/svgo", "github.com/golang/freetype", "golang.org/x/image"}

// linked lists what a program is linked from, with the tags of make build.
func linked(t *testing.T, program string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-tags", "umad", module+"cmd/"+program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// TestProgramsLinkNoLaboratory holds that an operator's programs have nothing of
// the laboratory, of the test bench, of what draws, and of lp_solve, whose library
// they would not start without.
func TestProgramsLinkNoLaboratory(t *testing.T) {
	forbidden := append([]string{module + "lab/", module + "testbed/", "testing", "github.com/draffensperger/golp"}, drawing...)
	for _, program := range []string{"forsd", "forsctl", "forsplan"} {
		for _, path := range linked(t, program) {
			for _, bad := range forbidden {
				if strings.HasPrefix(path, bad) {
					t.Errorf("%s links %s", program, path)
				}
			}
		}
	}
	for _, path := range linked(t, "forsctl") {
		if strings.HasPrefix(path, "modernc.org/") {
			t.Errorf("forsctl links %s: the history's database is forsd's", path)
		}
	}
	found := false
	for _, path := range linked(t, "forslab") {
		found = found || strings.HasPrefix(path, drawing[0])
	}
	if !found {
		t.Errorf("forslab does not link %s: the list of what draws is out of date", drawing[0])
	}
}

// TestProgramsLinkTheirOwn holds that what plans GPU clusters, circuit switches and networks
// of any shape is in forsplan, not in forsctl, and that forsplan has nothing of the daemon.
func TestProgramsLinkTheirOwn(t *testing.T) {
	daemon := []string{"controller", "opensm", "internal/daemon", "internal/backend", "internal/board", "internal/store", "internal/config", "internal/history", "internal/linkstate", "internal/delivery", "internal/cli"}
	for program, forbidden := range map[string][]string{
		"forsctl":  {"gpu", "liquid", "optical/driver", "optical/photonic", "internal/forsplan"},
		"forsplan": daemon,
	} {
		for _, path := range linked(t, program) {
			ours, is := strings.CutPrefix(path, module)
			for _, bad := range forbidden {
				if is && (ours == bad || strings.HasPrefix(ours, bad+"/")) {
					t.Errorf("%s links %s", program, path)
				}
			}
		}
	}
}
