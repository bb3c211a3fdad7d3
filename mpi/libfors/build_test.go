package libfors

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/programs"
)

var update = flag.Bool("update", false, "write the seeds of the fuzz targets")

const library programs.CLibrary = "fors"

// TestInstalled builds and installs the library, and uses it like a program that finds
// it by pkg-config.
func TestInstalled(t *testing.T) {
	dir := t.TempDir()
	out, root := filepath.Join(dir, "out"), filepath.Join(dir, "root")
	programs.Output(t, "make", "-s", "CFLAGS=-O1 -Werror", "out="+out, "DESTDIR="+root, "prefix=/opt/fors", "install")
	lib := filepath.Join(root, "opt/fors/lib")

	library.CheckExports(t, lib)

	t.Setenv("PKG_CONFIG_PATH", filepath.Join(lib, "pkgconfig"))
	t.Setenv("PKG_CONFIG_SYSROOT_DIR", root)
	flags := strings.Fields(programs.Output(t, "pkg-config", "--cflags", "--libs", "fors"))
	data, view := encode(t, plan(t, 4, 3, 0, 2))
	path := write(t, data)
	for name, extra := range map[string][]string{"shared": flags, "static": {flags[0], filepath.Join(lib, "libfors.a")}} {
		bin := filepath.Join(dir, name)
		programs.Output(t, "gcc", slices.Concat([]string{"-std=c11", "-D_GNU_SOURCE", "-o", bin, "testdata/probe.c"}, extra, []string{"-Wl,-rpath," + lib})...)
		p := run(t, bin)
		p.contains("open "+path, "epoch 42 ")
		if d := cmp.Diff(wantDump(view), p.do("dump")); d != "" {
			t.Errorf("%s library (-Go +C):\n%s", name, d)
		}
	}
	embedded(t, root, flags[0])
	pythonExample(t, lib, path, view)
	programs.Output(t, "make", "-s", "DESTDIR="+root, "prefix=/opt/fors", "uninstall")
	programs.CheckNothingLeft(t, root)
}

// embedded links the static library into a shared one, which must not export its functions.
func embedded(t *testing.T, root, include string) {
	t.Helper()
	path, prefix := filepath.Join(t.TempDir(), "own.so"), filepath.Join(root, "opt/fors")
	programs.Output(t, "gcc", "-shared", "-fPIC", "-x", "c", include, "testdata/own.c", "-x", "none", filepath.Join(prefix, "lib/libfors.a"),
		"-Wl,--version-script="+filepath.Join(prefix, "share/fors/private.map"), "-o", path)
	if names := programs.Output(t, "nm", "-D", "--defined-only", path); !strings.Contains(names, "T own_phases") || strings.Contains(names, "fors_") {
		t.Errorf("a library with libfors.a in it exports\n%s", names)
	}
}

// pythonExample runs the example in Python on the installed library.
func pythonExample(t *testing.T, lib, path string, view *phasetable.View) {
	t.Helper()
	const me, peer = 2, 7
	cmd := exec.Command("python3", "../../examples/phases.py", view.Server(me).Name, view.Server(peer).Name)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+lib, "FORSD_TABLE="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	want := fmt.Sprintf("epoch 42, %d phases, base LIDs\n", view.Phases())
	for p := range 3 {
		e := view.Row(me).At(p)
		want += fmt.Sprintf("server %d phase %d: to %d at LID %d over lane %d, from %d\n", me, p, e.SendTo, e.DLID, e.Lane, e.RecvFrom)
	}
	pair, _ := view.FindPair(me, peer)
	want += fmt.Sprintf("server %d reaches %d in phase %d: LID %d, source path bits %d\n", me, peer, pair.Phase, pair.DLID, pair.SrcPathBits)
	if d := cmp.Diff(want, string(out)); d != "" {
		t.Errorf("examples/phases.py (-want +got):\n%s", d)
	}
}

func TestHeaderAlone(t *testing.T) { library.CheckHeader(t) }

func TestManPage(t *testing.T) { library.CheckPage(t) }

// seeds are inputs of the fuzz targets, by name of the target and of the seed.
func seeds(t testing.TB) map[string][]byte {
	data := small(t)
	one, _ := encode(t, plan(t, 2, 2, 1, 1))
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(data))
	return map[string][]byte{
		"table/small":         data,
		"table/plan":          one,
		"table/header":        data[:192],
		"http/length":         []byte("\x00HTTP/1.1 200 OK\r\nETag: \"42\"\r\n" + length + string(data)),
		"http/chunks":         []byte("\x04HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nFORSD\r\n3;x\r\nPHT\r\n0\r\nX: y\r\n\r\n"),
		"http/end":            []byte("\xffHTTP/1.0 200 OK\r\nConnection: close\r\n\r\nFORSDPHT"),
		"http/hints":          []byte("\x08HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 304 Not Modified\r\nETag: W/\"7\"\r\n\r\n"),
		"http/refusal":        []byte("\x02HTTP/1.1 404 Not Found\r\nContent-Length: 33\r\n\r\n{\"code\":\"not-found\",\"error\":\"no\"}\n"),
		"http/head":           []byte("\x01HTTP/1.1 200 OK\r\nETag: \"43\"\r\nContent-Length: 1000\r\n\r\n"),
		"location/unix":       []byte("unix:/run/forsd/forsd.sock?job=7&epoch=42&timeout=100"),
		"location/host":       []byte("http://forsd.example:7480/?job=7"),
		"location/address":    []byte("http://[fe80::1]:7480"),
		"location/file":       []byte("file:/var/lib/phases.bin"),
		"location/encryption": []byte("https://host"),
	}
}

// TestFuzzSeeds runs the fuzz targets on their seeds and on spoiled ones, without
// a fuzzer. The seeds must be those that the code makes; -update writes them.
func TestFuzzSeeds(t *testing.T) { programs.Seeds(t, "libfors", seeds(t), *update) }

// BenchmarkLibrary reports the figures of testdata/bench.c for a plan of 360
// servers.
func BenchmarkLibrary(b *testing.B) {
	data, _ := encode(b, plan(b, 20, 18, 1, 5))
	bin := compile(b, append(sources(b), "-O2", "testdata/bench.c")...)
	path := write(b, data)
	var text string
	for b.Loop() {
		text = programs.Output(b, bin, path)
	}
	b.ReportMetric(float64(len(data)), "table-bytes")
	for line := range strings.Lines(text) {
		var unit string
		var figure float64
		if _, err := fmt.Sscan(line, &unit, &figure); err != nil {
			b.Fatalf("%q: %v", line, err)
		}
		b.ReportMetric(figure, unit)
	}
}
