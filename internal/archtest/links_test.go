package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced  = regexp.MustCompile("(?s)```.*?```")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noise   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors lists the anchors in a document that links can name.
func anchors(text string) map[string]bool {
	found := map[string]bool{"": true}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		found[strings.ReplaceAll(noise.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

// TestLinksLeadSomewhere follows every link of the documents that stays within the project.
func TestLinksLeadSomewhere(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range append(documents, "../../README.md", "../../CHANGELOG.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := doc
			if path != "" {
				target = filepath.Join(filepath.Dir(doc), path)
			}
			there, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			} else if !anchors(string(there))[anchor] {
				t.Errorf("%s links to %s: there is no such heading", doc, m[1])
			}
		}
	}
}
