// Package libforslanes tests the library that puts lanes into address vectors: on a libibverbs
// of one port, which prints its arguments, and on the software adapter under Open MPI.
package libforslanes

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
	"github.com/forsd/forsd/topology"
)

var scratch string

func TestMain(m *testing.M) { programs.Scratch(m, &scratch) }

// libraries builds the libraries and the programs of testdata, once for all tests.
var libraries = sync.OnceValue(func() error {
	if err := programs.Sources("Makefile", "libforslanes.map", "src/*", "testdata/*", "../launch.h", "../libfors/fors.h", "../libfors/src/*"); err != nil {
		return err
	}
	strict := []string{"-O1", "-g", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"}
	stub := filepath.Join(scratch, "stub")
	if err := os.Mkdir(stub, 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{
		append([]string{"-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", "-Wl,--version-script=testdata/verbs.map",
			"-o", filepath.Join(stub, "libibverbs.so.1"), "testdata/verbs.c"}, strict...),
		append([]string{"-o", filepath.Join(scratch, "caller"), "testdata/caller.c", filepath.Join(stub, "libibverbs.so.1"), "-ldl"}, strict...),
		append([]string{"-o", filepath.Join(scratch, "load"), "testdata/load.c", "-ldl"}, strict...),
	} {
		if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("cc %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return built.Make(context.Background(), "mpi/libforslanes", scratch, "CFLAGS=-O2 -g -Werror")
})

// needs skips a test if a program that it runs is not installed.
func needs(t testing.TB, names ...string) {
	t.Helper()
	programs.Needs(t, append(names, "make", "cc")...)
	if err := libraries(); err != nil {
		t.Fatal(err)
	}
}

func preload() string  { return filepath.Join(scratch, "libforslanes.so") }
func provider() string { return filepath.Join(scratch, "libforslanes-nccl.so") }

// plan is a plan for a fat tree of which cables are dead, by leaf and lane.
func plan(t testing.TB, spec fabgen.Spec, dead ...[2]int) (*topology.Fabric, *planner.Result) {
	t.Helper()
	tree := fabgen.Damaged(t, spec, dead...)
	made, err := planner.Make(context.Background(), tree, planner.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return tree.Fabric, made
}

// table writes a phase table into a file, and returns a view of it.
func table(t testing.TB, path string, of *phasetable.Table) *phasetable.View {
	t.Helper()
	data, err := phasetable.Encode(of)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	v, err := phasetable.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// caller runs the program of testdata on the port of a server.
type caller struct {
	port      string // see verbs.c
	table     string
	env       []string
	library   string   // in which it looks verbs up; "": libforslanes is preloaded
	untouched bool     // nothing is preloaded
	check     []string // goes before the command
	first     string   // preloaded before the library
	dir       string   // where both were built; "" means scratch
}

// on is the port of a server.
func on(s phasetable.ServerEntry) string {
	return fmt.Sprintf("1 %d %d %x", s.LID, s.LMC, uint64(s.GUID))
}

func (c caller) run(t testing.TB, orders ...string) (out, stderr string) {
	t.Helper()
	return c.answered(t, orders, func(string) {})
}

// answered does the same, and calls a function with each line of output.
func (c caller) answered(t testing.TB, orders []string, each func(string)) (out, stderr string) {
	t.Helper()
	dir := cmp.Or(c.dir, scratch)
	command := append(slices.Clone(c.check), filepath.Join(dir, "caller"))
	cmd := exec.Command(command[0], command[1:]...)
	if c.library != "" {
		cmd.Args = append(cmd.Args, c.library)
	}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "FORS") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+filepath.Join(scratch, "stub"), "PORT="+c.port)
	if c.table != "" {
		cmd.Env = append(cmd.Env, "FORSD_TABLE="+c.table)
	}
	if c.library == "" && !c.untouched {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+c.first+" "+filepath.Join(dir, "libforslanes.so"))
	}
	cmd.Env = append(cmd.Env, c.env...)
	var said, errs strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(strings.Join(orders, "\n")+"\n"), &errs
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		each(lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, said.String(), errs.String())
	}
	return said.String(), errs.String()
}

// TestLanes makes each server of a tree with dead cables connect to each other one, and
// make an address handle for it: the adapter gets the lane of the pair, mirrored by the
// peer, and the program sees the values that it has set. It does so with the library
// preloaded, and with a program that looks verbs up in the library for NCCL.
func TestLanes(t *testing.T) {
	needs(t)
	_, made := plan(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}, [2]int{0, 0}, [2]int{1, 2})
	path := filepath.Join(t.TempDir(), "phases.bin")
	v := table(t, path, made.Table(42))
	moved := 0
	type ends struct{ dlid, slid ib.LID }
	seen := map[[2]int]ends{}
	for s := range v.Servers() {
		me := v.Server(s)
		var orders, want []string
		for peer := range v.Servers() {
			p, ok := v.FindPair(s, peer)
			if !ok {
				continue
			}
			to := v.Server(peer).LID
			seen[[2]int{s, peer}] = ends{p.DLID, me.LID + ib.LID(p.SrcPathBits)}
			if p.DLID != to || p.SrcPathBits != 0 {
				moved++
			}
			behind := fmt.Sprintf("behind %d %d", p.DLID, p.SrcPathBits)
			orders = append(orders, fmt.Sprintf("rtr %d %d 0", peer, to), fmt.Sprintf("query %d", peer),
				fmt.Sprintf("ah %d 0 0", to), fmt.Sprintf("ah %d 0 %x", to, uint64(v.Server(peer).GUID)),
				fmt.Sprintf("rtr %d %d 1", peer, to+1), fmt.Sprintf("query %d", peer)) // a program that spreads over its LIDs
			want = append(want, behind, fmt.Sprintf("query %d 0", to), behind, behind, behind, fmt.Sprintf("query %d 1", to+1))
		}
		for _, library := range []string{"", provider()} {
			out, stderr := caller{port: on(me), table: path, library: library}.run(t, append(orders, "fork")...)
			if wanted := strings.Join(append(want, "fork"), "\n") + "\n"; out != wanted || stderr != "" {
				t.Fatalf("server %d, library %q: %s%s\nwant %s", s, library, out, stderr, wanted)
			}
		}
	}
	for pair, e := range seen {
		if back := seen[[2]int{pair[1], pair[0]}]; back.dlid != e.slid || back.slid != e.dlid {
			t.Errorf("pair %v: %v, and its peer %v", pair, e, back)
		}
	}
	if moved < len(seen)/3 {
		t.Errorf("only %d of %d pairs have another lane than that of base LIDs", moved, len(seen))
	}
}

// TestLeftAlone makes calls that must stay unchanged, on a port of the table.
func TestLeftAlone(t *testing.T) {
	needs(t)
	_, made := plan(t, fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1}, [2]int{0, 0})
	path := filepath.Join(t.TempDir(), "phases.bin")
	v := table(t, path, made.Table(42))
	me := v.Server(0)
	other, found := 0, false
	for ; !found; other++ { // one over another lane
		p, ok := v.FindPair(0, other)
		found = ok && p.DLID != v.Server(other).LID
	}
	other--
	to := v.Server(other)
	p, _ := v.FindPair(0, other)
	out, stderr := caller{port: on(me), table: path}.run(t,
		fmt.Sprintf("rtr 0 %d 0", me.LID+1), // to itself
		"rtr 0 30000 1",                     // no server
		"ah 49152 0 0",                      // multicast
		fmt.Sprintf("ah %d 0 1234", to.LID), // beyond a router
		fmt.Sprintf("bad 1 %d 0", to.LID),   // fails: there is nothing to hide from a query
		"query 1",
		fmt.Sprintf("rtr 2 %d 0", to.LID), "reset 2", "query 2", // the result of a query after that is the adapter's
		fmt.Sprintf("rtr 3 %d 0", to.LID), "destroy 3", "query 3")
	lane := fmt.Sprintf("%d %d", p.DLID, p.SrcPathBits)
	want := fmt.Sprintf("behind %d 0\nbehind 30000 1\nbehind 49152 0\nbehind %d 0\nbehind %s\nquery %s\nbehind %s\nquery %s\nbehind %s\nquery %s\n", me.LID+1, to.LID,
		lane, lane, lane, lane, lane, lane)
	if out != want || stderr != "" {
		t.Errorf("%s%s\nwant %s", out, stderr, want)
	}
}

// TestOneWay uses a table in which a pair occurs one way only: its other end mirrors it.
func TestOneWay(t *testing.T) {
	needs(t)
	_, made := plan(t, fabgen.Spec{Spines: 4, Leaves: 2, LMC: 2}, [2]int{0, 0})
	whole := made.Table(42)
	n := len(whole.Servers)
	for p := range whole.Phases {
		for s := n / 2; s < n; s++ { // the second leaf sends nothing
			whole.To[p*n+s], whole.Lane[p*n+s], whole.DLID[p*n+s] = phasetable.Idle, phasetable.Local, 0
		}
	}
	path := filepath.Join(t.TempDir(), "phases.bin")
	v := table(t, path, whole)
	for s := range n / 2 {
		for peer := n / 2; peer < n; peer++ {
			p, ok := v.FindPair(s, peer)
			a, b := v.Server(s), v.Server(peer)
			if !ok || p.SrcPathBits != 0 {
				t.Fatalf("pair %d, %d: %v %+v", s, peer, ok, p)
			}
			out, _ := caller{port: on(b), table: path}.run(t, fmt.Sprintf("rtr 0 %d 0", a.LID))
			if want := fmt.Sprintf("behind %d %d\n", a.LID, p.DLID-b.LID); out != want {
				t.Errorf("%d to %d: %s, want %s", peer, s, out, want)
			}
		}
	}
}

// TestInert checks that the library does nothing, and prints the reason in one line.
func TestInert(t *testing.T) {
	needs(t)
	_, made := plan(t, fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1}, [2]int{0, 0})
	path := filepath.Join(t.TempDir(), "phases.bin")
	v := table(t, path, made.Table(42))
	me, damaged := v.Server(0), filepath.Join(t.TempDir(), "damaged.bin")
	if err := os.WriteFile(damaged, v.Bytes()[:300], 0o644); err != nil {
		t.Fatal(err)
	}
	var orders []string
	for peer := range v.Servers() {
		to := v.Server(peer).LID
		orders = append(orders, fmt.Sprintf("rtr %d %d 0", peer, to), fmt.Sprintf("query %d", peer), fmt.Sprintf("ah %d 1 0", to), fmt.Sprintf("destroy %d", peer))
	}
	plain, _ := caller{port: on(me), untouched: true}.run(t, orders...)
	for _, c := range []struct {
		name string
		caller
		says string // "": nothing
	}{
		{"no forsd", caller{port: on(me), env: []string{"FORSD_TABLE="}}, "/run/forsd/forsd.sock"},
		{"no file", caller{port: on(me), table: path + "x"}, path + "x"},
		{"a damaged file", caller{port: on(me), table: damaged}, damaged},
		{"Ethernet", caller{port: "2" + on(me)[1:], table: path}, "port 1 of sim0 is Ethernet"},
		{"another LMC", caller{port: fmt.Sprintf("1 %d 0 %x", me.LID, uint64(me.GUID)), table: path}, "LMC 0, and in the table"},
		{"another LID", caller{port: fmt.Sprintf("1 %d %d %x", me.LID+2, me.LMC, uint64(me.GUID)), table: path}, "and in the table LID"},
		{"no server", caller{port: fmt.Sprintf("1 %d %d 77", me.LID, me.LMC), table: path}, "GUID 0x0000000000000077, is not in the table"},
		{"not the first", caller{port: on(me), table: path + "x", env: []string{"OMPI_COMM_WORLD_RANK=3"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, stderr := c.run(t, orders...)
			if out != plain {
				t.Errorf("%s\nwithout the library %s", out, plain)
			}
			lines := strings.Count(stderr, "\n")
			if c.says == "" && stderr != "" || c.says != "" && (lines != 1 || !strings.Contains(stderr, c.says) || !strings.HasSuffix(stderr, "connections go to the LIDs that the program has\n")) {
				t.Errorf("it says %q", stderr)
			}
		})
	}
	out, err := exec.Command("env", "LD_PRELOAD="+preload(), "FORSD_TABLE=/nowhere", "FORS_VERBOSE=1", "echo", "here").CombinedOutput()
	if string(out) != "here\n" || err != nil {
		t.Errorf("a program without verbs: %s, %v", out, err)
	}
}

// TestNewEpoch replaces the table of a process with connections: they stay, and the library
// reports how many of them have another lane in the new plan.
func TestNewEpoch(t *testing.T) {
	needs(t)
	spec := fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}
	_, before := plan(t, spec, [2]int{0, 0})
	_, after := plan(t, spec, [2]int{0, 0}, [2]int{1, 2})
	dir := t.TempDir()
	was := table(t, filepath.Join(dir, "phases.bin"), before.Table(42))
	is := table(t, filepath.Join(dir, "next.bin"), after.Table(43))
	const s = 0
	me := was.Server(s)
	orders, all, other := []string{}, 0, 0
	for peer := range was.Servers() {
		p, ok := was.FindPair(s, peer)
		if !ok {
			continue
		}
		all++
		if q, _ := is.FindPair(s, peer); q.DLID != p.DLID || q.SrcPathBits != p.SrcPathBits {
			other++
		}
		orders = append(orders, fmt.Sprintf("rtr %d %d 0", peer, was.Server(peer).LID))
	}
	if other == 0 || other == all {
		t.Fatalf("%d of %d pairs change", other, all)
	}
	plain, _ := caller{port: on(me), table: filepath.Join(dir, "phases.bin")}.run(t, orders...)
	orders = append(orders, "replace", "sleep") // an unknown order is answered
	cmd := caller{port: on(me), table: filepath.Join(dir, "phases.bin"), env: []string{"FORS_VERBOSE=1"}}
	orders = append(orders, orders[:all]...)
	first := true
	out, stderr := cmd.answered(t, orders, func(line string) {
		if first && strings.HasPrefix(line, "failed: replace") {
			first = false
			if err := os.Rename(filepath.Join(dir, "next.bin"), filepath.Join(dir, "phases.bin")); err != nil {
				t.Error(err)
			}
		}
	})
	if want := plain + "failed: replace\n" + plain; out != want {
		t.Errorf("%s\nwant %s", out, want)
	}
	for _, want := range []string{
		fmt.Sprintf("libforslanes: %s: epoch 42, %d servers, 4 lanes\n", filepath.Join(dir, "phases.bin"), was.Servers()),
		fmt.Sprintf("libforslanes: epoch 43: %d of %d connections are not on its lanes\n", other, all),
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("it says %s\nwant %s", stderr, want)
		}
	}
}
