// Package archtest checks that the packages of the module follow the order of imports in
// docs/architecture.md.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/controller"
)

const (
	module   = "github.com/forsd/forsd/"
	document = "../../docs/architecture.md"
)

// listed is the go command's description of a package.
type listed struct {
	ImportPath string
	Doc        string
	GoFiles    []string
	Imports    []string // imports of GoFiles, without those of tests
}

// packages lists the packages of the module that have more than tests, by path below the
// module's path.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,GoFiles,Imports", module+"...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	found := map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			found[strings.TrimPrefix(p.ImportPath, module)] = p
		}
	}
}

// order reads the document's lists of packages: indented lines that have a package and its
// purpose, separated by two spaces, or only packages.
func order(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(doc), "\n## Packages, in import order\n")
	section, _, _ := strings.Cut(after, "\n## ")
	var names []string
	for line := range strings.Lines(section) {
		if line, indented := strings.CutPrefix(line, "    "); indented {
			line, _, _ = strings.Cut(line, "  ")
			names = append(names, strings.Fields(line)...)
		}
	}
	if !ok || len(names) == 0 {
		t.Fatalf("%s has no list of packages", document)
	}
	return names
}

func TestDocumentListsEveryPackage(t *testing.T) {
	var have []string
	for name := range packages(t) {
		have = append(have, name)
	}
	want := order(t)
	slices.Sort(have)
	slices.Sort(want)
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("packages (-%s +module):\n%s", document, d)
	}
}

func TestNothingImportsUpwards(t *testing.T) {
	place := map[string]int{}
	for i, name := range order(t) {
		place[name] = i
	}
	for name, p := range packages(t) {
		for _, path := range p.Imports {
			if used, ours := strings.CutPrefix(path, module); ours && place[used] >= place[name] {
				t.Errorf("%s imports %s, which does not stand before it in %s", name, used, document)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for name, p := range packages(t) {
		want := "Package "
		if strings.HasPrefix(name, "cmd/") || slices.Contains(p.GoFiles, "main.go") && strings.HasPrefix(p.Doc, "Command ") {
			want = "Command "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("the comment of package %s begins with %.30q, not with %q", name, p.Doc, want)
		}
	}
}

// TestIndependence checks rules beyond the order: the verifier shares no code with the
// planners, the planners do not use fabrics, the controller, the link state and the cables'
// health are pure, and the store knows neither how plans are made nor who requests them.
func TestIndependence(t *testing.T) {
	found := packages(t)
	impure := []string{"os", "io/fs", "net", "net/http", "os/exec", "sync", "context"}
	for name, forbidden := range map[string][]string{
		"controller":         append([]string{"*"}, impure...),
		"internal/delivery":  append([]string{"opensm", "controller", "topology"}, impure...),
		"internal/linkstate": append([]string{"fors", "lft", "verify", "internal/health", "bipartite"}, impure...),
		"internal/standby":   append([]string{"*"}, impure...),
		"fors":               {"topology", "internal/health", "os", "net"},
		"pods":               {"topology", "internal/health", "os", "net"},
		"verify":             append([]string{"fors", "pods", "planner", "phasetable", "sim"}, impure...),
		"lft":                {"fors", "pods", "verify", "os", "net"},
		"internal/server":    {"fors", "planner", "lft", "controller"},
		"sim":                {"fors", "pods", "planner", "verify"},
		"internal/store": {"api", "controller", "fors", "lft", "opensm", "verify",
			"internal/config", "internal/health", "context", "net", "net/http"},
	} {
		p, ok := found[name]
		if !ok {
			t.Errorf("there is no package %s", name)
		}
		for _, path := range p.Imports {
			ours, is := strings.CutPrefix(path, module)
			if slices.Contains(forbidden, ours) || is && slices.Contains(forbidden, "*") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

// TestClientLinksLittle checks that programs which ask forsd link its types and its phase tables,
// and nothing of the daemon.
func TestClientLinksLittle(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"api").Output()
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for path := range strings.FieldsSeq(string(out)) {
		if name, is := strings.CutPrefix(path, module); is {
			ours = append(ours, name)
		}
	}
	if d := cmp.Diff([]string{"ib", "phasetable", "api"}, ours); d != "" {
		t.Errorf("packages that api links (-want +got):\n%s", d)
	}
}

// TestDiagramShowsEveryState compares the document's state diagram with the controller's
// states.
func TestDiagramShowsEveryState(t *testing.T) {
	doc, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(doc), "\nstateDiagram-v2\n")
	diagram, _, _ := strings.Cut(after, "\n```")
	drawn := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ *([a-z_]+) --> ([a-z_]+)`).FindAllStringSubmatch(diagram, -1) {
		drawn[strings.ReplaceAll(m[1], "_", "-")], drawn[strings.ReplaceAll(m[2], "_", "-")] = true, true
	}
	states := map[string]bool{}
	for s := controller.Idle; s <= controller.Backoff; s++ {
		states[s.String()] = true
	}
	if d := cmp.Diff(states, drawn); d != "" {
		t.Errorf("states (-controller +%s):\n%s", document, d)
	}
}
