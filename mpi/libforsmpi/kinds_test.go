package libforsmpi

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestCommunicators makes as many communicators as MPI allows without the shim: 1500 of
// the 2048 that MPICH has, and exchanges on each.
func TestCommunicators(t *testing.T) {
	table := small(t)
	for _, c := range []struct {
		mpi, mode string
		ranks, n  int
		begun     int // exchanges by the plan on each rank
	}{
		{mpich, "duplicates", 2, 1500, 1501},
		{mpich, "threads", 3, 20, 21},
		{"", "duplicates", 6, 200, 201},
		{"", "orders", 5, 80, 64}, // of which there are 120, each a group of its own
		{"", "threads", 6, 40, 41},
	} {
		t.Run(c.mode+c.mpi, func(t *testing.T) {
			shim := builtFor(t, c.mpi)
			program := compile(t, "mpicc"+c.mpi, "-pthread", "testdata/communicators.c")
			log := t.TempDir()
			j := job{mpi: c.mpi, ranks: c.ranks, command: []string{program, c.mode, fmt.Sprint(c.n)}}
			out, stderr := j.with(shim, table, "FORS_LOG="+log).run(t)
			few := strings.Count(stderr, "none is left for the shim's messages on this one")
			if out != "wrong: 0\n" || few != strings.Count(stderr, "\n") || (few > 0) != (c.mode == "orders") {
				t.Errorf("it prints %q, and errors %q", out, stderr)
			}
			logs := readLogs(t, log, c.ranks)
			checkPairs(t, logs)
			if n := began(logs); n != c.ranks*c.begun && (c.mode != "orders" || n != c.ranks*(c.begun+1)) {
				t.Errorf("%d exchanges were begun, not %d by each of %d ranks", n, c.begun, c.ranks)
			}
		})
	}
}

// TestSessions leaves a program without MPI_COMM_WORLD to MPI.
func TestSessions(t *testing.T) {
	shim := builtFor(t, mpich)
	program := compile(t, "mpicc"+mpich, "testdata/sessions.c")
	j := job{mpi: mpich, ranks: 4, command: []string{program}}
	if out, stderr := j.with(shim, small(t)).run(t); out != "wrong: 0\n" || stderr != "" {
		t.Errorf("it prints %q, and errors %q", out, stderr)
	}
}

// TestOtherMPI preloads the shim of one MPI into C programs of the other: they run
// as without it, and one line gives the reason.
func TestOtherMPI(t *testing.T) {
	table := small(t)
	for program, other := range map[string]string{"": mpich, mpich: ""} {
		shim := builtFor(t, other)
		want := "libforsmpi: it was built for MPICH, and the program runs under Open MPI v"
		if program == mpich {
			want = "libforsmpi: it was built for Open MPI, and the program runs under MPICH Version:"
		}
		command := []string{compile(t, "mpicc"+program, "testdata/exchanges.c"), "7", "12"}
		plain := job{mpi: program, ranks: 4, mca: linear, command: command}
		without, _ := plain.run(t)
		out, stderr := plain.with(shim, table).run(t)
		if out != without || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v prints %q, without the shim %q, and errors %q, not %q", command, out, without, stderr, want)
		}
	}
}

// TestLater exchanges by other functions than the blocking ones of MPI 3. Functions of
// large counts follow the plan. Nonblocking and persistent ones are left to MPI, and give the
// right results with the shim.
func TestLater(t *testing.T) {
	table := small(t)
	for _, c := range []struct {
		mpi, kind string
		planned   bool
	}{{"", "later", false}, {mpich, "later", false}, {mpich, "persistent", false}, {mpich, "large", true}} {
		t.Run(c.kind+c.mpi, func(t *testing.T) {
			shim := builtFor(t, c.mpi)
			plain := job{mpi: c.mpi, ranks: 4, mca: linear, command: []string{compile(t, "mpicc"+c.mpi, "testdata/exchanges.c"), "3", "40", c.kind}}
			want, _ := plain.run(t)
			log := t.TempDir()
			out, stderr := plain.with(shim, table, "FORS_LOG="+log).run(t)
			if out != want || !strings.HasSuffix(out, "differences: 0\n") || stderr != "" {
				t.Errorf("it prints %q, without the shim %q, and errors %q", out, want, stderr)
			}
			if !c.planned {
				if files, _ := os.ReadDir(log); len(files) > 0 {
					t.Errorf("exchanges were logged: %v", files)
				}
				return
			}
			logs := readLogs(t, log, plain.ranks)
			checkPairs(t, logs)
			if n := began(logs); n < 50 {
				t.Errorf("%d exchanges were begun by the plan", n)
			}
		})
	}
}
