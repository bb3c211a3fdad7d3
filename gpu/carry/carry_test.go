// Package carry tests a small executor in C: it executes the exchanges that package gpu
// plans with real bytes, in shared memory, and checks each byte that arrives.
// It shares only the format of plans with the planner.
package carry

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/testbed/programs"
)

var scratch string

func TestMain(m *testing.M) { programs.Scratch(m, &scratch) }

// executor is the program that executes exchanges, built once for all tests under the sanitizers,
// which must ignore memory that is kept to the end.
var executor = sync.OnceValues(func() (string, error) {
	if err := programs.Sources("src/*"); err != nil {
		return "", err
	}
	bin := filepath.Join(scratch, "carry")
	if out, err := exec.Command("gcc", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-std=c11", "-D_GNU_SOURCE", "-O1", "-g",
		"-Wall", "-Wextra", "-Wshadow", "-Werror", "-o", bin, "src/shm.c", "src/carry.c").CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return bin, nil
})

// draws is how many random inputs a test tries.
func draws(few, many int) int {
	if os.Getenv("FORS_LONG") != "" {
		return many
	}
	return few
}

// write puts a matrix or a plan into a file of the test.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func matrix(t *testing.T, traffic *gpu.Traffic) string {
	t.Helper()
	var b bytes.Buffer
	for _, v := range traffic.Bytes {
		_ = binary.Write(&b, binary.LittleEndian, v)
	}
	return write(t, "matrix", b.Bytes())
}

func exchange(t *testing.T, p *gpu.Plan) string {
	t.Helper()
	data, err := p.Encode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "exchange.bin", data)
}

// carried executes epochs, and returns the program's output.
func carried(t *testing.T, args ...string) (string, error) {
	t.Helper()
	bin, err := executor()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must executes epochs, and expects so many rounds to arrive.
func must(t *testing.T, traffic *gpu.Traffic, rounds int, args ...string) {
	t.Helper()
	epochs, total := 0, int64(0)
	for _, a := range args {
		epochs += strings.Count(a, "=")
	}
	for _, v := range traffic.Bytes {
		total += v
	}
	out, err := carried(t, args...)
	if want := fmt.Sprintf("%d ranks, %d epochs: %d bytes arrived\n", traffic.Ranks(), epochs, int64(rounds)*total); err != nil || out != want {
		t.Fatalf("%v: %v\n%swant %s", args, err, out, want)
	}
}

// anyTraffic draws traffic of some kilobytes.
func anyTraffic(t *testing.T, rng *rand.Rand, c gpu.Cluster) *gpu.Traffic {
	t.Helper()
	traffic, err := gpu.NewTraffic(c)
	if err != nil {
		t.Fatal(err)
	}
	density, limit := 10+rng.IntN(91), []int64{3, 100, 3000}[rng.IntN(3)]
	for at := range traffic.Bytes {
		if rng.IntN(100) < density {
			traffic.Bytes[at] = rng.Int64N(limit + 1)
		}
	}
	return traffic
}

func planned(t *testing.T, traffic *gpu.Traffic, o gpu.Options) *gpu.Plan {
	t.Helper()
	var p gpu.Planner
	plan, err := p.Plan(t.Context(), traffic, o)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// without is the plan of a site with failed parts.
func without(t *testing.T, c gpu.Cluster, bytes []int64, nics ...string) *gpu.Plan {
	t.Helper()
	site := c.Uniform()
	if err := site.Fail(nics, nil); err != nil {
		t.Fatal(err)
	}
	var p gpu.Planner
	plan, err := p.PlanSite(t.Context(), site, bytes, gpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// Plans of every mode and of sites with slower and dead
// NICs bring every byte to its place, in epochs that follow each other.
func TestCarried(t *testing.T) {
	for draw := range draws(25, 1000) {
		rng := rand.New(rand.NewPCG(31, uint64(draw)))
		c := gpu.Cluster{Servers: 1 + rng.IntN(4), GPUs: 1 + rng.IntN(4)}
		traffic := anyTraffic(t, rng, c)
		one := planned(t, traffic, gpu.Options{Mode: gpu.Modes[rng.IntN(len(gpu.Modes))]})
		must(t, traffic, 3, matrix(t, traffic), exchange(t, one)+"=2", exchange(t, one)+"=1")
		if c.Servers == 1 || c.GPUs == 1 {
			continue
		}
		bad := []string{fmt.Sprintf("%d:%d:%d", rng.IntN(c.Servers), rng.IntN(c.GPUs), 25*rng.IntN(4)), fmt.Sprintf("%d:0:50", rng.IntN(c.Servers))}
		plan := without(t, c, traffic.Bytes, bad...)
		site := c.Uniform()
		places, err := site.Traffic(plan.Site, traffic.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		must(t, places, 2, matrix(t, places), exchange(t, plan)+"=2")
	}
}

// Plans with one wrong number are detected by the bytes that arrive.
func TestFindsSpoiledPlans(t *testing.T) {
	c := gpu.Cluster{Servers: 2, GPUs: 2}
	traffic, err := gpu.NewTraffic(c)
	if err != nil {
		t.Fatal(err)
	}
	traffic.Bytes[2], traffic.Bytes[7] = 500, 300 // 0 to 2, 1 to 3
	path := matrix(t, traffic)
	plan := planned(t, traffic, gpu.Options{Mode: gpu.Bytes})
	must(t, traffic, 1, path, exchange(t, plan)+"=1")
	spoil(t, plan, 56, path)
	placed, err := c.Blocks(4)
	if err != nil {
		t.Fatal(err)
	}
	x, err := gpu.FromTopK(c, []float64{2, 3, -1, 1, -1, -1, 0, -1}, 2, placed, 100) // of rank 0 for 2 and 3, of 1 for itself, of 3 for 0
	if err != nil {
		t.Fatal(err)
	}
	var p gpu.Planner
	if plan, err = p.PlanTokens(t.Context(), x, gpu.Options{Mode: gpu.Bytes}); err != nil {
		t.Fatal(err)
	}
	needs := write(t, "needs", []byte{0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0})
	for _, plan := range []*gpu.Plan{plan, plan.Return()} {
		if out, err := carried(t, "-t", needs, exchange(t, plan)+"=1"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		spoil(t, plan, 64, "-t", needs)
	}
}

// spoil changes every number of the sections of a plan for four ranks, but not the sizes of
// buffers, which may be larger than need be, and expects it to be found.
func spoil(t *testing.T, plan *gpu.Plan, header int, args ...string) {
	t.Helper()
	data, err := plan.Encode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	index, tried := header+8*int(binary.LittleEndian.Uint32(data[16:])), 0
	for rank := range 4 {
		first, end := binary.LittleEndian.Uint64(data[index+8*rank:]), binary.LittleEndian.Uint64(data[index+8*rank+8:])
		for range 4 {
			_, n := binary.Uvarint(data[first:])
			first += uint64(n)
		}
		for ; first < end; first++ {
			spoiled := bytes.Clone(data)
			spoiled[first] ^= 1
			tried++
			if out, err := carried(t, append(slices.Clone(args), write(t, "spoiled.bin", spoiled)+"=1")...); err == nil {
				t.Errorf("byte %d of the plan is %d in place of %d: %s", first, spoiled[first], data[first], out)
			}
		}
	}
	if tried < 50 {
		t.Errorf("%d changes were tried", tried)
	}
}

// tokens draws tokens of a cluster and plans them and their way back. It returns the arguments
// of the program, and its last line.
func tokens(t *testing.T, rng *rand.Rand, c gpu.Cluster, mode gpu.Mode) (args []string, want string) {
	t.Helper()
	each, choices, size := 1+rng.IntN(12), 1+rng.IntN(6), 1+rng.IntN(100)
	ranks, arrives := c.Ranks(), 0
	chosen, needs := make([]float64, ranks*each*choices), make([]byte, ranks*each*ranks)
	for at := range chosen {
		expert := rng.IntN(2*ranks+2) - 2
		if chosen[at] = float64(max(-1, expert)); expert >= 0 {
			needs[at/choices*ranks+expert/2] = 1
		}
	}
	for token := range slices.Chunk(needs, ranks) {
		if copies := bytes.Count(token, []byte{1}); copies > 0 {
			arrives += size * 2 * (copies + 1) // two rounds there, two of sums back
		}
	}
	placed, err := c.Blocks(2 * ranks)
	if err != nil {
		t.Fatal(err)
	}
	x, err := gpu.FromTopK(c, chosen, choices, placed, int64(size))
	if err != nil {
		t.Fatal(err)
	}
	var p gpu.Planner
	plan, err := p.PlanTokens(t.Context(), x, gpu.Options{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	there, back := exchange(t, plan), exchange(t, plan.Return())
	return []string{"-t", write(t, "needs", needs), there + "=1", back + "=2", there + "=1"}, fmt.Sprintf("%d ranks, 3 epochs: %d bytes arrived\n", ranks, arrives)
}

// Tokens arrive at every rank that needs them, and the sums of their way back are right.
func TestTokensCarried(t *testing.T) {
	for draw := range draws(12, 1000) {
		rng := rand.New(rand.NewPCG(34, uint64(draw)))
		c := gpu.Cluster{Servers: 1 + rng.IntN(4), GPUs: 1 + rng.IntN(4)}
		args, want := tokens(t, rng, c, gpu.Modes[draw%len(gpu.Modes)])
		if out, err := carried(t, args...); err != nil || out != want {
			t.Fatalf("draw %d, %v: %v\n%swant %s", draw, args, err, out, want)
		}
	}
}
