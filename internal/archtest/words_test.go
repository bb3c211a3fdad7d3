package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// givenUp lists phrases to avoid, with their replacements. The search ignores case and line
// breaks.
var givenUp = []struct{ phrase, instead string }{
	{"is no fat tree", "is not a fat tree"},
	{"are no fat tree", "are not fat trees"},
	{"needs no fat tree", "does not need a fat tree"},
	{"that no fat tree has", "that a fat tree does not have"},
	{"forsd is ending", "forsd is shutting down"},
	{"misses the plugin", "the plugin is not connected"},
	{"nobody's business", "what follows from it"},
	{"in vain", "without success"},
	{"whoever", "the one who, or a noun"},
	{"somebody who", "a noun"},
	{"is no forsd", "is not a forsd"},
	{"heeds", "reads"},
	{"90 % of the pairs", "the figures of mpi.md's table"},
	{"what there is not", "README's needs and limits: client certificates, lanes by MPI and jobs' base plans exist"},
	{"on the socket alone", "on the socket, or over TLS with a token"},
}

// givenUpNames lists functions, methods and types that were renamed, because their name was
// ambiguous or had no meaning. A key is a package folder and a name, or a name for all
// packages.
var givenUpNames = map[string]string{
	"PairBounds":                    "it is gone",
	"PlanPairs":                     "it is gone",
	"heed":                          "read, or act on",
	"TakeUp":                        "Resume",
	"Owed":                          "PendingErr",
	"Board":                         "state.State",
	"Vault":                         "state.Store",
	"Press":                         "plans.Publisher",
	"reign":                         "lead",
	"bell":                          "notify",
	"settle":                        "what is done: match, give lanes, resolve; a daemon has settled",
	"settler":                       "laneMatcher",
	"api.asked":                     "requestedPlan",
	"api.take":                      "reserve",
	"fors.take":                     "pickLane, pickUnit, occupy, reserve",
	"gpu.take":                      "assign",
	"internal/daemon.calm":          "between",
	"internal/daemon.take":          "show",
	"internal/daemon.takeUp":        "resume",
	"internal/delivery/desk.Settle": "Written",
	"opensm/plugin.Settled":         "AfterSweep",
	"opensm.take":                   "addOption",
	"opensm.settled":                "complete",
	"opensm/plugin.take":            "handle, bytes",
	"opensm/umad.take":              "receive",
	"optical/photonic.take":         "add, addTopology, reroute, setSizes",
	"planner.take":                  "mark",
	"sim.take":                      "addLoad",
}

// sources returns the project's files with one of the endings, without this one.
func sources(t *testing.T, endings ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != "../.." || entry.Name() == "bin" || entry.Name() == "dist" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.Name() == "words_test.go":
			return nil
		}
		for _, ending := range endings {
			if strings.HasSuffix(path, ending) {
				found = append(found, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wrap matches a line break within a sentence of a comment or text.
var wrap = regexp.MustCompile(`\s*\n\s*(//|\*|#)*\s*`)

// phrases returns the phrases to avoid that occur in a text.
func phrases(text string) []string {
	text = strings.ToLower(wrap.ReplaceAllString(text, " "))
	var found []string
	for _, g := range givenUp {
		if strings.Contains(text, g.phrase) {
			found = append(found, g.phrase+": write "+g.instead)
		}
	}
	return found
}

// TestWordsGivenUp checks that the phrases do not occur in code, comments, messages, documents
// and settings.
func TestWordsGivenUp(t *testing.T) {
	if got := phrases("// The fabric is no\n\t// fat tree. Whoever"); len(got) != 2 {
		t.Fatalf("of two phrases %d are found", len(got))
	}
	files := sources(t, ".go", ".md", ".yaml", ".yml", ".txt", ".txtar", ".c", ".h", ".fragment", ".conf", ".service", ".sh")
	if len(files) < 300 {
		t.Fatalf("there are only %d files", len(files))
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range phrases(string(text)) {
			t.Errorf("%s has %s", path, p)
		}
	}
}

// TestNamesGivenUp checks that functions and types do not use the ambiguous names.
func TestNamesGivenUp(t *testing.T) {
	declared := 0
	for _, path := range sources(t, ".go") {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
		check := func(name string) {
			declared++
			for _, key := range []string{name, dir + "." + name} {
				if instead, ok := givenUpNames[key]; ok && !strings.HasSuffix(path, "_test.go") {
					t.Errorf("%s declares %s, which was given up: %s", path, name, instead)
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				check(n.Name.Name)
			case *ast.TypeSpec:
				check(n.Name.Name)
			}
			return true
		})
	}
	if declared < 1000 {
		t.Fatalf("there are only %d declarations", declared)
	}
}
