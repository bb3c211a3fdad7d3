package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// equivalents are the mistakes of a package that change nothing a caller could see, and why:
// testdata/equivalent.txt has each on a line, in the form of mutant.key, and then its reason on a
// line that begins with a tab.
type equivalents map[string]string

// readEquivalents reads those of a package. There may be none.
func readEquivalents(dir string) (equivalents, error) {
	path := filepath.Join(dir, "testdata", "equivalent.txt")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, mistake := equivalents{}, ""
	for n, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		reason, is := strings.CutPrefix(line, "\t")
		switch {
		case !is && mistake == "" && all[line] == "":
			mistake = line
		case is && mistake != "" && reason != "":
			all[mistake], mistake = reason, ""
		default:
			return nil, fmt.Errorf("%s line %d: want mistakes, each once and with a reason on the next line, which begins with a tab", path, n+1)
		}
	}
	if mistake != "" {
		return nil, fmt.Errorf("%s: the last mistake has no reason", path)
	}
	return all, nil
}

// key names a mistake such that changes of other lines do not affect it.
func (m *mutant) key() string {
	text, _, _ := strings.Cut(m.text, "\n")
	return fmt.Sprintf("%s:%d: %s: %s", filepath.Base(m.at.Filename), m.at.Column, m.kind, text)
}

// setAside sets the fate of equivalent mistakes that survive, and returns how many these are.
// It fails if the tests find one, or if one was not made although all were asked for.
func (e equivalents) setAside(mutants []mutant, fates []fate, all bool) (aside int, err error) {
	left := maps.Clone(e)
	for i := range mutants {
		switch key := mutants[i].key(); {
		case e[key] == "" || fates[i] == unmade:
		case fates[i] == killed:
			return 0, fmt.Errorf("testdata/equivalent.txt: the tests find this one: %s", key)
		default:
			delete(left, key)
			fates[i] = equivalent
			aside++
		}
	}
	if all && len(left) > 0 {
		return 0, fmt.Errorf("testdata/equivalent.txt: no such mistake can be made: %s", slices.Sorted(maps.Keys(left))[0])
	}
	return aside, nil
}
