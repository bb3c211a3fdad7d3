package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamedTestsExist looks for every test that docs/papers.md and docs/planner.md
// name. Packages stand in backquotes before the names of their tests.
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

// hasTest tells whether a package has a test of a name.
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
