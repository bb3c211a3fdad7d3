// Package libfors tests the C library that reads phase tables. A C program is linked with the
// library, under the sanitizers, and takes commands line by line; its answers are compared
// with Go's.
package libfors

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
	"github.com/forsd/forsd/topology"
)

// The flags of a strict compiler, and those under which it finds every access
// that is out of bounds.
var (
	strict     = []string{"-std=c11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", "-I."}
	sanitizers = []string{"-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}
)

// sanitized builds the library under the sanitizers, once for all tests, and the
// probe with it.
var sanitized = sync.OnceValues(func() (*built, error) {
	b := &built{dir: scratch}
	out, err := exec.Command("make", "-s", "-j2", "out="+scratch, "CFLAGS="+strings.Join(sanitizers, " "), b.library()).CombinedOutput()
	if err != nil {
		return b, fmt.Errorf("make: %w\n%s", err, out)
	}
	return b, gcc(b.probe(), slices.Concat(sanitizers, strict, []string{"testdata/probe.c", b.library()})...)
})

// scratch is the directory of sanitized.
var scratch string

// built is the directory of a library and a probe.
type built struct{ dir string }

func (b *built) library() string { return filepath.Join(b.dir, "libfors.a") }
func (b *built) probe() string   { return filepath.Join(b.dir, "probe") }

// gcc compiles and links.
func gcc(bin string, args ...string) error {
	if out, err := exec.Command("gcc", append([]string{"-o", bin}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc %v: %w\n%s", args, err, out)
	}
	return nil
}

// compile makes a program of sources and flags, with those of strict.
func compile(t testing.TB, args ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "program")
	if err := gcc(bin, slices.Concat(strict, args)...); err != nil {
		t.Fatal(err)
	}
	return bin
}

// sources are the library's.
func sources(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("src/*.c")
	if err != nil || len(files) == 0 {
		t.Fatalf("sources of the library: %v, %v", files, err)
	}
	return files
}

func TestMain(m *testing.M) { programs.Scratch(m, &scratch) }

// probe is a running testdata/probe.c.
type probe struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err strings.Builder // output of the sanitizers
}

// start runs the probe under the sanitizers.
func start(t testing.TB) *probe {
	t.Helper()
	b, err := sanitized()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, b.probe())
}

// run starts a probe. It must end well at the end of the test: a leak, or an
// access out of bounds, fails it.
func run(t testing.TB, command string, args ...string) *probe {
	t.Helper()
	p := &probe{t: t, cmd: exec.Command(command, args...)}
	p.cmd.Stderr = &p.err
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "FORSD_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.in.Close()
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("the probe ends with %v:\n%s", err, p.err.String())
		}
	})
	return p
}

// do gives a command and returns the answer: its lines, without the dot, or the
// line of the error.
func (p *probe) do(format string, args ...any) []string {
	p.t.Helper()
	command := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		p.t.Fatalf("%s: %v\n%s", command, err, p.err.String())
	}
	var lines []string
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			p.t.Fatalf("%s: the probe ended: %v\n%s", command, err, p.err.String())
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "." {
			return lines
		}
		lines = append(lines, line)
		if strings.HasPrefix(line, "error ") {
			return lines
		}
	}
}

// wants gives a command and compares its answer, joined by line ends.
func (p *probe) wants(command, want string) {
	p.t.Helper()
	if got := strings.Join(p.do("%s", command), "\n"); got != want {
		p.t.Errorf("%s:\n got %s\nwant %s", command, got, want)
	}
}

// contains gives a command and looks for a text in its answer.
func (p *probe) contains(command, want string) {
	p.t.Helper()
	if got := strings.Join(p.do("%s", command), "\n"); !strings.Contains(got, want) {
		p.t.Errorf("%s:\n got %s\nwant one with %s", command, got, want)
	}
}

// plan is the table of a real plan: a fat tree with that many dead cables on its
// first leaf.
func plan(t testing.TB, spines, leaves, dead int, lmc uint8) *phasetable.Table {
	t.Helper()
	lost := make([][2]int, dead) // of the first leaf
	for lane := range lost {
		lost[lane][1] = lane
	}
	tree := fabgen.Damaged(t, fabgen.Spec{Spines: spines, Leaves: leaves, LMC: lmc}, lost...)
	made, err := planner.Make(context.Background(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Table(42)
}

// threeLevels is the table of a fat tree of three levels with a host missing, as a rule.
func threeLevels(t testing.TB, lmc uint8, fail ...string) *phasetable.Table {
	t.Helper()
	fabric := fabgen.GenerateTree(fabgen.TreeSpec{Pods: 3, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2, LMC: lmc, Missing: [][2]int{{1, 1}}})
	base, err := topology.NewPodBaseline(fabric)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range fail {
		if _, err := fabric.Fail(what); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := topology.FitPods(fabric, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := podplan.Make(context.Background(), tree, podplan.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Compact(7)
}

// encode returns a table's bytes and Go's view of them.
func encode(t testing.TB, table *phasetable.Table) ([]byte, *phasetable.View) {
	t.Helper()
	data, err := phasetable.Encode(table)
	if err != nil {
		t.Fatal(err)
	}
	view, err := phasetable.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return data, view
}

// write puts bytes into a file of the test.
func write(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "phases.bin")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
