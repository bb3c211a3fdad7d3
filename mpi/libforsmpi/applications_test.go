//go:build mpisuites

package libforsmpi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// application is a program that exchanges all to all and checks the data received.
type application struct {
	name    string
	mpi     string
	ranks   int
	command []string
	// launcher is given the command line that starts a job; nil starts it once.
	launcher []string
	// passed is a regular expression for the output of a check that has passed, or of as many
	// checks as its group says.
	passed string
}

// compare runs it with the shim, by a table whose epoch keeps changing, and without. As
// many of its checks must pass.
func (a application) compare(t *testing.T) {
	t.Helper()
	name := fmt.Sprintf("%s under %s, %d ranks", a.name, called(a.mpi), a.ranks)
	plain, log := job{mpi: a.mpi, ranks: a.ranks}, t.TempDir()
	want := a.checks(t, plain)
	got := a.checks(t, plain.alone(builtFor(t, a.mpi), epochs(t), "FORS_LOG="+log))
	exchanges, plans := begun(t, log)
	fmt.Printf("%s: %d checks pass without the shim, %d with it; ranks began %d exchanges by plans of %d epochs\n", name, want, got, exchanges, plans)
	if want == 0 || got != want || exchanges == 0 {
		t.Errorf("%s: %d checks pass without the shim, %d with it, %d exchanges by the plan", name, want, got, exchanges)
	}
}

// checks runs a job, which must end well, and counts the checks that pass.
func (a application) checks(t *testing.T, j job) int {
	t.Helper()
	start := append(j.launcher(), a.command...)
	if a.launcher != nil {
		start = append(a.launcher[:len(a.launcher):len(a.launcher)], strings.Join(start, " "))
	}
	// timeout ends the launcher's processes, too.
	cmd := exec.Command("nice", append([]string{"-n", "19", "timeout", "-k", "20", "30m"}, start...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch, "HWLOC_HIDE_ERRORS=2")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", cmd, err, out)
	}
	passed := 0
	for _, found := range regexp.MustCompile(a.passed).FindAllSubmatch(out, -1) {
		n := 1
		if len(found) > 1 {
			n, _ = strconv.Atoi(string(found[1]))
		}
		passed += n
	}
	return passed
}

// named is the value of an environment variable, without which a suite is left out.
func named(t *testing.T, variable, suite string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		leftOut(t, "%s: %s is not set", suite, variable)
	}
	return dir
}

// leftOut ends a test that cannot be run.
func leftOut(t *testing.T, format string, args ...any) {
	t.Helper()
	fmt.Printf("left out: "+format+"\n", args...)
	t.SkipNow()
}

// TestFFTW runs FFTW's own check of its transforms for MPI, of random problems, the same
// each time, by the program that it builds for that with each MPI: FFTW_BUILD has
// mpi-bench and mpi-bench.mpich, FFTW_SOURCE the check.
func TestFFTW(t *testing.T) {
	build := named(t, "FFTW_BUILD", "FFTW")
	check := filepath.Join(os.Getenv("FFTW_SOURCE"), "tests", "check.pl")
	for _, mpi := range mpis {
		application{name: "FFTW", mpi: mpi, ranks: 2, command: []string{filepath.Join(build, "mpi-bench"+mpi)},
			launcher: []string{"perl", "-e", "srand 1; do shift; die $@ if $@", check, "--verbose", "--random", "--estimate", "--maxsize=2000", "-c=4", "--flushcount=1000", "--mpi"},
			passed:   `(?m)^\S+(?: [\d.e-]+){3}\s*$`}.compare(t)
	}
}

// TestHPCC runs Debian's HPC Challenge, which is for one MPI, that of mpirun.
func TestHPCC(t *testing.T) {
	if _, err := exec.LookPath("hpcc"); err != nil {
		leftOut(t, "HPC Challenge, which is not installed")
	}
	application{name: "HPC Challenge", ranks: 4, command: []string{"hpcc"},
		launcher: []string{"sh", "-c", "cp /usr/share/doc/hpcc/examples/_hpccinf.txt hpccinf.txt && $0 && cat hpccoutf.txt"},
		passed:   `(?m)^WALL .* PASSED | PASSED$|\(passed\)\.$|^(?:Success=1|PTRANS_residual=0|MPIRandomAccess(?:_LCG)?_Errors=0|MPIFFT_maxErr=\S+e-1\d)$`}.compare(t)
}

// TestMPI4py runs mpi4py's own tests of collective calls, from the directory test of its
// source, which MPI4PY_TESTS names, with Debian's mpi4py, which is for Open MPI alone.
func TestMPI4py(t *testing.T) {
	dir := named(t, "MPI4PY_TESTS", "mpi4py's tests")
	application{name: "mpi4py's tests", ranks: 4, command: []string{"/usr/bin/python3", filepath.Join(dir, "runtests.py"), "--no-builddir", "-i", "test_cco", "-i", "test_msgspec"},
		passed: `Ran (\d+) tests`}.compare(t)
	fmt.Println("left out: mpi4py's tests under MPICH, for which Debian does not build it")
}

// TestBenchmarks runs benchmarks that check the data they receive: that of examples, of the
// pattern of OSU's and Intel's; and these, if MPI_BENCHMARKS names a directory that has
// them, built for Open MPI and, with .mpich behind their names, for MPICH.
func TestBenchmarks(t *testing.T) {
	for _, mpi := range mpis {
		needs(t)
		example := compile(t, "mpicc"+mpi, "../../examples/alltoall_bench.c")
		application{name: "alltoall_bench", mpi: mpi, ranks: 4, command: []string{example, "-n", "2", "1", "64", "4096", "65536"},
			passed: "MB/s\n|wrong bytes: 0\n"}.compare(t)
	}
	dir := named(t, "MPI_BENCHMARKS", "OSU's and Intel's benchmarks, NAS Parallel Benchmarks")
	osu := []string{"-c", "-m", "1:65536", "-i", "2", "-x", "1"}
	for _, a := range []application{
		{name: "osu_alltoall", command: osu, passed: `(?m)Pass$`},
		{name: "osu_alltoallv", command: osu, passed: `(?m)Pass$`},
		{name: "IMB-MPI1", command: []string{"-npmin", "4", "-iter", "2", "-msglog", "0:16", "Alltoall", "Alltoallv"}, passed: `(?m) 0\.00$`},
		{name: "ft.S.x", passed: "Verification += +SUCCESSFUL"},
		{name: "is.S.x", passed: "Verification += +SUCCESSFUL"},
	} {
		for _, a.mpi = range mpis {
			program := filepath.Join(dir, a.name+a.mpi)
			if _, err := os.Stat(program); err != nil {
				fmt.Printf("left out: %s under %s: %v\n", a.name, called(a.mpi), err)
				continue
			}
			b := a
			b.ranks, b.command = 4, append([]string{program}, a.command...)
			b.compare(t)
		}
	}
}
