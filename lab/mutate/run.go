package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/internal/parallel"
)

// switches is the file that each spoilt package gets: which mistake is made, and what
// operators do under it.
const switches = `package %s

import (
	"cmp"
	"os"
	"strconv"
)

var mutant__made = func() int { n, _ := strconv.Atoi(os.Getenv("MUTANT")); return n }()

type mutant__number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutant__is(n int) bool { return n == mutant__made }


func mutant__not[B ~bool](n int, b B) B { return b != (n == mutant__made) }

func mutant__and(n int, a bool, b func() bool) bool {
	if n == mutant__made {
		return a || b()
	}
	return a && b()
}

func mutant__or(n int, a bool, b func() bool) bool {
	if n == mutant__made {
		return a && b()
	}
	return a || b()
}

func mutant__less[T cmp.Ordered](n int, a, b T) bool    { return a < b || n == mutant__made && a == b }
func mutant__atmost[T cmp.Ordered](n int, a, b T) bool  { return a < b || n != mutant__made && a == b }
func mutant__more[T cmp.Ordered](n int, a, b T) bool    { return a > b || n == mutant__made && a == b }
func mutant__atleast[T cmp.Ordered](n int, a, b T) bool { return a > b || n != mutant__made && a == b }

func mutant__next[T mutant__number](n int, v T) T {
	if n == mutant__made {
		return v + 1
	}
	return v
}

func mutant__add[T mutant__number](n int, a, b T) T {
	if n == mutant__made {
		return a - b
	}
	return a + b
}

func mutant__sub[T mutant__number](n int, a, b T) T {
	if n == mutant__made {
		return a + b
	}
	return a - b
}

func mutant__mul[T mutant__number](n int, a, b T) T {
	if n == mutant__made {
		return a / b
	}
	return a * b
}

func mutant__div[T mutant__number](n int, a, b T) T {
	if n == mutant__made {
		return a * b
	}
	return a / b
}
`

// fate is what became of a mistake.
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
	p          *spoilt
	tmp        string
	binary     string
	args       []string
	cpu, limit time.Duration // that a run may take
}

// Bounds of what one run may take beyond the run without a mistake.
const (
	moreCPU    = 5 * time.Second
	cpuFactor  = 4
	wallFactor = 10
	memoryKB   = 6 << 20 // of addresses, which Go is generous with
)

// build compiles the spoilt package with its tests, and has them pass without a
// mistake first.
func (p *spoilt) build(tmp string, args []string) (*built, error) {
	deps, err := exec.Command("go", "list", "-deps", "-test", p.path).Output()
	if err != nil {
		return nil, fmt.Errorf("list what the tests of %s import: %w", p.path, err)
	}
	b := &built{p: p, tmp: tmp, args: append(flagsFor(strings.Fields(string(deps))), args...)}
	files := maps.Clone(p.files)
	files[filepath.Join(p.dir, "mutant__switches.go")] = fmt.Appendf(nil, switches, p.pkg.Name)
	if b.binary, err = b.compile("all", files); err != nil {
		return nil, err
	}
	b.cpu, b.limit = time.Hour, time.Hour
	cmd, cancel := b.command(b.binary, 0)
	defer cancel()
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the tests of %s fail without a mistake: %w\n%s", p.path, err, out)
	}
	used := max(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), time.Since(began)/2)
	b.cpu = cpuFactor*used + moreCPU
	b.limit = wallFactor * b.cpu
	return b, nil
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

// command runs the tests with the n-th mistake. A mistake may loop, wait for ever, or
// take memory without end.
func (b *built) command(binary string, n int) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), b.limit)
	limits := fmt.Sprintf(`ulimit -v %d -t %d && exec "$0" "$@"`, memoryKB, int(b.cpu.Seconds())+1)
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", limits, binary}, b.args...)...)
	cmd.Dir = b.p.dir
	cmd.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(n), "GOMAXPROCS=1")
	cmd.WaitDelay = time.Second
	return cmd, cancel
}

// runAll tells the fate of every mistake that is wanted.
func (b *built) runAll(workers int, wanted func(m *mutant) bool) ([]fate, error) {
	fates := make([]fate, len(b.p.mutants))
	return fates, parallel.All(len(fates), workers, func(int) func(int) error {
		return func(i int) (err error) {
			if !wanted(&b.p.mutants[i]) {
				fates[i] = unmade
				return nil
			}
			fates[i], err = b.run(i + 1)
			return err
		}
	})
}

// run tells the fate of the n-th mistake.
func (b *built) run(n int) (fate, error) {
	binary := b.binary
	if f, apart := b.p.apart[n]; apart {
		var err error
		if binary, err = b.compile(strconv.Itoa(n), map[string][]byte{f.name: f.text}); err != nil {
			return killed, nil // a constant that does not fit is found by the compiler
		}
		defer os.Remove(binary)
	}
	cmd, cancel := b.command(binary, n)
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
