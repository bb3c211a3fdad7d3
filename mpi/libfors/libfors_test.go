// Package libfors tests the C library that reads phase tables: a C program is
// linked with it, under the sanitizers, and told what to do line by line; what it
// answers is compared with what Go reads.
package libfors

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"forsd/internal/fabgen"
	"forsd/phasetable"
	"forsd/planner"
	"forsd/topology"
)

// The flags of a strict compiler, and those under which it finds every access
// that is out of bounds.
var (
	strict    = []string{"-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I."}
	sanitized = append([]string{"-fsanitize=address,undefined", "-fno-sanitize-recover=all"}, strict...)
)

// link compiles a C program with the library's sources into a directory.
func link(dir, program string, flags []string) (string, error) {
	bin := filepath.Join(dir, strings.TrimSuffix(filepath.Base(program), ".c"))
	sources, err := filepath.Glob("src/*.c")
	if err != nil {
		return "", err
	}
	args := slices.Concat([]string{"-o", bin}, flags, sources, []string{program})
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc %v: %w\n%s", args, err, out)
	}
	return bin, nil
}

// compile is link for one test.
func compile(t testing.TB, program string, flags ...string) string {
	t.Helper()
	bin, err := link(t.TempDir(), program, flags)
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// sanitizedProbe is the probe that most tests share.
var sanitizedProbe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "libfors")
	if err != nil {
		return "", err
	}
	return link(dir, "testdata/probe.c", sanitized)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := sanitizedProbe(); err == nil {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// probe is a running testdata/probe.c.
type probe struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err strings.Builder // what the sanitizers said
}

// start runs the probe under the sanitizers.
func start(t testing.TB) *probe {
	t.Helper()
	bin, err := sanitizedProbe()
	if err != nil {
		t.Fatal(err)
	}
	return run(t, bin)
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

// plan is the table of a true plan: a fat tree with so many dead cables on its
// first leaf.
func plan(t testing.TB, spines, leaves, dead int, lmc uint8) *phasetable.Table {
	t.Helper()
	fabric := fabgen.Generate(fabgen.Spec{Spines: spines, Leaves: leaves, LMC: lmc})
	base, err := topology.NewBaseline(fabric)
	if err != nil {
		t.Fatal(err)
	}
	for p := range dead {
		fabric.Disconnect(topology.PortRef{Node: fabric.Find(fabgen.LeafGUID), Port: uint8(spines + 1 + p)})
	}
	tree, err := topology.Fit(fabric, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := planner.Make(tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Table(42)
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
