// Package mend plays an operator who knows only the output of forsctl and the documents
// of forsd.
package mend

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// Operator mends a site by the pages that its warnings link to.
type Operator struct {
	Run  func(ctx context.Context, script string) (string, error) // runs a script in a shell
	Hand func(what string) error                                  // does the work that commands cannot do
	Docs string                                                   // directory of the documents
}

// Mend finds a warning in the output of forsctl status or, if forsd does not answer, of forsctl
// doctor. It runs the commands of the page that the output links to, and returns them.
func (o *Operator) Mend(ctx context.Context, code string) (ran []string, err error) {
	shown, err := o.Run(ctx, "sudo forsctl doctor || [ $? -eq 1 ]")
	if err != nil || !strings.Contains(shown, code) {
		return nil, fmt.Errorf("forsctl doctor does not name %s: %w\n%s", code, err, shown)
	}
	if status, err := o.Run(ctx, "sudo forsctl status --all || [ $? -eq 1 ]"); err == nil {
		shown = status
	}
	text, document := Warning(shown, code)
	if document == "" {
		return nil, fmt.Errorf("a link to a page about %s is missing in:\n%s", code, shown)
	}
	page, err := o.Run(ctx, "cat '"+o.Docs+"/"+document+"'")
	if err != nil {
		return nil, err
	}
	commands := Commands(page, code)
	if len(commands) == 0 {
		return nil, fmt.Errorf("%s has no commands about %s", document, code)
	}
	last := "" // the output of the previous command
	for _, line := range commands {
		if what, hand := strings.CutPrefix(line, "# "); hand {
			err = o.Hand(what)
		} else if line, err = Fill(line, last, text); err == nil {
			last, err = o.Run(ctx, line)
		}
		if ran = append(ran, line); err != nil {
			return ran, fmt.Errorf("%s of %s: %w", line, document, err)
		}
	}
	return ran, nil
}

// Warning returns the text about a warning in the output of forsctl status --all or doctor, and
// the name of the document that it links to.
func Warning(shown, code string) (text, document string) {
	link := regexp.MustCompile(`https?://\S+/([a-z]+\.md)#` + regexp.QuoteMeta(code) + `(?:\s|$)`)
	at := link.FindStringSubmatchIndex(shown)
	if at == nil {
		return "", ""
	}
	begin := 0
	for i := at[0]; i > 0; i-- { // a warning's further lines are indented
		if shown[i-1] == '\n' && shown[i] != ' ' {
			begin = i
			break
		}
	}
	return shown[begin:at[0]], shown[at[2]:at[3]]
}

// Commands returns the lines of the shell code below a heading of a document.
func Commands(document, heading string) (lines []string) {
	_, section, _ := strings.Cut("\n"+document, "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for i, block := range strings.Split(section, "\n```") {
		if code, shell := strings.CutPrefix(block, "sh\n"); shell && i%2 != 0 {
			lines = append(lines, strings.Split(code, "\n")...)
		}
	}
	return lines
}

// placeholders are the words in commands that stand for a part of a text, with their patterns.
var placeholders = map[string]*regexp.Regexp{
	"SWITCH":    regexp.MustCompile(`(\S+) port \d+`),
	"PORT":      regexp.MustCompile(`\S+ port (\d+)`),
	"SPINE":     regexp.MustCompile(`spine (\S+)`),
	"FILE":      regexp.MustCompile(`\s(/[^\s:;,]+)`),
	"DIRECTORY": regexp.MustCompile(`\s(/[^\s:;,]+)/`),
	"LINE":      regexp.MustCompile(`\s/[^\s:;,]+:(\d+)`),
	"KEY":       regexp.MustCompile(`key (/[^\s:;,]+)`),
}

var capitals = regexp.MustCompile(`[A-Z]{3,}`)

// Fill replaces the placeholders of a command by the parts of the texts that they stand for. The
// first text that has such a part counts.
func Fill(command string, shown ...string) (string, error) {
	var err error
	filled := capitals.ReplaceAllStringFunc(command, func(word string) string {
		if p := placeholders[word]; p != nil {
			for _, text := range shown {
				if m := p.FindStringSubmatch(text); m != nil {
					return m[1]
				}
			}
		}
		err = fmt.Errorf("%s: %s is not in this text:\n%s", command, word, strings.Join(shown, "\n"))
		return word
	})
	return filled, err
}
