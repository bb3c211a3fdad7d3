package libforgpu

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/testbed/programs"
)

const library programs.CLibrary = "forgpu"

func TestHeaderAlone(t *testing.T) { library.CheckHeader(t) }

func TestManPage(t *testing.T) { library.CheckPage(t) }

// Planners in several threads make the same plans as one in one thread, and share no data.
func TestThreads(t *testing.T) {
	if err := programs.Sources("src/*", "testdata/*.c"); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("src/*.c")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "threads")
	programs.Output(t, "gcc", append([]string{"-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=thread", "-I.", "-o", bin, "testdata/threads.c"}, sources...)...)
	if out := programs.Output(t, bin); out != "the same\n" {
		t.Error(out)
	}
}

// The library is installed, used by a program with pkg-config and from Python, and removed.
func TestInstalled(t *testing.T) {
	dir := t.TempDir()
	out, root := filepath.Join(dir, "out"), filepath.Join(dir, "root")
	programs.Output(t, "make", "-s", "CFLAGS=-O1 -Werror", "out="+out, "DESTDIR="+root, "prefix=/opt/fors", "install")
	prefix := filepath.Join(root, "opt/fors")
	lib := filepath.Join(prefix, "lib")
	library.CheckExports(t, lib)

	t.Setenv("PKG_CONFIG_PATH", filepath.Join(lib, "pkgconfig"))
	t.Setenv("PKG_CONFIG_SYSROOT_DIR", root)
	bin := filepath.Join(dir, "threads")
	flags := strings.Fields(programs.Output(t, "pkg-config", "--cflags", "--libs", "forgpu"))
	programs.Output(t, "gcc", append([]string{"-std=c11", "-D_GNU_SOURCE", "-o", bin, "testdata/threads.c", "-Wl,-rpath," + lib}, flags...)...)
	if out := programs.Output(t, bin); out != "the same\n" {
		t.Error(out)
	}
	python(t, prefix)
	programs.Output(t, "make", "-s", "DESTDIR="+root, "prefix=/opt/fors", "uninstall")
	programs.CheckNothingLeft(t, root)
}

// python runs the example and a test of the module, on the library installed below a prefix.
func python(t *testing.T, prefix string) {
	t.Helper()
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(prefix, "lib"))
	t.Setenv("PYTHONPATH", filepath.Join(prefix, "share/forgpu"))
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	cluster, rank := gpu.Cluster{Servers: 3, GPUs: 2}, gpu.Rank(3)
	traffic, err := gpu.Generate(cluster, gpu.MoE, 1<<20, .8, 1)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for r := range cluster.Ranks() {
		rows = append(rows, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(traffic.Bytes[r*cluster.Ranks():][:cluster.Ranks()])), ","), "[]"))
	}
	path := filepath.Join(t.TempDir(), "traffic.csv")
	if err := os.WriteFile(path, []byte(strings.Join(rows, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var p gpu.Planner
	o, seconds, outlook, err := p.Choose(t.Context(), traffic, gpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := p.Own(t.Context(), traffic, rank, o)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%d stages, %.1f us, at least %.1f\ninput %d, output %d, NIC sends from %d, receives into %d\n",
		len(own.Lengths), seconds*1e6, outlook.Least*1e6, own.Input, own.Output, own.NICSend, own.NICRecv)
	text := programs.Output(t, "python3", "../../examples/gpu_plan.py", path, "2", "3")
	if !strings.HasPrefix(text, want) {
		t.Errorf("gpu_plan.py prints\n%s\nwant\n%s", text, want)
	}
	for _, x := range own.Send {
		if !strings.Contains(text, fmt.Sprintf("stage %d: ", x.Stage)) || !strings.Contains(text, fmt.Sprintf("%d to rank %d", x.Bytes, x.Peer)) {
			t.Errorf("gpu_plan.py does not say that %d bytes go to rank %d in stage %d:\n%s", x.Bytes, x.Peer, x.Stage, text)
		}
	}
	_, section := wanted(t, &p, traffic, rank, o)
	want = fmt.Sprintf("%x\n", section)
	site := cluster.Uniform()
	for at, speed := range []int64{2, 0, 1, 2, 2, 2} {
		site.Servers[at/2].NICs[at%2].Speed = speed
	}
	places, err := site.Places(2)
	if err != nil {
		t.Fatal(err)
	}
	placed, err := site.Traffic(places, traffic.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	o.Groups = 0
	for r := range gpu.Rank(placed.Ranks()) {
		_, section := wanted(t, &p, placed, r, o)
		want += fmt.Sprintf("%x\n", section)
	}
	got := programs.Output(t, "python3", "testdata/module.py", path, "2", "3", fmt.Sprint(o.MaxStretch), fmt.Sprint(o.MaxStage), fmt.Sprint(map[bool]int{true: 1}[o.Fewest]), "2,0,1,2,2,2")
	if got != want {
		t.Errorf("forgpu.py's sections are %s, want %s", got, want)
	}
	pythonTokens(t)
	refused := exec.Command("python3", "../../examples/gpu_plan.py", path, "2", "9")
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "rank 9: want 0 to") {
		t.Errorf("gpu_plan.py for rank 9: %s", out)
	}
}

// pythonTokens runs the module on tokens.
func pythonTokens(t *testing.T) {
	t.Helper()
	c, rank := gpu.Cluster{Servers: 3, GPUs: 2}, gpu.Rank(4)
	ranks, x := anyTokens(t, rand.New(rand.NewPCG(52, 1)), c, 9, 3, 50)
	var b strings.Builder
	for row := range slices.Chunk(ranks, 3) {
		fmt.Fprintf(&b, "%d,%d,%d\n", row[0], row[1], row[2])
	}
	path := filepath.Join(t.TempDir(), "choices.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var p gpu.Planner
	o, _, _, err := p.ChooseTokens(t.Context(), x, gpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, there, back := wantedTokens(t, &p, x, rank, o)
	if got, want := programs.Output(t, "python3", "testdata/tokens.py", path, "3", "2", "4", "50"), fmt.Sprintf("%x\n%x\n", there, back); got != want {
		t.Errorf("forgpu.py's sections of tokens are %s, want %s", got, want)
	}
}
