// Package carry tests a small executor in C: it executes the exchanges that package gpu
// plans with real bytes, over shared memory and over MPI, and checks each byte that arrives.
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

// Programs that execute exchanges, built once for all tests: over shared memory under the
// sanitizers, which must ignore memory that is kept to the end.
var (
	overMemory = sync.OnceValues(func() (string, error) {
		return build("shm", "gcc", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	})
	overMPI = sync.OnceValues(func() (string, error) { return build("mpi", "mpicc") })
)

func build(way, compiler string, flags ...string) (string, error) {
	if err := programs.Sources("src/*", "../libforgpu/src/*", "../libforgpu/*.h"); err != nil {
		return "", err
	}
	library, err := filepath.Glob("../libforgpu/src/*.c")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(scratch, "carry-"+way)
	args := slices.Concat(flags, library, []string{"-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-ffp-contract=off", "-I../libforgpu", "-o", bin, "src/" + way + ".c", "src/run.c", "src/carry.c"})
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	return bin, nil
}

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

// carried executes epochs over shared memory or MPI, and returns the program's output.
func carried(t *testing.T, ranks int, mpi bool, args ...string) (string, error) {
	t.Helper()
	program := overMemory
	if mpi {
		program = overMPI
	}
	bin, err := program()
	if err != nil {
		t.Fatal(err)
	}
	command := append([]string{bin}, args...)
	if mpi {
		command = append([]string{"mpirun", "--oversubscribe", "--mca", "btl", "self,vader", "-n", fmt.Sprint(ranks)}, command...)
	}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_mpi_yield_when_idle=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must executes epochs, and expects so many rounds to arrive.
func must(t *testing.T, traffic *gpu.Traffic, rounds int, mpi bool, args ...string) {
	t.Helper()
	epochs, total := 0, int64(0)
	for _, a := range args {
		epochs += strings.Count(a, "=")
	}
	for _, v := range traffic.Bytes {
		total += v
	}
	out, err := carried(t, traffic.Ranks(), mpi, args...)
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

// Plans of every mode, of ranks that plan for themselves, and of sites with slower and dead
// NICs bring every byte to its place, in epochs that follow each other.
func TestCarried(t *testing.T) {
	for draw := range draws(25, 1000) {
		rng := rand.New(rand.NewPCG(31, uint64(draw)))
		c := gpu.Cluster{Servers: 1 + rng.IntN(4), GPUs: 1 + rng.IntN(4)}
		traffic := anyTraffic(t, rng, c)
		one := planned(t, traffic, gpu.Options{Mode: gpu.Modes[rng.IntN(len(gpu.Modes))]})
		must(t, traffic, 4, false, matrix(t, traffic), exchange(t, one)+"=2", fmt.Sprintf("own:%d=1", c.GPUs), exchange(t, one)+"=1")
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
		must(t, places, 2, false, matrix(t, places), exchange(t, plan)+"=2")
	}
}

// failure draws an exchange in which a NIC dies, and the plan of the epoch after that.
func failure(t *testing.T, rng *rand.Rand) (traffic *gpu.Traffic, args []string) {
	t.Helper()
	c := gpu.Cluster{Servers: 2 + rng.IntN(2), GPUs: 2 + rng.IntN(2)}
	for {
		traffic = anyTraffic(t, rng, c)
		one := planned(t, traffic, gpu.Options{Mode: gpu.Bytes})
		if len(one.Stages) == 0 {
			continue
		}
		stage := rng.IntN(len(one.Stages))
		dead := one.Stages[stage].Transfers[0].To
		if rng.IntN(2) == 0 {
			dead = one.Stages[stage].Transfers[0].From
		}
		two := without(t, c, traffic.Bytes, fmt.Sprintf("%d:%d", int(dead)/c.GPUs, int(dead)%c.GPUs))
		if two.Ranks() != c.Ranks() {
			t.Fatalf("%+v without a NIC has %d ranks", c, two.Ranks())
		}
		for _, s := range two.Stages {
			for _, x := range s.Transfers {
				if x.From == dead || x.To == dead {
					t.Fatalf("the plan without NIC %d uses it", dead)
				}
			}
		}
		return traffic, []string{"-d", fmt.Sprintf("%d:%d", dead, stage), matrix(t, traffic), exchange(t, one) + "=3", exchange(t, two) + "=2"}
	}
}

// A NIC dies during an exchange: all ranks learn it, and repeat the exchange with the plan
// without that NIC.
func TestNICDies(t *testing.T) {
	for draw := range draws(20, 1000) {
		traffic, args := failure(t, rand.New(rand.NewPCG(32, uint64(draw))))
		must(t, traffic, 3, false, args...)
		if out, err := carried(t, traffic.Ranks(), false, args[:4]...); err == nil || !strings.Contains(out, "there is no other plan") {
			t.Fatalf("%v: a lost exchange passes (%v)\n%s", args[:4], err, out)
		}
	}
}

// The same over MPI: each rank plans for itself, then a NIC dies.
func TestOverMPI(t *testing.T) {
	programs.Needs(t, "mpicc", "mpirun")
	for draw := range draws(1, 50) {
		traffic, args := failure(t, rand.New(rand.NewPCG(33, uint64(draw))))
		must(t, traffic, 5, true, append(args, fmt.Sprintf("own:%d=2", traffic.GPUs))...)
	}
}

// Plans with one wrong number are detected by the bytes that arrive.
func TestFindsSpoiledPlans(t *testing.T) {
	traffic, err := gpu.NewTraffic(gpu.Cluster{Servers: 2, GPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	traffic.Bytes[2], traffic.Bytes[7] = 500, 300 // 0 to 2, 1 to 3
	path := matrix(t, traffic)
	must(t, traffic, 1, false, path, exchange(t, planned(t, traffic, gpu.Options{Mode: gpu.Bytes}))+"=1")
	data, err := planned(t, traffic, gpu.Options{Mode: gpu.Bytes}).Encode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	index, tried := 56+8*int(binary.LittleEndian.Uint32(data[16:])), 0
	for rank := range 4 {
		first, end := binary.LittleEndian.Uint64(data[index+8*rank:]), binary.LittleEndian.Uint64(data[index+8*rank+8:])
		for range 4 { // sizes of buffers may be larger than need be
			_, n := binary.Uvarint(data[first:])
			first += uint64(n)
		}
		for ; first < end; first++ {
			spoiled := bytes.Clone(data)
			spoiled[first] ^= 1
			tried++
			if out, err := carried(t, 4, false, path, write(t, "spoiled.bin", spoiled)+"=1"); err == nil {
				t.Errorf("byte %d of the plan is %d in place of %d: %s", first, spoiled[first], data[first], out)
			}
		}
	}
	if tried < 50 {
		t.Errorf("%d changes were tried", tried)
	}
}
