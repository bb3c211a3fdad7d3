package main

import (
	"flag"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/fates.txt")

// TestFates makes every mistake in the sample, and compares the outcome of each with
// a reader's findings.
func TestFates(t *testing.T) {
	p, err := load("./testdata/sample")
	if err != nil {
		t.Fatal(err)
	}
	p.spoil(regexp.MustCompile(""))
	b, err := p.build(t.TempDir(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	fates, err := b.runAll(2, func(*mutant) bool { return true }, func(*mutant) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("testdata/sample/left"); err == nil {
		t.Error("the tests have left a file behind")
	}
	var out strings.Builder
	for i, f := range fates {
		out.WriteString(map[fate]string{survived: "survives ", killed: "found    ", timedOut: "time-out "}[f] + p.mutants[i].String() + "\n")
	}
	const file = "testdata/fates.txt"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Errorf("fates (-%s +got):\n%s", file, d)
	}
}

// TestEndless has the limits end a run that would not.
func TestEndless(t *testing.T) {
	p := &spoilt{dir: t.TempDir(), mutants: make([]mutant, 1)}
	for name, script := range map[string]string{"works for ever": "while :; do :; done", "waits for ever": "sleep 600"} {
		binary := filepath.Join(p.dir, "test")
		if err := os.WriteFile(binary, []byte("#!/bin/bash\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
		b := &built{p: p, dir: p.dir, binary: binary, tests: []test{{names: "TestEndless", reached: []byte{0, 1}, took: time.Second, cpu: 1, limit: 3e9}}}
		if f, err := b.run(1); f != timedOut || err != nil {
			t.Errorf("a test that %s: fate %d, %v", name, f, err)
		}
	}
}

// TestRefused checks the reasons why a package cannot be tested.
func TestRefused(t *testing.T) {
	for pattern, want := range map[string]string{
		"./nowhere":           "directory not found",
		"../...":              "name one",
		"./testdata/failing":  "fails without a mistake",
		"./testdata/mistyped": "string",
	} {
		if _, err := mutate(pattern, "", "", [2]int{}, 1, false, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pattern, err, want)
		}
	}
}

// TestEquivalents sets mistakes aside that survive, and refuses those that the tests find,
// that cannot be made, or that have no reason.
func TestEquivalents(t *testing.T) {
	at := func(column int) token.Position { return token.Position{Filename: "/a/x.go", Line: 7, Column: column} }
	mutants := []mutant{{at(3), negated, "a > 0"}, {at(9), dropped, "b++"}, {at(9), dropped, "c++\n}"}}
	for _, c := range []struct {
		text  string
		all   bool
		aside int
		err   string
	}{
		{"x.go:9: statement left out: c++\n\tc is not read\n", true, 1, ""},
		{"x.go:9: statement left out: b++\n\tb is not read\n", true, 0, "the tests find this one"},
		{"x.go:8: statement left out: c++\n\tc is not read\n", true, 0, "no such mistake can be made: x.go:8"},
		{"x.go:8: statement left out: c++\n\tc is not read\n", false, 0, ""},
		{"x.go:9: statement left out: c++\n", true, 0, "has no reason"},
		{"x.go:9: statement left out: c++\nx.go:3: b\n", true, 0, "line 2: want mistakes"},
		{"", true, 0, ""},
	} {
		dir := t.TempDir()
		if c.text != "" {
			if err := os.Mkdir(filepath.Join(dir, "testdata"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "testdata", "equivalent.txt"), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		fates, aside := []fate{killed, killed, survived}, 0
		e, err := readEquivalents(dir)
		if err == nil {
			aside, err = e.setAside(mutants, fates, c.all)
		}
		if aside != c.aside || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %d set aside, %v, want %d and %q", c.text, aside, err, c.aside, c.err)
		}
		if (fates[2] == equivalent) != (c.aside == 1) {
			t.Errorf("%q: fate %d", c.text, fates[2])
		}
	}
}
