package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// operators lists the pages for operators.
var operators = []string{"tutorial", "installing", "operating", "oncall", "warnings", "managers", "page", "jobs", "reference", "vendors", "glossary"}

// The maximum numbers of words in documents. Lower them when documents get shorter.
const (
	mostInReadme    = 900
	mostOfOperators = 14000
	mostInAll       = 60000
)

// documents returns README.md and the pages under docs, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, path := range append(paths, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[path] = string(text)
	}
	return out
}

// TestWords limits the length of the documents.
func TestWords(t *testing.T) {
	readme, ofOperators, all := 0, 0, 0
	for path, text := range documents(t) {
		n := len(strings.Fields(text))
		all += n
		switch name := strings.TrimSuffix(filepath.Base(path), ".md"); {
		case name == "README":
			readme = n
		case slices.Contains(operators, name):
			ofOperators += n
		}
	}
	t.Logf("README.md has %d words, the operators' pages %d, all documents %d", readme, ofOperators, all)
	if readme > mostInReadme || ofOperators > mostOfOperators || all > mostInAll {
		t.Errorf("the limits are %d, %d and %d words", mostInReadme, mostOfOperators, mostInAll)
	}
}

// setting matches the names of settings: `planning.lids`.
var setting = regexp.MustCompile("`([a-z_]+(?:\\.[a-z_]+)+)(?::[^`]*)?`")

// TestSettingsExist looks for every setting that a document names in configs/forsd.yaml.
func TestSettingsExist(t *testing.T) {
	raw, err := os.ReadFile("../../configs/forsd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	files := []string{"conf", "db", "fragment", "json", "log", "lst", "md", "service", "yaml"}
	named := 0
	for path, text := range documents(t) {
		for _, m := range setting.FindAllStringSubmatch(text, -1) {
			keys := strings.Split(m[1], ".")
			if _, section := config[keys[0]]; !section || slices.Contains(files, keys[len(keys)-1]) {
				continue
			}
			named++
			var at any = config
			for _, key := range keys {
				section, _ := at.(map[string]any)
				next, there := section[key]
				if at = next; !there {
					t.Errorf("%s names the setting %s, which configs/forsd.yaml does not have", path, m[1])
					break
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("the documents name %d settings; there are more", named)
	}
}

// TestTargetsExist looks for every target of make that a document names in the Makefile.
func TestTargetsExist(t *testing.T) {
	raw, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	contributing, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := documents(t)
	texts["CONTRIBUTING.md"] = string(contributing)
	named := 0
	for path, text := range texts {
		for _, m := range regexp.MustCompile("(?m)(?:`|^|^    )(?:sudo )?make ([a-z][a-z-]+)").FindAllStringSubmatch(text, -1) {
			named++
			if !regexp.MustCompile(`(?m)^` + m[1] + `:( |$)`).Match(raw) {
				t.Errorf("%s names make %s, which the Makefile does not have", path, m[1])
			}
		}
	}
	if named < 30 {
		t.Errorf("the documents name %d targets; there are more", named)
	}
}
