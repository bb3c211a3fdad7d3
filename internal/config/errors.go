package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Line int    // from 1, 0 where the file does not mention the key
	Key  string // such as "opensm.lmc", "" for the file as a whole
	Text string // what is wrong and what to do
}

// String prints the problem without its line.
func (p Problem) String() string {
	if p.Key == "" {
		return p.Text
	}
	return p.Key + ": " + p.Text
}

// Error is everything that is wrong with one configuration, by line.
type Error struct {
	Name     string // the path of the file
	Problems []Problem
}

// Error prints one line per problem, each as "file:line: key: what is wrong".
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

// newError sorts the problems and drops those that say the same; it returns nil
// if there are none.
func newError(name string, problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Text, b.Text))
	})
	return &Error{Name: name, Problems: slices.Compact(problems)}
}
