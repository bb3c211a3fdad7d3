package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/internal/parallel"
)

// fate is the outcome of a mistake.
type fate uint8

const (
	survived fate = iota
	killed
	timedOut
	unmade     // it was not asked for
	equivalent // it survives, and changes nothing a caller could see
)

// built is a test binary with all mistakes in it.
type built struct {
	p      *spoilt
	tmp    string
	dir    string // where the tests run
	binary string
	args   []string
	tests  []test // the quickest first
}

// test is one or several of the package's tests.
type test struct {
	names      string
	took       time.Duration
	reached    []byte        // [number of a mistake] 1 if it would change the course of the test
	cpu, limit time.Duration // that a run may take
}

// Limits of one run, relative to the run without a mistake.
const (
	moreCPU    = time.Second
	cpuFactor  = 4
	wallFactor = 10
	memoryKB   = 6 << 20 // of addresses, which Go is generous with
)

// quick is the longest time of a test that is run together with others.
const quick = 100 * time.Millisecond

// build compiles the spoilt package with its tests, and checks that each wanted test passes
// without a mistake first.
func (p *spoilt) build(tmp, wanted string, args []string) (*built, error) {
	deps, err := exec.Command("go", "list", "-deps", "-test", p.path).Output()
	if err != nil {
		return nil, fmt.Errorf("list the imports of the tests of %s: %w", p.path, err)
	}
	b := &built{p: p, tmp: tmp, args: append(flagsFor(strings.Fields(string(deps))), args...)}
	files := maps.Clone(p.files)
	files[filepath.Join(p.dir, "mutant__switches.go")] = fmt.Appendf(nil, switches, p.pkg.Name, len(p.mutants)+1)
	if b.binary, err = b.compile("all", files); err != nil {
		return nil, err
	}
	if b.dir, err = ownDir(p.dir, filepath.Join(tmp, "module")); err != nil {
		return nil, err
	}
	if err := os.CopyFS(b.dir, os.DirFS(p.dir)); err != nil {
		return nil, err
	}
	list, err := exec.Command(b.binary, "-test.list", "^(Test|Fuzz|Example)").Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", p.path, err)
	}
	tests, err := regexp.Compile(wanted)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	for _, name := range strings.Fields(string(list)) {
		if !tests.MatchString(name) {
			continue
		}
		t, err := b.reach(name)
		if err != nil {
			return nil, err
		}
		b.tests = append(b.tests, t)
	}
	slices.SortStableFunc(b.tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	return b, nil
}

// ownDir makes an empty directory for the tests of a package, since a mistake may have them
// write files. The directories above it, up to the path to, are those of the module, with
// links to everything else in them.
func ownDir(dir, to string) (own string, err error) {
	own = to
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		parent := filepath.Dir(dir)
		if to, err = ownDir(parent, to); err != nil {
			return "", err
		}
		own = filepath.Join(to, filepath.Base(dir))
		beside, err := os.ReadDir(parent)
		if err != nil {
			return "", err
		}
		for _, e := range beside {
			if path := filepath.Join(parent, e.Name()); path != dir {
				if err := os.Symlink(path, filepath.Join(to, e.Name())); err != nil {
					return "", err
				}
			}
		}
	}
	return own, os.Mkdir(own, 0o755)
}

// reach runs one test without a mistake, and sees which mistakes it could find.
func (b *built) reach(name string) (test, error) {
	reached := filepath.Join(b.tmp, "reached")
	if err := os.WriteFile(reached, make([]byte, len(b.p.mutants)+1), 0o644); err != nil {
		return test{}, err
	}
	t := test{names: name, cpu: time.Hour, limit: time.Hour}
	cmd, cancel := b.command(b.binary, &t, 0)
	defer cancel()
	cmd.Env = append(cmd.Env, "MUTANTS_REACHED="+reached)
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return test{}, fmt.Errorf("%s of %s fails without a mistake: %w\n%s", name, b.p.path, err, out)
	}
	// On a busy machine tests take long without work. One that waits has four times as long.
	t.bound(max(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), time.Since(began)/10))
	var err error
	t.reached, err = os.ReadFile(reached)
	return t, err
}

// bound sets the limits of a test from its duration without a mistake.
func (t *test) bound(took time.Duration) {
	t.took = took
	t.cpu = cpuFactor*took + moreCPU
	t.limit = wallFactor * t.cpu
}

// testsOf are the tests that could find the n-th mistake; those that are quick are one.
func (b *built) testsOf(n int) []test {
	var short []string
	var all []test
	together := time.Duration(0)
	for _, t := range b.tests {
		switch _, apart := b.p.apart[n]; {
		case !apart && t.reached[n] == 0:
		case t.took <= quick:
			short = append(short, t.names)
			together += t.took
		default:
			all = append(all, t)
		}
	}
	if len(short) > 0 {
		t := test{names: strings.Join(short, "|")}
		t.bound(together)
		all = slices.Insert(all, 0, t)
	}
	return all
}

// compile makes the test binary of the package with some files replaced.
func (b *built) compile(name string, files map[string][]byte) (string, error) {
	replace := map[string]string{}
	for path, text := range files {
		to := filepath.Join(b.tmp, name+"-"+filepath.Base(path))
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return "", err
		}
		replace[path] = to
	}
	overlay, err := json.Marshal(struct{ Replace map[string]string }{replace})
	if err != nil {
		return "", err
	}
	list, binary := filepath.Join(b.tmp, name+".json"), filepath.Join(b.tmp, name+".test")
	if err := os.WriteFile(list, overlay, 0o644); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", list, "-o", binary, b.p.path).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile %s with its mistakes: %w\n%s", b.p.path, err, out)
	}
	return binary, nil
}

// command runs tests with the n-th mistake. A mistake may loop, wait for ever, or take
// memory without end.
func (b *built) command(binary string, t *test, n int) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), t.limit)
	limits := fmt.Sprintf(`ulimit -v %d -t %d && exec "$0" "$@"`, memoryKB, int(t.cpu.Seconds())+1)
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", limits, binary, "-test.run", "^(" + t.names + ")$"}, b.args...)...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(n), "GOMAXPROCS=1")
	cmd.WaitDelay = time.Second
	return cmd, cancel
}

// runAll finds the fate of every wanted mistake. It reports those that survive at once.
func (b *built) runAll(workers int, wanted func(m *mutant) bool, alive func(m *mutant)) ([]fate, error) {
	fates := make([]fate, len(b.p.mutants))
	return fates, parallel.All(len(fates), workers, func(int) func(int) error {
		return func(i int) (err error) {
			if !wanted(&b.p.mutants[i]) {
				fates[i] = unmade
				return nil
			}
			if fates[i], err = b.run(i + 1); fates[i] == survived && err == nil {
				alive(&b.p.mutants[i])
			}
			return err
		}
	})
}

// run finds the fate of the n-th mistake.
func (b *built) run(n int) (fate, error) {
	binary := b.binary
	if f, apart := b.p.apart[n]; apart {
		var err error
		if binary, err = b.compile(strconv.Itoa(n), map[string][]byte{f.name: f.text}); err != nil {
			return killed, nil // a constant that does not fit is found by the compiler
		}
		defer os.Remove(binary)
	}
	for _, t := range b.testsOf(n) {
		if f, err := b.try(binary, &t, n); f != survived || err != nil {
			return f, err
		}
	}
	return survived, nil
}

// try finds the fate of the n-th mistake in one test.
func (b *built) try(binary string, t *test, n int) (fate, error) {
	cmd, cancel := b.command(binary, t, n)
	defer cancel()
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return survived, nil
	case !errors.As(err, &exit):
		return survived, fmt.Errorf("run the tests with mistake %d: %w", n, err)
	case exit.ExitCode() == -1: // by a signal: the limits
		return timedOut, nil
	}
	return killed, nil
}
