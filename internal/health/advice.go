package health

import (
	_ "embed"
	"regexp"
	"strings"
)

// Explanation is the meaning of a warning and the advice about it. Both texts may contain
// Markdown code and links, which are relative to docs/. Commands has the shell commands that
// carry the advice out, a line each, or "". A line that is a comment is done by hand. Words in
// capitals stand for names in the warning's text.
type Explanation struct{ Meaning, Advice, Commands string }

//go:embed advice.txt
var adviceText string

// explanations has the entries of advice.txt by code. An entry has the code, the meaning if the
// warning's title does not suffice, the advice, and indented commands.
var explanations = func() map[string]Explanation {
	out := map[string]Explanation{}
	for entry := range strings.SplitSeq(strings.TrimSpace(adviceText), "\n\n") {
		text, commands, _ := strings.Cut(entry, "\n    ")
		lines := strings.Split(text, "\n")
		last := len(lines) - 1
		out[lines[0]] = Explanation{strings.Join(lines[1:last], " "), lines[last], strings.ReplaceAll(commands, "\n    ", "\n")}
	}
	return out
}()

// Explanations returns the explanations by code.
func Explanations() map[string]Explanation { return explanations }

var linked = regexp.MustCompile(`\[([^]]*)\]\(([^)#]*)[^)]*\)`)

// Advice returns the advice for a code in plain text, with the commands in lines of their own,
// or "" for an unknown code. Links become the names of documents: "Bad cables (operating.md)".
func Advice(code string) string {
	e := explanations[code]
	text := linked.ReplaceAllString(strings.ReplaceAll(e.Advice, "`", ""), "$1 ($2)")
	return strings.TrimSuffix(text+"\n"+e.Commands, "\n")
}

// manual is the page that has a heading for every code.
const manual = "https://github.com/forsd/forsd/blob/main/docs/warnings.md"

// Runbook returns the address of the page about a code.
func Runbook(code string) string { return manual + "#" + code }
