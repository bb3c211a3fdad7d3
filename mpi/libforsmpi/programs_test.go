package libforsmpi

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
)

// file writes a plan's table.
func file(t testing.TB, made *planner.Result) string {
	t.Helper()
	data, err := phasetable.Encode(made.Table(42))
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "phases.bin", data)
}

// small is a table for 12 servers, one cable short.
func small(t testing.TB) string {
	return file(t, plan(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}, cable{0, 0}))
}

// began counts the exchanges that ranks began by a plan.
func began(logs [][]line) (n int) {
	for _, log := range logs {
		for _, l := range log {
			if l.what == "begin" {
				n++
			}
		}
	}
	return n
}

// TestPrograms runs programs that check their results themselves, and counts the
// exchanges that they made by the plan.
func TestPrograms(t *testing.T) {
	for _, mpi := range []string{"", mpich} {
		t.Run("MPI"+mpi, func(t *testing.T) { runPrograms(t, mpi) })
	}
}

func runPrograms(t *testing.T, mpi string) {
	shim := builtFor(t, mpi, "mpifort"+mpi)
	const ranks = 6
	table := small(t)
	for _, c := range []struct {
		name     string
		compiler []string
		args     []string
		want     string
		began    int // by each rank
	}{
		{"mpif.h", []string{"mpifort", "-w", "-fallow-argument-mismatch", "testdata/fortran.F90"}, nil, "wrong: 0\n", 6},
		{"use mpi", []string{"mpifort", "-DMPI", "testdata/fortran.F90"}, nil, "wrong: 0\n", 6},
		{"use mpi_f08", []string{"mpifort", "-DMPI_F08", "testdata/fortran.F90"}, nil, "wrong: 0\n", 7},
		{"threads", []string{"mpicc", "-pthread", "testdata/threads.c"}, []string{"10"}, "wrong: 0\n", 40},
		{"errors", []string{"mpicc", "testdata/errors.c"}, nil, "called: 3, strange: 0, type error returned: 1\nwrong: 0\n", 2},
		{"lives", []string{"mpicc", "testdata/lives.c"}, nil, "wrong: 0\n", 11},
		{"eventbuilder", []string{"mpicc", "../../examples/eventbuilder.c"}, []string{"-n", "5", "-b", "100000"}, "lost 0, doubled 0, damaged 0\n", 10},
		{"alltoall_bench", []string{"mpicc", "../../examples/alltoall_bench.c"}, []string{"-n", "1", "100"}, "wrong bytes: 0\n", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			program := compile(t, c.compiler[0]+mpi, c.compiler[1:]...)
			log := t.TempDir()
			j := job{mpi: mpi, ranks: ranks, command: append([]string{program}, c.args...)}
			out, stderr := j.with(shim, table, "FORS_LOG="+log).run(t)
			if !strings.HasSuffix(out, c.want) || stderr != "" {
				t.Errorf("it prints %q, and errors %q; want %q", out, stderr, c.want)
			}
			logs := readLogs(t, log, ranks)
			checkEpochs(t, logs)
			checkPairs(t, logs)
			if n := began(logs); n != ranks*c.began {
				t.Errorf("%d exchanges were begun, not %d by each of %d ranks", n, c.began, ranks)
			}
		})
	}
}

// TestExports checks that the shim intercepts MPI's all-to-alls and nothing else, because
// it is in every process of a job.
func TestExports(t *testing.T) {
	ours := regexp.MustCompile(`^(MPI_Alltoall[vw]?|mpi_alltoall[vw]?(_|__|_f08_)?|MPI_ALLTOALL[VW]?)$`)
	found := map[string]bool{}
	for line := range strings.Lines(programs.Output(t, "nm", "-D", "--defined-only", needs(t, "nm"))) {
		name := strings.Fields(line)[2]
		if found[name] = true; !ours.MatchString(name) {
			t.Errorf("it exports %s", name)
		}
	}
	for _, name := range []string{"MPI_Alltoall", "MPI_Alltoallv", "MPI_Alltoallw", "mpi_alltoall_", "mpi_alltoallv_", "mpi_alltoallw_f08_"} {
		if !found[name] {
			t.Errorf("it does not export %s", name)
		}
	}
}

// TestWithoutPlan runs the same job without a table, with a table that lacks its hosts, and
// with a wrong environment. The output does not change, and one line gives the reason.
func TestWithoutPlan(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "testdata/exchanges.c")
	plain := job{ranks: 5, mca: linear, command: []string{program, "7", "12"}}
	want, _ := plain.run(t)
	table := small(t)
	servers := write(t, "servers", []byte("Hca0000\nHca0001\n"))
	for _, c := range []struct {
		name, table string
		env         []string
		warning     string
	}{
		{"no daemon", "unix:" + filepath.Join(scratch, "none"), nil, "connect to unix:.*: No such file or directory"},
		{"no file", filepath.Join(scratch, "none.bin"), nil, "none.bin: No such file or directory"},
		{"no table", program, nil, "does not begin with FORSDPHT"},
		{"pinned", table, []string{"FORS_LIDS="}, "phases.bin: the plan of epoch 42 sends to LIDs of lanes: a program that sends to base LIDs needs the base plan, base.bin"},
		{"unknown host", table, []string{"FORS_SERVER="}, "epoch 42, rank [0-4]: host .* is not in the table: name its server by FORS_SERVER or FORS_SERVER_MAP"},
		{"unknown server", table, []string{"FORS_SERVER=Hca%r9"}, "epoch 42, rank [0-4]: .*Hca[0-4]9.*"},
		{"wrong template", table, []string{"FORS_SERVER=Hca%x"}, "rank [0-4]: FORS_SERVER=Hca%x has a % before something else than h, r, l or %"},
		{"short map", table, []string{"FORS_SERVER_MAP=" + servers}, "rank [2-4]: FORS_SERVER_MAP=.*servers has no line for this rank"},
		{"no map", table, []string{"FORS_SERVER_MAP=" + servers + "x"}, "rank [0-4]: FORS_SERVER_MAP=.*serversx cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := t.TempDir()
			out, stderr := plain.with(shim, c.table, append(c.env, "FORS_LOG="+log)...).run(t)
			if out != want {
				t.Errorf("it prints %q, not %q", out, want)
			}
			if ok, _ := regexp.MatchString("^libforsmpi: .*"+c.warning+".*; exchanges go without a plan, by MPI's own algorithms\n$", stderr); !ok && c.name != "short map" {
				t.Errorf("errors %q, want one line with %q", stderr, c.warning)
			} else if ok, _ := regexp.MatchString(c.warning, stderr); !ok {
				t.Errorf("errors %q, want %q", stderr, c.warning)
			}
			files, _ := os.ReadDir(log)
			if c.name != "short map" && len(files) > 0 {
				t.Errorf("exchanges were logged: %v", files)
			}
		})
	}
}

// TestSilent has a forsd that accepts connections and never answers: of five processes, each
// of which leads communicators, one waits for it, and all hear of it.
func TestSilent(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "-pthread", "testdata/communicators.c")
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			defer conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close() })
	j := job{ranks: 5, command: []string{program, "orders", "60"}}
	out, stderr := j.alone(shim, "unix:"+socket+"?timeout=200").run(t)
	if out != "wrong: 0\n" || !strings.Contains(stderr, "no whole answer within 200 ms") {
		t.Errorf("it prints %q, and errors %q", out, stderr)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("forsd was asked %d times", n)
	}
}

// TestSettings runs exchanges with each setting, and with several processes on a
// server.
func TestSettings(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "testdata/exchanges.c")
	made := plan(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}, cable{0, 0})
	table := file(t, made)
	var uneven strings.Builder
	for _, s := range []int{5, 0, 5, 11, 5, 0, 7, 3, 5, 7, 2, 1} {
		fmt.Fprintf(&uneven, "Hca%04d\n", s)
	}
	plain := job{ranks: 12, mca: linear, command: []string{program, "8", "20"}}
	want, _ := plain.run(t)
	for _, c := range []struct {
		name   string
		env    []string
		stderr string
		begun  int // at least
	}{
		{"by links", nil, "^$", 100},
		{"none", []string{"FORS_SYNC=none"}, "^$", 100},
		{"barrier", []string{"FORS_SYNC=barrier"}, "^$", 100},
		{"every third", []string{"FORS_SYNC=3"}, "^$", 100},
		{"mistaken", []string{"FORS_SYNC=often"}, "^(libforsmpi: FORS_SYNC=often is not understood and ignored\n)$", 100},
		{"verbose", []string{"FORS_VERBOSE=1"}, "libforsmpi: communicator 0, exchange 0: epoch 42, 12 servers, 1[1-9] phases\n", 100},
		{"several on a server", []string{"FORS_SERVER_MAP=" + write(t, "servers", []byte(uneven.String()))}, "^$", 100},
		{"all on one server", []string{"FORS_SERVER=Hca0003"}, "^$", 0},
		{"by GUID", []string{"FORS_SERVER_MAP=" + guids(t, made)}, "^$", 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := t.TempDir()
			out, stderr := plain.with(shim, table, append(c.env, "FORS_LOG="+log)...).run(t)
			if out != want {
				t.Errorf("it prints %q, not %q", out, want)
			}
			if ok, _ := regexp.MatchString(c.stderr, stderr); !ok {
				t.Errorf("errors %q, want %q", stderr, c.stderr)
			}
			if c.begun == 0 {
				if files, _ := os.ReadDir(log); len(files) > 0 {
					t.Errorf("exchanges were logged: %v", files)
				}
				return
			}
			logs := readLogs(t, log, plain.ranks)
			checkEpochs(t, logs)
			checkPairs(t, logs)
			if n := began(logs); n < c.begun {
				t.Errorf("%d exchanges were begun, not %d", n, c.begun)
			}
			if walked := checkLinks(t, logs, 42, made.Tree.Fabric, made.Tables); walked == 0 {
				t.Error("nothing was sent from server to server")
			}
			if !strings.Contains(strings.Join(c.env, " "), "FORS_SYNC") {
				if waits := checkOrder(t, logs, 42, made.Tree.Fabric, made.Tables); waits == 0 {
					t.Error("no transfer waits for another")
				}
			}
		})
	}
}

// TestPart has a part of the servers exchange: in steps of its own, which are hardly more than each
// of them needs, and in which no link carries two transfers; where lanes share cables, in the
// table's phases.
func TestPart(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "testdata/exchanges.c")
	made := plan(t, fabgen.Spec{Spines: 5, Leaves: 6, LMC: 3}, cable{0, 0})
	var servers strings.Builder
	for r := range 10 {
		fmt.Fprintf(&servers, "Hca%04d\n", 3*r%30)
	}
	shared := made.Table(42)
	shared.OwnCables = false
	data, err := phasetable.Encode(shared)
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string]string{"own cables": file(t, made), "shared": write(t, "phases.bin", data)} {
		log := t.TempDir()
		j := job{ranks: 10, mca: linear, command: []string{program, "5", "12"}}
		if out, stderr := j.with(shim, table, "FORS_SERVER_MAP="+write(t, "servers", []byte(servers.String())), "FORS_LOG="+log).run(t); !strings.HasSuffix(out, "differences: 0\n") || stderr != "" {
			t.Errorf("%s: it prints %q, and errors %q", name, out, stderr)
		}
		logs := readLogs(t, log, j.ranks)
		checkEpochs(t, logs)
		checkPairs(t, logs)
		if walked := checkLinks(t, logs, 42, made.Tree.Fabric, made.Tables); walked == 0 {
			t.Errorf("%s: nothing was sent from server to server", name)
		}
		checkOrder(t, logs, 42, made.Tree.Fabric, made.Tables)
		steps := 0
		for _, log := range logs {
			for _, l := range log {
				steps = max(steps, l.step+1)
			}
		}
		if own := steps <= 12; own != (name == "own cables") {
			t.Errorf("%s: 10 servers exchange in %d steps", name, steps)
		}
	}
}

// TestBaseLIDs follows a plan for base LIDs by default, also if the setting cannot be
// understood.
func TestBaseLIDs(t *testing.T) {
	shim := needs(t)
	table := file(t, plan(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2})) // healthy: it has base LIDs alone
	program := compile(t, "mpicc", "testdata/exchanges.c")
	for lids, want := range map[string]string{
		"":      "^libforsmpi: .*: epoch 42, a plan for base LIDs\n",
		"lanes": "libforsmpi: FORS_LIDS=lanes is not understood and ignored: want base or pinned\n",
	} {
		j := job{ranks: 6, mca: linear, command: []string{program, "8", "5"}}
		_, stderr := j.with(shim, table, "FORS_LIDS="+lids, "FORS_VERBOSE=1").run(t)
		if ok, _ := regexp.MatchString(want, stderr); !ok || !strings.Contains(stderr, "exchange 0: epoch 42, 6 servers") {
			t.Errorf("FORS_LIDS=%s: errors %q, want %q", lids, stderr, want)
		}
	}
}

// TestPaced runs the example that exchanges by a clock with messages of its own.
func TestPaced(t *testing.T) {
	table := file(t, plan(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}))
	library, err := filepath.Glob("../libfors/src/*.c")
	if err != nil {
		t.Fatal(err)
	}
	program := compile(t, "mpicc", slices.Concat([]string{"-D_GNU_SOURCE", "-I../libfors", "../../examples/paced.c"}, library)...)
	j := job{ranks: 6, env: []string{"FORSD_TABLE=" + table}, command: []string{program, "-b", "4096", "-n", "60"}}
	out, stderr := j.run(t)
	if !regexp.MustCompile(`^60 exchanges of 11 phases, \S+ µs a phase, \S+ MB/s a rank, wrong blocks: 0\n$`).MatchString(out) || stderr != "" {
		t.Errorf("it prints %q, and errors %q", out, stderr)
	}
	j.env = []string{"FORSD_TABLE=" + small(t)}
	r, err := j.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err == nil || !strings.Contains(r.err.String(), "the plan of epoch 42 sends to LIDs of lanes") {
		t.Errorf("with a plan for lanes: %v, errors %q", err, r.err.String())
	}
}

// TestSanitizers runs exchanges, also by several threads, with the shim built for the
// sanitizers: they end a process at the first access that is out of bounds and at
// undefined behaviour. Leaks are for TestMemory, which finds their owner.
func TestSanitizers(t *testing.T) {
	needs(t)
	dir := filepath.Join(scratch, "sanitized")
	programs.Output(t, "make", "-s", "out="+dir, "CFLAGS=-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all")
	asan := strings.TrimSpace(programs.Output(t, "gcc", "-print-file-name=libasan.so"))
	preload := asan + ":" + filepath.Join(dir, "libforsmpi.so") // the sanitizer's library must come first
	table, n := small(t), "10"
	if os.Getenv("FORS_LONG") != "" {
		n = "32"
	}
	for _, c := range []struct {
		command []string
		want    string
	}{
		{[]string{compile(t, "mpicc", "testdata/exchanges.c"), "10", n, "gaps"}, "differences: 0\n"},
		{[]string{compile(t, "mpicc", "-pthread", "testdata/threads.c"), "5"}, "wrong: 0\n"},
		{[]string{compile(t, "mpicc", "testdata/errors.c")}, "type error returned: 1\nwrong: 0\n"},
	} {
		j := job{ranks: 6, mca: linear, command: c.command}
		out, stderr := j.with(preload, table, "FORS_LOG="+t.TempDir(), "ASAN_OPTIONS=detect_leaks=0").run(t)
		if !strings.HasSuffix(out, c.want) || stderr != "" {
			t.Errorf("%v prints %q, and errors %q", c.command, out, stderr)
		}
	}
}

// TestPairsWithoutPath exchanges in a fabric in which two leaves share no lane. Their pairs
// have no phase; MPI delivers their blocks after the others'.
func TestPairsWithoutPath(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "testdata/exchanges.c")
	made := plan(t, fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1}, cable{0, 0}, cable{1, 1})
	leaf := map[ib.GUID]int{}
	for _, s := range made.Table(42).Servers {
		leaf[s.GUID] = s.Leaf
	}
	log := t.TempDir()
	j := job{ranks: 6, mca: linear, command: []string{program, "11", "16", "gaps"}}
	if out, stderr := j.with(shim, file(t, made), "FORS_LOG="+log).run(t); !strings.HasSuffix(out, "differences: 0\n") || stderr != "" {
		t.Errorf("it prints %q, and errors %q", out, stderr)
	}
	logs := readLogs(t, log, j.ranks)
	checkEpochs(t, logs)
	checkPairs(t, logs)
	unplanned := 0
	for _, log := range logs {
		late := false
		for _, l := range log {
			apart := leaf[l.srcGUID] != leaf[l.dstGUID] && leaf[l.srcGUID] < 2 && leaf[l.dstGUID] < 2
			switch {
			case l.what == "begin":
				late = false
			case l.what == "end":
			case apart != (l.phase < 0):
				t.Fatalf("%+v between leaves %d and %d", l, leaf[l.srcGUID], leaf[l.dstGUID])
			case apart:
				late = true
				unplanned++
			case late:
				t.Fatalf("%+v comes after a pair without a phase", l)
			}
		}
	}
	if unplanned == 0 {
		t.Error("no pair was without a phase")
	}
}

// TestSpawned exchanges among processes of which some were started by others: each
// have an MPI_COMM_WORLD of their own, and their ranks 0 know the plan.
func TestSpawned(t *testing.T) {
	shim := needs(t)
	j := job{ranks: 3, tcp: true, command: []string{compile(t, "mpicc", "testdata/lives.c"), "spawn"}}
	out, stderr := j.with(shim, small(t), "FORS_VERBOSE=1").run(t)
	if out != "wrong: 0\nwrong: 0\n" || strings.Count(stderr, ", 3 servers, ") != 2 || strings.Count(stderr, ", 2 servers, ") != 1 {
		t.Errorf("it prints %q, and errors %q", out, stderr)
	}
}

// TestPairTwice exchanges by a table in which each pair has two phases: its blocks go
// in the first of them, once.
func TestPairTwice(t *testing.T) {
	shim := needs(t)
	program := compile(t, "mpicc", "testdata/exchanges.c")
	table := plan(t, fabgen.Spec{Spines: 2, Leaves: 3, LMC: 1}, cable{0, 0}).Table(42)
	phases := table.Phases
	table.Phases *= 2
	table.To, table.Lane, table.DLID = append(table.To, table.To...), append(table.Lane, table.Lane...), append(table.DLID, table.DLID...)
	data, err := phasetable.Encode(table)
	if err != nil {
		t.Fatal(err)
	}
	log := t.TempDir()
	j := job{ranks: 6, mca: linear, command: []string{program, "13", "32", "gaps"}}
	if out, stderr := j.with(shim, write(t, "phases.bin", data), "FORS_LOG="+log).run(t); !strings.HasSuffix(out, "differences: 0\n") || stderr != "" {
		t.Errorf("it prints %q, and errors %q", out, stderr)
	}
	logs := readLogs(t, log, j.ranks)
	checkPairs(t, logs)
	for _, log := range logs {
		for _, l := range log {
			if l.phase >= phases {
				t.Fatalf("%+v: phase %d is for a pair that has had one before", l, l.phase)
			}
		}
	}
}

// guids writes a map that names servers by their GUIDs, the last first.
func guids(t testing.TB, made *planner.Result) string {
	t.Helper()
	var text strings.Builder
	servers := made.Table(42).Servers
	for i := range servers {
		fmt.Fprintln(&text, servers[len(servers)-1-i].GUID)
	}
	return write(t, "servers", []byte(text.String()))
}

// TestMemory runs exchanges under valgrind. The shim makes no access out of bounds or to
// uninitialised memory, and leaks none of its own memory. Memory that MPI allocates for its
// calls and leaks is MPI's. A rank that died in Open MPI (one did in ompi_comm_free) has the
// exchanges run once more: the reports of both runs are read.
func TestMemory(t *testing.T) {
	shim := needs(t, "valgrind")
	dir := t.TempDir()
	program := compile(t, "mpicc", "testdata/exchanges.c")
	j := job{ranks: 4, mca: linear, command: []string{program, "9", "24", "gaps"}, wrap: []string{"valgrind", "-q", "--leak-check=full",
		"--show-leak-kinds=definite", "--suppressions=/usr/share/openmpi/openmpi-valgrind.supp", "--log-file=" + filepath.Join(dir, "%p")}}
	j = j.with(shim, small(t), "FORS_LOG="+dir)
	out := j.attempt(t)
	if strings.Contains(out, "Segmentation fault") {
		t.Logf("%s; valgrind says:\n%s", out, reports(t, dir, j.ranks))
		out, _ = j.run(t)
	}
	if !strings.HasSuffix(out, "differences: 0\n") {
		t.Errorf("it prints %q", out)
	}
	sources, err := filepath.Glob("src/*.c")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range sources {
		names = append(names, regexp.QuoteMeta(filepath.Base(s)))
	}
	ours := regexp.MustCompile(`\((` + strings.Join(names, "|") + `):\d+\)`)
	// MPI's own leaks, and what its own exchange does with the program's arguments: Open
	// MPI 4.1 writes outside its buffers where a rank sends itself blocks with gaps.
	theirs := regexp.MustCompile(`definitely lost in .*\n.*: (m|c|re)alloc \(in .*\n.*libmpi\.so|: PMPI_Alltoall[vw]? \(in .*libmpi\.so.*\n.*: fm_alltoall[vw]? \(wrap\.c:`)
	blank := regexp.MustCompile(`(?m)^==\d+== *\n`)
	for _, block := range blank.Split(reports(t, dir, j.ranks), -1) {
		if ours.MatchString(block) && !theirs.MatchString(block) {
			t.Errorf("valgrind says:\n%s", block)
		}
	}
}

// reports are valgrind's reports of at least so many ranks.
func reports(t *testing.T, dir string, ranks int) string {
	paths, err := filepath.Glob(filepath.Join(dir, "[0-9]*"))
	if err != nil || len(paths) < ranks {
		t.Fatalf("reports of valgrind: %v, %v", paths, err)
	}
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
