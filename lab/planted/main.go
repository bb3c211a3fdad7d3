// Command planted plants faults in forsd, one at a time, and shows which nets catch them: the
// tests of the packages concerned; lab/mutate, if its mistakes in the same lines are all found
// by the package's own tests; the verifier, if a forsctl with the fault refuses its own plans;
// the judge, testbed/judge and ibdmchk on the files of that forsctl; and the soak, a short one
// with the fault in forsd and in its test bench.
//
//	go run ./lab/planted [-without NET,…] [-only REGEXP] [-enough] [-seed N] [-events N]
//
// It prints a table, and fails if a fault is caught by fewer than two nets. The tree is not
// changed: the Go tool is given the changed files in place of the original ones.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/testbed/built"
)

// options name the faults to plant and the nets to ask.
type options struct {
	without string
	only    string
	enough  bool
	seed    int
	events  int
}

func main() {
	var o options
	flag.StringVar(&o.without, "without", "", "nets to take away, separated by commas")
	flag.StringVar(&o.only, "only", "", "plant the faults alone whose names match this regular expression")
	flag.BoolVar(&o.enough, "enough", false, "ask no further net once two have caught a fault")
	flag.IntVar(&o.seed, "seed", 34, "of the soak's events")
	flag.IntVar(&o.events, "events", 25, "how many there are")
	flag.Parse()
	command.Main("planted", func(ctx context.Context) error { return o.run(ctx, os.Stdout) })
}

// run plants the faults.
func (o *options) run(ctx context.Context, out io.Writer) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	root, err := built.Module(ctx)
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(slices.Clone(nets), func(n net) bool { return slices.Contains(strings.Split(o.without, ","), n.name) })
	fmt.Fprint(out, "| Fault |")
	for _, n := range all {
		fmt.Fprintf(out, " %s |", n.name)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("---|", len(all)))
	for _, n := range all { // they must be silent on the tree as it is
		if n.name == "tests" || n.name == "mutation" {
			continue
		}
		said, err := o.ask(ctx, root, &fault{}, n)
		if err == nil && said != "" {
			err = errors.New(said)
		}
		if err != nil {
			return fmt.Errorf("%s, without a fault: %w", n.name, err)
		}
	}
	var missed []string
	for _, f := range faults {
		if !only.MatchString(f.name) {
			continue
		}
		caught, err := o.plant(ctx, out, root, &f, all)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if caught < 2 {
			missed = append(missed, f.name)
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("caught by fewer than two nets: %s", strings.Join(missed, "; "))
	}
	return nil
}

// ask asks one net about one fault.
func (o *options) ask(ctx context.Context, root string, f *fault, n net) (said string, err error) {
	dir, err := os.MkdirTemp("", "planted-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	p, err := overlay(root, dir, f)
	if err != nil {
		return "", err
	}
	p.options = o
	return n.ask(ctx, p)
}

// plant asks the nets about one fault, prints its line, and returns how many caught it.
func (o *options) plant(ctx context.Context, out io.Writer, root string, f *fault, all []net) (caught int, err error) {
	dir, err := os.MkdirTemp("", "planted-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	p, err := overlay(root, dir, f)
	if err != nil {
		return 0, err
	}
	p.options = o
	line := "| " + f.name + " |"
	for _, n := range all {
		word := " – |"
		if !o.enough || caught < 2 {
			said, err := n.ask(ctx, p)
			if err != nil {
				return caught, fmt.Errorf("%s: %w", n.name, err)
			}
			if word = "  |"; said != "" {
				caught++
				word = " yes |"
				fmt.Fprintf(os.Stderr, "%s, %s: %s\n", f.name, n.name, said)
			}
		}
		line += word
	}
	_, err = fmt.Fprintln(out, line)
	return caught, err
}

// planted is a fault in the tree.
type planted struct {
	*fault
	*options
	root, dir string // of the module, and for files
	overlay   string // the file for go's -overlay
	first     int    // line of the first edit
	lines     int
	plans     []plans // see made
}

// overlay writes the files with a fault in them.
func overlay(root, dir string, f *fault) (*planted, error) {
	p := &planted{fault: f, root: root, dir: dir, overlay: filepath.Join(dir, "overlay.json")}
	texts := map[string]string{}
	for i, e := range f.edits {
		text, ok := texts[e.file]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, want once: give the fault a text that is there", e.file, e.old, n)
		}
		if i == 0 {
			before, _, _ := strings.Cut(text, e.old)
			p.first, p.lines = strings.Count(before, "\n")+1, strings.Count(e.old, "\n")+1
		}
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	var replace []string
	for file, text := range texts {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, err
		}
		replace = append(replace, fmt.Sprintf("%q: %q", filepath.Join(root, file), path))
	}
	return p, os.WriteFile(p.overlay, []byte(`{"Replace": {`+strings.Join(replace, ", ")+`}}`), 0o644)
}

// command runs a program in the module; failed is false if it has succeeded.
func (p *planted) command(ctx context.Context, name string, args ...string) (out string, failed bool, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.root
	text, err := cmd.CombinedOutput()
	if errors.As(err, new(*exec.ExitError)) && ctx.Err() == nil {
		return string(text), true, nil
	}
	return string(text), false, err
}

// build builds a program with the fault, once.
func (p *planted) build(ctx context.Context, program string) (path string, err error) {
	path = filepath.Join(p.dir, filepath.Base(program))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return built.Program(ctx, p.dir, program, "-overlay", p.overlay)
}
