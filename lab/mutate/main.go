// Command mutate finds mistakes that the tests of a package would miss. It makes small
// mistakes in the package's files, one at a time, runs the package's own tests
// against each, and prints the mistakes that survive them and the score: the share
// that the tests find.
//
//	go run ./lab/mutate [-min 90] [-files REGEXP] [-lines FROM-TO] [-run REGEXP] PACKAGE [FLAGS OF THE TEST BINARY]
//
// All mistakes are compiled into one test binary, behind a switch that the
// environment sets, so that a mistake costs no build, and a run of the tests alone that
// reach it: the quick ones first, in a copy of the package's directory. A mistake that
// changes nothing a caller could see counts as one that survives, unless
// testdata/equivalent.txt of the package has it with a reason: those are set aside.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	minimum := flag.Float64("min", 0, "fail below this score, in percent")
	files := flag.String("files", "", "make mistakes in the files alone whose names match this regular expression")
	var first, last int
	flag.Func("lines", "make mistakes in these lines alone, as in 17-20", func(text string) error {
		_, err := fmt.Sscanf(text, "%d-%d", &first, &last)
		return err
	})
	tests := flag.String("run", "", "run the tests alone whose names match this regular expression")
	workers := flag.Int("p", 2, "runs of the tests at a time")
	list := flag.Bool("list", false, "print the mistakes and run nothing")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: mutate [FLAGS] PACKAGE [FLAGS OF THE TEST BINARY]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	score, err := mutate(flag.Arg(0), *files, *tests, [2]int{first, last}, *workers, *list, flag.Args()[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
	if score < *minimum {
		fmt.Fprintf(os.Stderr, "mutate: the score is below %.1f %%\n", *minimum)
		os.Exit(1)
	}
}

// mutate prints the mistakes that survive in a package, in lines if the last of them is not
// 0, and returns the score.
func mutate(pattern, files, tests string, lines [2]int, workers int, list bool, args []string) (score float64, err error) {
	wanted, err := regexp.Compile(files)
	if err != nil {
		return 0, fmt.Errorf("-files: %w", err)
	}
	p, err := load(pattern)
	if err != nil {
		return 0, err
	}
	aside, err := readEquivalents(p.dir)
	if err != nil {
		return 0, err
	}
	p.spoil(wanted)
	if list {
		for i := range p.mutants {
			fmt.Println(&p.mutants[i])
		}
		return 100, nil
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	b, err := p.build(dir, tests, args)
	if err != nil {
		return 0, err
	}
	fates, err := b.runAll(workers, func(m *mutant) bool { return lines[1] == 0 || m.at.Line >= lines[0] && m.at.Line <= lines[1] }, func(m *mutant) {
		if aside[m.key()] == "" {
			fmt.Println(m)
		}
	})
	if err != nil {
		return 0, err
	}
	same, err := aside.setAside(p.mutants, fates, files == "" && lines[1] == 0)
	if err != nil {
		return 0, err
	}
	var late, found, made int
	alive, all := map[string]int{}, map[string]int{}
	for i, f := range fates {
		kind := p.mutants[i].kind
		if f != unmade && f != equivalent {
			made++
			all[kind]++
		}
		switch f {
		case survived:
			alive[kind]++
		case timedOut:
			late++
			fallthrough
		case killed:
			found++
		}
	}
	score = 100 * float64(found) / float64(max(1, made))
	fmt.Printf("%s: %d of %d mistakes found, %d of them by running out of time: %.1f %%; %d set aside as equivalent (%s)\n", p.path, found, made, late, score, same, time.Since(began).Round(time.Second))
	for _, kind := range kinds {
		fmt.Printf("  %-22s %4d of %4d survive\n", kind, alive[kind], all[kind])
	}
	return score, nil
}

// flagsFor are the flags that make the tests of a package repeatable and quick to
// fail, and leave no files behind.
func flagsFor(deps []string) []string {
	flags := []string{"-test.failfast", "-test.short"}
	if slices.ContainsFunc(deps, func(d string) bool { return strings.HasPrefix(d, "pgregory.net/rapid") }) {
		flags = append(flags, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=0s")
	}
	return flags
}
