package libforslanes

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSymbols checks the exported symbols of the libraries, and the libraries that they load.
func TestSymbols(t *testing.T) {
	needs(t)
	want := []string{"ibv_create_ah", "ibv_destroy_ah", "ibv_destroy_qp", "ibv_modify_qp", "ibv_query_qp"}
	for path, libraries := range map[string][]string{preload(): {"libc.so.6"}, provider(): {"libibverbs.so.1", "libc.so.6"}} {
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		symbols, err := f.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range symbols {
			if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
				got = append(got, s.Name)
				if s.Version != "IBVERBS_1.1" {
					t.Errorf("%s: %s has version %q", path, s.Name, s.Version)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s exports %v, want %v", path, got, want)
		}
		if loads, err := f.ImportedLibraries(); err != nil || !slices.Equal(loads, libraries) {
			t.Errorf("%s loads %v, want %v; %v", path, loads, libraries, err)
		}
	}
}

// TestBindings makes the dynamic linker load users of verbs, with the library preloaded, and
// checks how the verbs are bound: it needs no adapter.
func TestBindings(t *testing.T) {
	needs(t)
	const libs = "/usr/lib/x86_64-linux-gnu/"
	found := 0
	for _, c := range []struct {
		name, path string
		verbs      []string
	}{
		{"UCX", libs + "ucx/libuct_ib.so.0", []string{"ibv_modify_qp", "ibv_query_qp", "ibv_create_ah", "ibv_destroy_qp", "ibv_destroy_ah"}},
		{"librdmacm", libs + "librdmacm.so.1", []string{"ibv_modify_qp", "ibv_create_ah", "ibv_destroy_qp"}},
		{"libfabric", libs + "libfabric.so.1", []string{"ibv_modify_qp", "ibv_create_ah", "ibv_destroy_qp"}},
		{"Open MPI's openib", libs + "openmpi/lib/openmpi3/mca_btl_openib.so", []string{"ibv_modify_qp", "ibv_query_qp", "ibv_create_ah", "ibv_destroy_qp"}},
	} {
		if _, err := os.Stat(c.path); err != nil {
			t.Logf("%s is not here: %v", c.name, err)
			continue
		}
		cmd := exec.Command(filepath.Join(scratch, "load"), c.path)
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+preload(), "LD_DEBUG=bindings", "LD_LIBRARY_PATH="+libs+"ucx")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if said := regexp.MustCompile(`(?m)^[^ \d].*$`).FindString(string(out)); said != "" {
			t.Fatalf("%s: %s", c.name, said)
		}
		found++
		for _, verb := range c.verbs {
			bound := regexp.MustCompile(`binding file \S*` + regexp.QuoteMeta(filepath.Base(c.path)) + `\S* \[\d+\] to (\S+) \[\d+\]: normal symbol .` + verb + `' \[IBVERBS_1\.1\]`)
			if m := bound.FindSubmatch(out); m == nil || !strings.HasSuffix(string(m[1]), "/libforslanes.so") {
				t.Errorf("%s: %s is bound by %q", c.name, verb, m)
			}
		}
	}
	if found == 0 {
		t.Skip("nothing here uses verbs")
	}
}
