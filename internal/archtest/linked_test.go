package archtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// drawing lists the modules for plotting, LaTeX, PDF and fonts. The laboratory needs them, and
// the operator's programs must not link them.
var drawing = []string{"gonum.org/v1/plot", "codeberg.org/go-latex/", "codeberg.org/go-pdf/", "codeberg.org/go-fonts/",
	"git.sr.ht/~sbinet/gg", "github.com/ajstarks/svgo", "github.com/golang/freetype", "golang.org/x/image"}

// linked lists the packages linked into a program with the tags of make build.
func linked(t *testing.T, program string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-tags", "umad", module+"cmd/"+program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// TestProgramsLinkNoLaboratory checks that an operator's programs do not contain the
// laboratory, the drawing modules, or lp_solve, nor the test bench, except for the rehearsal.
// Without its library, a program that links lp_solve does not start.
func TestProgramsLinkNoLaboratory(t *testing.T) {
	forbidden := append([]string{module + "lab/", "testing", "github.com/draffensperger/golp"}, drawing...)
	for _, program := range []string{"forsd", "forsctl", "forsplan", "forsd-rehearsal"} {
		for _, path := range linked(t, program) {
			if strings.HasPrefix(path, module+"testbed/") && program != "forsd-rehearsal" {
				t.Errorf("%s links %s", program, path)
			}
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

// apart lists packages that programs and packages must not link or import: our packages,
// including those below them.
var apart = map[string][]string{
	// The router does not plan GPU clusters and circuit switches, except for the lanes of
	// stages that are planned elsewhere. It plans other networks only on OpenSM's routes.
	"cmd/forsd":   {"gpu", "optical", "internal/forsplan", "internal/sessions", "internal/nics", "internal/matrix"},
	"cmd/forsctl": {"gpu", "liquid", "optical", "internal/forsplan", "internal/sessions", "internal/nics", "internal/matrix"},
	// What forsd decides and does knows no HTTP.
	"internal/plans":      {"internal/server"},
	"internal/worker":     {"internal/server"},
	"internal/exclusions": {"internal/server"},
	"internal/history":    {"internal/server"},
	// The planners do not use forsd.
	"cmd/forsplan": daemon,
	"gpu":          beyondFabrics,
	"gpu/mscclpp":  beyondFabrics,
	"gpu/lanes":    beyondFabrics,
	"liquid":       beyondFabrics,
	"optical":      beyondFabrics,
}

var (
	daemon = []string{"controller", "opensm", "internal/backend", "internal/cables", "internal/cli", "internal/config", "internal/daemon",
		"internal/delivery", "internal/exclusions", "internal/history", "internal/linkstate", "internal/manager", "internal/plans", "internal/standby", "internal/store", "internal/state", "internal/view", "internal/worker"}
	beyondFabrics = []string{"api", "cmd", "controller", "internal/forsplan", "internal/sessions", "opensm"}
)

// TestProgramsLinkTheirOwn checks that programs and planners are separate.
func TestProgramsLinkTheirOwn(t *testing.T) {
	below := func(path string, dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
	}
	for of, forbidden := range apart {
		out, err := exec.Command("go", "list", "-deps", "-tags", "umad", module+of+"/...").Output()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, path := range strings.Fields(string(out)) {
			ours, is := strings.CutPrefix(path, module)
			switch {
			case !is, below(ours, []string{of}):
				found++
			case below(ours, forbidden) && !(of == "cmd/forsd" && ours == "gpu/lanes"):
				t.Errorf("%s links %s", of, ours)
			}
		}
		if found == 0 {
			t.Errorf("there is no %s", of)
		}
	}
}
