package libforslanes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/built"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestSanitized makes, changes and destroys queue pairs and address handles, before and after
// a new epoch, with tables that are whole, damaged and missing. It does so with the address and
// undefined-behaviour sanitizers in the library and in the program, and under Valgrind. Neither
// reports anything, and programs see the same.
func TestSanitized(t *testing.T) {
	needs(t)
	t.Run("sanitizers", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(scratch, "sanitized")
		flags := "-O1 -g -Werror -fsanitize=address,undefined -fno-sanitize-recover=all"
		if err := built.Make(t.Context(), "mpi/libforslanes", dir, "CFLAGS="+flags); err != nil {
			t.Fatal(err)
		}
		args := append(strings.Fields(flags), "-std=c11", "-D_GNU_SOURCE", "-o", filepath.Join(dir, "caller"), "testdata/caller.c", filepath.Join(scratch, "stub", "libibverbs.so.1"), "-ldl")
		if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		runtime, err := exec.Command("cc", "-print-file-name=libasan.so").Output()
		if err != nil {
			t.Fatal(err)
		}
		everything(t, caller{dir: dir, first: strings.TrimSpace(string(runtime))})
	})
	t.Run("valgrind", func(t *testing.T) {
		t.Parallel()
		needs(t, "valgrind")
		// The memory of the thread that runs to the end is "possibly lost".
		everything(t, caller{check: []string{"valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"}})
	})
}

// everything runs the program both with the checks and without, with the same orders.
func everything(t *testing.T, checked caller) {
	t.Helper()
	spec := fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}
	_, before := plan(t, spec, [2]int{0, 0})
	_, after := plan(t, spec, [2]int{0, 0}, [2]int{1, 2})
	dir := t.TempDir()
	path, short := filepath.Join(dir, "phases.bin"), filepath.Join(dir, "short.bin")
	v := table(t, path, before.Table(42))
	if err := os.WriteFile(short, v.Bytes()[:300], 0o644); err != nil {
		t.Fatal(err)
	}
	var orders []string
	for peer := range v.Servers() {
		to := v.Server(peer).LID
		orders = append(orders, fmt.Sprintf("rtr %d %d 0", peer, to), fmt.Sprintf("query %d", peer), fmt.Sprintf("bad %d %d 1", peer, to), fmt.Sprintf("ah %d 0 0", to))
		if peer%2 == 0 {
			orders = append(orders, fmt.Sprintf("reset %d", peer), fmt.Sprintf("query %d", peer), fmt.Sprintf("destroy %d", peer))
		}
	}
	// An unknown order is answered.
	changing := slices.Concat(orders, []string{"replace", "sleep"}, orders, []string{"rtr 0 65535 127", "ah 49152 0 0", "fork"})
	replace := func(line string) {
		if strings.HasPrefix(line, "failed: replace") {
			table(t, path, after.Table(43))
		}
	}
	same := func(name string, as caller, orders []string) {
		t.Helper()
		want, _ := as.answered(t, orders, replace)
		table(t, path, before.Table(42))
		as.check, as.first, as.dir = checked.check, checked.first, checked.dir
		got, stderr := as.answered(t, orders, replace)
		if got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
		for line := range strings.Lines(stderr) {
			if !strings.HasPrefix(line, "libforslanes: ") {
				t.Errorf("%s: it says %s", name, stderr)
				break
			}
		}
	}
	me := on(v.Server(0))
	same("by a table", caller{port: me, table: path}, changing)
	same("by a short one", caller{port: me, table: short}, orders)
	same("by none", caller{port: me, env: []string{"FORSD_TABLE="}}, orders)
	same("by one of another port", caller{port: "1 9 0 77", table: path}, orders)
}
