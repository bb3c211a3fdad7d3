package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is an error in a configuration.
type Problem struct {
	Line int    // from 1; 0 if the file does not contain the key
	Key  string // such as "opensm.lmc"; "" for the whole file
	Text string // the error and its remedy
}

// String prints the problem without its line.
func (p Problem) String() string {
	if p.Key == "" {
		return p.Text
	}
	return p.Key + ": " + p.Text
}

// Error has all problems of a configuration, sorted by line.
type Error struct {
	Name     string // the path of the file
	Problems []Problem
}

// Error prints one line for each problem, as "file:line: key: problem".
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		if p.Line > 0 {
			lines[i] = fmt.Sprintf("%s:%d: %s", e.Name, p.Line, p)
		} else {
			lines[i] = fmt.Sprintf("%s: %s", e.Name, p)
		}
	}
	return strings.Join(lines, "\n")
}

// newError sorts the problems and removes duplicates. Without problems it returns nil.
func newError(name string, problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Text, b.Text))
	})
	return &Error{Name: name, Problems: slices.Compact(problems)}
}
