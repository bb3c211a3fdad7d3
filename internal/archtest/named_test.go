package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamedTestsExist looks for every test that docs/papers.md and docs/planner.md name.
// Packages are in backquotes before the names of their tests.
func TestNamedTestsExist(t *testing.T) {
	word := regexp.MustCompile("`([a-z0-9/]+)`|\\bTest[A-Z]\\w*")
	for _, document := range []string{"../../docs/papers.md", "../../docs/planner.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for _, line := range strings.Split(string(text), "\n") {
			dir := ""
			for _, m := range word.FindAllStringSubmatch(line, -1) {
				if m[1] != "" {
					dir = m[1]
					continue
				}
				named++
				if !hasTest(t, dir, m[0]) {
					t.Errorf("%s: package %q has no %s", document, dir, m[0])
				}
			}
		}
		if named == 0 {
			t.Errorf("%s names no test", document)
		}
	}
}

// hasTest reports whether a package has a test with a given name.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob("../../" + dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

// TestContributingNamesWhatIsThere looks for the files that CONTRIBUTING.md names, and for the
// declarations that it names in them: "`begin` in `controller/controller.go`".
func TestContributingNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	const minimum = 10 // of each kind, to check that the expressions match
	files := regexp.MustCompile("`([a-zA-Z0-9/_-]+\\.(?:go|yaml|md))`").FindAllSubmatch(text, -1)
	for _, m := range files {
		if _, err := os.Stat("../../" + string(m[1])); err != nil && strings.Contains(string(m[1]), "/") {
			t.Errorf("CONTRIBUTING.md names %s: %v", m[1], err)
		}
	}
	named := 0
	for _, m := range regexp.MustCompile("((?:`\\w+`(?:, | and )?)+)(?: of | in )`([a-zA-Z0-9/_-]+\\.go)`").FindAllSubmatch(text, -1) {
		code, err := os.ReadFile("../../" + string(m[2]))
		if err != nil {
			continue // reported above
		}
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllSubmatch(m[1], -1) {
			named++
			if !declaration(string(name[1])).Match(code) {
				t.Errorf("CONTRIBUTING.md names %s in %s, which does not have it", name[1], m[2])
			}
		}
	}
	if len(files) < minimum || named < minimum {
		t.Errorf("CONTRIBUTING.md names %d files and %d things in them; there are more", len(files), named)
	}
}

// TestWalks counts the steps of the walks in CONTRIBUTING.md. Each step names a function and its
// file, which TestContributingNamesWhatIsThere looks for.
func TestWalks(t *testing.T) {
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walks, _ := strings.Cut(string(text), "\n## Three walks\n")
	walks, _, _ = strings.Cut(walks, "\n## ")
	all := strings.Split(walks, "\n**")[1:]
	if len(all) != 3 {
		t.Fatalf("%d walks", len(all))
	}
	names := regexp.MustCompile("`\\w+`(?: and `\\w+`)? in `[a-zA-Z0-9/_-]+\\.go`")
	for _, walk := range all {
		title, _, _ := strings.Cut(walk, "**")
		steps := regexp.MustCompile(`(?m)^\d+\. .*$`).FindAllString(walk, -1)
		if len(steps) < 3 || len(steps) > 15 {
			t.Errorf("%s: %d steps", title, len(steps))
		}
		for _, step := range steps {
			if !names.MatchString(step) {
				t.Errorf("%s: a step names no function with its file: %s", title, step)
			}
		}
	}
}

// drawn maps the types and packages in the drawings of docs/architecture.md, such as
// "loop.show" and "plans.Publisher", to their folders.
var drawn = map[string]string{"actions": "internal/daemon", "inbox": "internal/daemon", "loop": "internal/daemon",
	"controller": "controller", "linkstate": "internal/linkstate", "plans": "internal/plans", "probe": "internal/linkstate/probe", "view": "internal/view"}

// TestDrawingsNameWhatIsThere looks for the names in the drawings of docs/architecture.md.
func TestDrawingsNameWhatIsThere(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, drawing := range regexp.MustCompile("(?s)```mermaid.*?```").FindAll(text, -1) {
		for _, m := range regexp.MustCompile(`\b([a-z]+)\.([A-Za-z]\w+)`).FindAllSubmatch(drawing, -1) {
			dir, known := drawn[string(m[1])]
			if !known {
				continue
			}
			named++
			if !declares(t, dir, string(m[2])) {
				t.Errorf("%s draws %s, and %s has no %s", document, m[0], dir, m[2])
			}
		}
	}
	if named < 20 {
		t.Errorf("the drawings of %s name %d things; there are more", document, named)
	}
}

// declares reports whether a folder's code has a function, type or field with a given name.
func declares(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob("../../" + dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := declaration(name)
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && declared.Match(code) {
			return true
		}
	}
	return false
}

// declaration matches the declaration of a function, type, variable or field.
func declaration(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*(?:func (?:\([^)]*\) )?|type |var |const )?` + name + `\b`)
}
