package libforsmpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/programs"
)

// patience is how long a job may take on a machine under heavy load; none takes
// a tenth of it by itself.
const patience = 5 * time.Minute

// scratch is the directory of the shim and the programs built.
var scratch string

func TestMain(m *testing.M) { programs.Scratch(m, &scratch) }

// shim builds libforsmpi.so, once for all tests, with the strictest flags.
var shim = sync.OnceValues(func() (string, error) {
	if err := programs.Sources("Makefile", "libforsmpi.map", "src/*", "testdata/*", "../../examples/*", "../libfors/fors.h", "../libfors/src/*"); err != nil {
		return "", err
	}
	return filepath.Join(scratch, "libforsmpi.so"), built.Make(context.Background(), "mpi/libforsmpi", scratch, "CFLAGS=-O2 -g -Werror")
})

// needs skips a test if a program that it runs is missing, and returns the shim.
func needs(t testing.TB, names ...string) string {
	t.Helper()
	programs.Needs(t, append(names, "mpicc", "mpirun")...)
	path, err := shim()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// compile builds a program of sources and flags by one of an MPI's compilers.
func compile(t testing.TB, compiler string, args ...string) string {
	t.Helper()
	bin, err := os.CreateTemp(scratch, "program")
	if err != nil {
		t.Fatal(err)
	}
	bin.Close()
	flag := "-std=gnu11"
	if strings.HasPrefix(compiler, "mpifort") {
		flag = "-J" + scratch // where modules go
	}
	warnings := []string{"-Wall", "-Wextra", "-Werror"}
	if strings.HasSuffix(compiler, mpich) { // whose own headers cause warnings
		warnings = []string{"-w"}
		if flag != "-std=gnu11" {
			warnings = append(warnings, "-fallow-argument-mismatch")
		}
	}
	programs.Output(t, compiler, slices.Concat([]string{flag, "-g", "-O1", "-o", bin.Name()}, warnings, args)...)
	return bin.Name()
}

// mpich is the suffix that Debian gives MPICH's programs if another MPI is installed, too.
// Programs without it are Open MPI's.
const mpich = ".mpich"

// builtFor is the shim that was built for Open MPI or for MPICH.
func builtFor(t testing.TB, mpi string, programs ...string) string {
	t.Helper()
	if mpi == "" {
		return needs(t, programs...)
	}
	return filepath.Join(filepath.Dir(needs(t, append(programs, "mpicc.mpich", "mpiexec.mpich")...)), "libforsmpi-mpich.so")
}

// job is a program under mpirun.
type job struct {
	mpi     string // "" or mpich
	ranks   int
	shim    string // to preload, or ""
	env     []string
	mca     []string // further pairs of a parameter of Open MPI and its value
	wrap    []string // goes before the command
	tcp     bool     // messages may go by TCP: shared memory joins no processes that others started
	urgent  bool     // not niced; waiting ranks use all processor time
	command []string
}

// linear makes Open MPI use its plainest algorithm for MPI_Alltoall: Bruck's, its choice
// for small blocks, corrupts data of types with a gap at their end (4.1.4).
var linear = []string{"coll_tuned_use_dynamic_rules", "1", "coll_tuned_alltoall_algorithm", "1"}

// with returns the job with the shim by a table, its servers named by rank. The tests check
// the order of messages: plans for lanes will do.
func (j job) with(shim, table string, env ...string) job {
	return j.alone(shim, table, append([]string{"FORS_LIDS=pinned"}, env...)...)
}

// alone does the same and leaves the choice of the plan to the shim. Exchanges go by the plan
// unless env has something else.
func (j job) alone(shim, table string, env ...string) job {
	j.shim = shim
	j.env = slices.Concat([]string{"FORSD_TABLE=" + table, "FORS_SERVER=Hca%04r", "FORS_WAY=plan"}, env)
	return j
}

// memory sets the directory for the memory that ranks share: containers may have little
// in /dev/shm, Open MPI's default.
func memory() []string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &fs); err == nil && fs.Bavail*uint64(fs.Bsize) > 1<<30 {
		return nil
	}
	return []string{"--mca", "btl_vader_backing_directory", scratch}
}

// running is a job under way.
type running struct {
	cmd      *exec.Cmd
	out, err strings.Builder
}

// launcher returns the command that starts a job's processes, up to the program to run.
func (j job) launcher() []string {
	env := j.env
	if j.shim != "" {
		env = append([]string{"LD_PRELOAD=" + j.shim}, env...)
	}
	if j.mpi == mpich {
		args := []string{"mpiexec.mpich", "-n", strconv.Itoa(j.ranks)}
		for _, e := range env {
			name, value, _ := strings.Cut(e, "=")
			args = append(args, "-genv", name, value)
		}
		return args
	}
	transports := "self,vader"
	if j.tcp {
		transports += ",tcp"
	}
	args := []string{"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca", "btl", transports,
		"--mca", "pml", "ob1", "-np", strconv.Itoa(j.ranks)}
	args = append(args, memory()...)
	for i := 0; i < len(j.mca); i += 2 {
		args = append(args, "--mca", j.mca[i], j.mca[i+1])
	}
	for _, e := range env {
		args = append(args, "-x", e)
	}
	return append([]string{"mpirun"}, args...)
}

// start starts a job. When ctx ends, mpirun is asked to end it.
func (j job) start(ctx context.Context) (*running, error) {
	args := slices.Concat(j.launcher(), j.wrap, j.command)
	if !j.urgent {
		args = append([]string{"nice", "-n", "19"}, args...)
	}
	r := &running{cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "FORS") && !strings.HasPrefix(e, "TMPDIR=") {
			r.cmd.Env = append(r.cmd.Env, e)
		}
	}
	// Complaints of hwloc, about a container without /sys for instance, are not our output.
	r.cmd.Env = append(r.cmd.Env, "TMPDIR="+scratch, "HWLOC_HIDE_ERRORS=2")
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(syscall.SIGTERM) }
	r.cmd.WaitDelay = 20 * time.Second
	return r, r.cmd.Start()
}

// interrupt has mpirun pass SIGUSR1 on to all ranks.
func (r *running) interrupt() error { return r.cmd.Process.Signal(syscall.SIGUSR1) }

// now is the time as the logs have it.
func now() int64 { return time.Now().UnixNano() }

// wait waits for the job's end, which must be successful, and returns its output.
func (r *running) wait(t testing.TB) (out, err string) {
	t.Helper()
	if err := r.cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s%s", r.cmd, err, r.out.String(), r.err.String())
	}
	return r.out.String(), mpichs.ReplaceAllString(r.err.String(), "")
}

// mpichs are lines of MPICH's own, which come with and without the shim.
var mpichs = regexp.MustCompile(`(?m)^\[WARNING\] yaksa: .*\n`)

// run starts a job and waits for it.
func (j job) run(t testing.TB) (out, err string) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the job takes too long"))
	defer cancel()
	r, failed := j.start(ctx)
	if failed != nil {
		t.Fatal(failed)
	}
	return r.wait(t)
}

// attempt runs a job that may fail, and returns its output.
func (j job) attempt(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := j.start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err = r.cmd.Wait(); err != nil {
		return fmt.Sprintf("%v: %s%s", err, r.out.String(), r.err.String())
	}
	return r.out.String()
}

// write puts a file into a directory of the test's own.
func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
