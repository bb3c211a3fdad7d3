//go:build mpisuites

package libforsmpi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// side is a way to run a suite: with the shim by a table whose epoch keeps changing, or
// without.
type side struct {
	job
	log string // "" without the shim
}

// sides are both ways, for an MPI.
func sides(t *testing.T, mpi string, ranks int) []side {
	t.Helper()
	log := t.TempDir()
	plain := job{mpi: mpi, ranks: ranks}
	return []side{{job: plain}, {plain.alone(builtFor(t, mpi), epochs(t), "FORS_LOG="+log), log}}
}

// try runs a command that starts jobs by itself, and returns what it prints, and whether
// it went well.
func (s side) try(dir string, command ...string) (string, error) {
	cmd := exec.Command("nice", append([]string{"-n", "19"}, command...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+scratch, "HWLOC_HIDE_ERRORS=2")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// exchanges counts those that were begun by the plan, by all processes.
func (s side) exchanges(t *testing.T) (n int) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(s.log, "rank-*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(text, []byte(",begin,"))
	}
	return n
}

// named is what an environment variable says, without which a suite is left out.
func named(t *testing.T, variable, suite string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		fmt.Printf("left out: %s, whose source is not here\n", suite)
		t.SkipNow()
	}
	return dir
}

// TestFFTW runs FFTW's own check of its transforms for MPI, of random problems, by the
// program that it builds for that with each MPI: FFTW_BUILD has mpi-bench and
// mpi-bench.mpich, FFTW_SOURCE the check.
func TestFFTW(t *testing.T) {
	build := named(t, "FFTW_BUILD", "FFTW")
	for _, mpi := range []string{"", mpich} {
		for _, s := range sides(t, mpi, 2) {
			launch := strings.Join(append(s.launcher(), filepath.Join(build, "mpi-bench"+mpi)), " ")
			out, err := s.try(build, "perl", filepath.Join(os.Getenv("FFTW_SOURCE"), "tests", "check.pl"), "--verbose", "--random", "--estimate", "--maxsize=2000", "-c=2", "--mpi", launch)
			tried := strings.Count(out, "--verify '")
			if err != nil || strings.Contains(out, "FAILED") || tried == 0 {
				t.Errorf("MPI%s: %v: %s", mpi, err, out)
			}
			fmt.Printf("FFTW%s, shim %t: %d transforms verified, %d exchanges begun by the plan\n", mpi, s.log != "", tried, s.exchanges(t))
			if s.log != "" && s.exchanges(t) == 0 {
				t.Error("no exchange was by the plan")
			}
		}
	}
}

// TestHPCC runs Debian's HPC Challenge, which is for one MPI, that of mpirun: its
// transposition, Fourier transform and random updates of all processes check themselves.
func TestHPCC(t *testing.T) {
	if _, err := exec.LookPath("hpcc"); err != nil {
		fmt.Println("left out: hpcc, which is not installed")
		t.SkipNow()
	}
	checks := regexp.MustCompile(`(?m)^(Success|PTRANS_residual|MPIRandomAccess_ErrorsFraction|MPIFFT_maxErr)=(.*)$`)
	for _, s := range sides(t, "", 4) {
		dir := t.TempDir()
		input, err := os.ReadFile("/usr/share/doc/hpcc/examples/_hpccinf.txt")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "hpccinf.txt"), input, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.try(dir, append(s.launcher(), "hpcc")...)
		told, missing := os.ReadFile(filepath.Join(dir, "hpccoutf.txt"))
		if err != nil || missing != nil {
			t.Fatalf("%v, %v: %s", err, missing, out)
		}
		found := checks.FindAllString(string(told), -1)
		fmt.Printf("hpcc, shim %t: %v, %d exchanges begun by the plan\n", s.log != "", found, s.exchanges(t))
		if !strings.Contains(string(told), "\nSuccess=1\n") {
			t.Errorf("%s", told)
		}
	}
}
