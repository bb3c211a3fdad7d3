package health

import (
	_ "embed"
	"regexp"
	"strings"
)

// Explanation is the meaning of a warning and the advice about it. Both texts may have
// Markdown's code and links, which are relative to docs/.
type Explanation struct{ Meaning, Advice string }

//go:embed advice.txt
var adviceText string

// explanations are those of advice.txt by code. An entry has the code, the meaning
// where the warning's title does not say it all, and what to do.
var explanations = func() map[string]Explanation {
	out := map[string]Explanation{}
	for entry := range strings.SplitSeq(strings.TrimSpace(adviceText), "\n\n") {
		lines := strings.Split(entry, "\n")
		last := len(lines) - 1
		out[lines[0]] = Explanation{strings.Join(lines[1:last], " "), lines[last]}
	}
	return out
}()

// Explain returns what is known of a code, and whether anything is.
func Explain(code string) (Explanation, bool) {
	e, ok := explanations[code]
	return e, ok
}

// Explained returns how many codes are explained.
func Explained() int { return len(explanations) }

var linked = regexp.MustCompile(`\[([^]]*)\]\(([^)#]*)[^)]*\)`)

// Advice says in plain text what to do about a warning of a code; "" for an unknown code.
// Links become the names of documents: "Bad cables (operating.md)".
func Advice(code string) string {
	return linked.ReplaceAllString(strings.ReplaceAll(explanations[code].Advice, "`", ""), "$1 ($2)")
}

// manual is the page that has a heading for every code.
const manual = "https://github.com/forsd/forsd/blob/main/docs/warnings.md"

// Runbook returns the address of the page about a code.
func Runbook(code string) string { return manual + "#" + code }
