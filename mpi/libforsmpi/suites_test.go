//go:build mpisuites

package libforsmpi

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/programs"
)

// suiteConf has the results of MPICH's configure.
const suiteConf = `
#define HAVE_STDLIB_H 1
#define HAVE_STRING_H 1
#define HAVE_STDARG_H 1
#define HAVE_STDINT_H 1
#define HAVE_INTTYPES_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_RESOURCE_H 1
#define HAVE_UNISTD_H 1
#define HAVE_PTHREAD_H 1
#define HAVE_LONG_LONG 1
#define HAVE_LONG_DOUBLE 1
#define HAVE_MPI_WIN_CREATE 1
#define SIZEOF_VOID_P 8
#define POINTERINT_t long
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
`

// suiteTest is a line of MPICH's list of tests.
type suiteTest struct {
	name  string
	ranks int
}

// alltoall is a call that libforsmpi intercepts.
var alltoall = regexp.MustCompile(`\bMPI_Alltoall[vw]?\s*\(`)

// suiteTests are the tests of the list that exchange all to all by such calls.
func suiteTests(t *testing.T, dir string) (tests []suiteTest) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(dir, "coll", "testlist.in"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(list))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 2 || strings.HasPrefix(f[0], "#") {
			continue
		}
		ranks, err := strconv.Atoi(f[1])
		source, missing := os.ReadFile(filepath.Join(dir, "coll", f[0]+".c"))
		switch {
		case err != nil:
		case missing != nil && strings.Contains(f[0], "alltoall"):
			fmt.Printf("left out: %s, which replaces MPI_Alltoall by functions of its own\n", f[0])
		case alltoall.Match(source):
			tests = append(tests, suiteTest{f[0], ranks})
		}
	}
	return tests
}

// mpis are the MPIs under test.
var mpis = []string{"", mpich}

// called is the name of an MPI.
func called(mpi string) string {
	if mpi == mpich {
		return "MPICH"
	}
	return "Open MPI"
}

// beginning is the line with which a process logs the start of an exchange and its epoch.
var beginning = regexp.MustCompile(`(?m)^[0-9a-f]+,\d+,(\d+),-?\d+,begin,`)

// begun counts the exchanges that were begun by a plan, by all processes whose logs are in
// a directory, and the epochs of these plans.
func begun(t *testing.T, dir string) (exchanges, plans int) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "rank-*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range beginning.FindAllSubmatch(text, -1) {
			exchanges++
			seen[string(line[1])] = true
		}
	}
	return exchanges, len(seen)
}

// firstError returns the first line of a compiler's output with an error.
func firstError(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "error:") || strings.Contains(line, "undefined reference") {
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(out)
}

// epochs keeps replacing a table by one of the next epoch, of a plan for base LIDs.
func epochs(t *testing.T) (path string) {
	made := plan(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}, cable{0, 0})
	path = filepath.Join(t.TempDir(), "base.bin")
	put := func(epoch uint64) {
		data, err := phasetable.Encode(made.Base.Table(epoch))
		if err == nil {
			err = os.WriteFile(path+".new", data, 0o644)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			t.Error(err)
		}
	}
	put(1)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for epoch := uint64(2); ; epoch++ {
			select {
			case <-tick.C:
				put(epoch)
			case <-end:
				return
			}
		}
	}()
	t.Cleanup(func() { close(end); <-ended })
	return path
}

// TestSuites runs the tests of all-to-all exchanges in MPICH's source, whose directory
// test/mpi MPICH_TESTS names, under both MPIs, with the shim as without, by a plan for
// base LIDs whose epoch keeps changing.
func TestSuites(t *testing.T) {
	dir := named(t, "MPICH_TESTS", "MPICH's tests")
	include := t.TempDir()
	if err := os.WriteFile(filepath.Join(include, "mpitestconf.h"), []byte(suiteConf), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mpi := range mpis {
		name := called(mpi)
		t.Run(name, func(t *testing.T) {
			shim, table := builtFor(t, mpi), epochs(t)
			same, left, exchanges := 0, 0, 0
			var objects []string
			for _, util := range []string{"mtest", "mtest_common", "mtest_thread", "dtypes"} {
				objects = append(objects, filepath.Join(scratch, util+mpi+".o"))
				programs.Output(t, "mpicc"+mpi, "-w", "-c", "-I"+include, "-I"+filepath.Join(dir, "include"), "-o", objects[len(objects)-1], filepath.Join(dir, "util", util+".c"))
			}
			for _, c := range suiteTests(t, dir) {
				program := filepath.Join(scratch, c.name+mpi)
				args := append([]string{"-w", "-pthread", "-I" + include, "-I" + filepath.Join(dir, "include"), "-o", program, filepath.Join(dir, "coll", c.name+".c")}, objects...)
				if out, err := exec.Command("mpicc"+mpi, args...).CombinedOutput(); err != nil {
					fmt.Printf("left out under %s: %s does not compile: %s\n", name, c.name, firstError(string(out)))
					left++
					continue
				}
				plain := job{mpi: mpi, ranks: c.ranks, command: []string{program}}
				without := plain.attempt(t)
				if !strings.Contains(without, "No Errors") {
					fmt.Printf("left out under %s: %s with %d ranks fails without the shim\n", name, c.name, c.ranks)
					left++
					continue
				}
				log := t.TempDir()
				if with := plain.alone(shim, table, "FORS_LOG="+log).attempt(t); with != without {
					t.Errorf("%s with %d ranks says %q with the shim, and %q without", c.name, c.ranks, with, without)
					continue
				}
				same++
				n, _ := begun(t, log) // none of tests that are left to MPI
				exchanges += n
			}
			fmt.Printf("%s: %d runs as without the shim, %d left out, %d exchanges begun by the plan\n", name, same, left, exchanges)
			if same == 0 || exchanges == 0 {
				t.Error("nothing was tried")
			}
		})
	}
}
