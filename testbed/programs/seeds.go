package programs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Seeds compares the seeds of the fuzz targets of the C library in a test's folder with those
// given, by target and name, or writes them, and runs the targets on them and on spoiled
// ones without a fuzzer, under the sanitizers. The library's Makefile includes hack/cfuzz.mk.
func Seeds(t *testing.T, library string, all map[string][]byte, update bool) {
	t.Helper()
	have, err := filepath.Glob("fuzz/corpus/*/*")
	if err != nil || !update && len(have) != len(all) {
		t.Errorf("%d seeds in fuzz/corpus, want %d (%v): run go test -update", len(have), len(all), err)
	}
	out, byTarget := t.TempDir(), map[string][]string{}
	write := func(path string, data []byte) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range all {
		path := filepath.Join("fuzz/corpus", name)
		if update {
			write(path, data)
		}
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, data) {
			t.Errorf("%s is not what the code makes (%v): run go test -update", path, err)
		}
		target := filepath.Dir(name)
		byTarget[target] = append(byTarget[target], path)
		for cut := range 8 {
			spoiled := slices.Clone(data)
			spoiled[cut*len(data)/8] ^= 1 << cut
			path := filepath.Join(out, fmt.Sprintf("%s-%d", name, cut))
			write(path, spoiled[:len(data)-cut*len(data)/16])
			byTarget[target] = append(byTarget[target], path)
		}
	}
	for target, files := range byTarget {
		program := filepath.Join(out, "."+library, "replay-"+target)
		Output(t, "make", "-s", "out="+out, program)
		if said := Output(t, program, files...); said != fmt.Sprintf("%d inputs\n", len(files)) {
			t.Errorf("%s: %s", target, said)
		}
	}
}
