package health

import (
	_ "embed"
	"regexp"
	"strings"
)

// Explanation is the meaning of a warning and the advice about it. Both texts may contain
// Markdown code and links, which are relative to docs/.
type Explanation struct{ Meaning, Advice string }

//go:embed advice.txt
var adviceText string

// explanations has the entries of advice.txt by code. An entry has the code, the meaning if the
// warning's title does not suffice, and the advice.
var explanations = func() map[string]Explanation {
	out := map[string]Explanation{}
	for entry := range strings.SplitSeq(strings.TrimSpace(adviceText), "\n\n") {
		lines := strings.Split(entry, "\n")
		last := len(lines) - 1
		out[lines[0]] = Explanation{strings.Join(lines[1:last], " "), lines[last]}
	}
	return out
}()

// Explain returns the explanation of a code, and whether there is one.
func Explain(code string) (Explanation, bool) {
	e, ok := explanations[code]
	return e, ok
}

// Explained returns the number of explained codes.
func Explained() int { return len(explanations) }

var linked = regexp.MustCompile(`\[([^]]*)\]\(([^)#]*)[^)]*\)`)

// Advice returns the advice for a code in plain text, or "" for an unknown code. Links become
// the names of documents: "Bad cables (operating.md)".
func Advice(code string) string {
	return linked.ReplaceAllString(strings.ReplaceAll(explanations[code].Advice, "`", ""), "$1 ($2)")
}

// manual is the page that has a heading for every code.
const manual = "https://github.com/forsd/forsd/blob/main/docs/warnings.md"

// Runbook returns the address of the page about a code.
func Runbook(code string) string { return manual + "#" + code }
