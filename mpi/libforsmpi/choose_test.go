package libforsmpi

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kinds matches the lines in which rank 0 of a communicator says how exchanges of a kind were
// carried out, and ways how many went each way.
var kinds = regexp.MustCompile(`(?m)^libforsmpi: communicator (\w+), (blocks|unequal blocks, of rank 0) up to (\d+ [KMG]?i?B): (.*)$`)

var ways = regexp.MustCompile(`(\d+) (by the plan|all at once|by MPI|by the clock) \(([0-9.]+) ms\)`)

// chosen reads how many exchanges of each kind were carried out each way.
func chosen(t *testing.T, stderr string) map[string]map[string]int {
	t.Helper()
	out := map[string]map[string]int{}
	for _, m := range kinds.FindAllStringSubmatch(stderr, -1) {
		times := map[string]int{}
		for _, w := range ways.FindAllStringSubmatch(m[4], -1) {
			n, err := strconv.Atoi(w[1])
			if err != nil {
				t.Fatal(err)
			}
			times[w[2]] = n
		}
		out[m[1]+" "+m[2]+" "+m[3]] = times
	}
	return out
}

// TestFastest has exchanges go the way that has been fastest. All ways are tried, in exchanges
// that carry the right data, and their numbers are told. Which way was fastest is the machine's
// affair: TestChoice has clocks that tell what they are told.
func TestFastest(t *testing.T) {
	for _, mpi := range []string{"", mpich} {
		t.Run("MPI"+mpi, func(t *testing.T) {
			shim := builtFor(t, mpi)
			j := job{mpi: mpi, ranks: 6, command: []string{compile(t, "mpicc"+mpi, "testdata/repeated.c"), "20", "8", "20000"}}
			out, stderr := j.with(shim, small(t), "FORS_WAY=fastest", "FORS_VERBOSE=1").run(t)
			if out != "wrong: 0\n" {
				t.Errorf("it prints %q, and errors %q", out, stderr)
			}
			all := chosen(t, stderr)
			if len(all) != 4 {
				t.Errorf("%d kinds of exchanges: %s", len(all), stderr)
			}
			tried, sum := map[string]int{}, 0
			for _, times := range all {
				for way, n := range times {
					sum += n
					tried[way] += n
				}
			}
			if len(tried) != 4 || sum != 4*20-4 { // but for the first four
				t.Errorf("exchanges went %v", tried)
			}
		})
	}
}

// TestChoice chooses by times that are drawn: over many exchanges the choice costs little more
// than the fastest way, also if that changes with the plan.
func TestChoice(t *testing.T) {
	needs(t)
	cmd := exec.CommandContext(t.Context(), compile(t, "mpicc", "-Isrc", "-I../libfors", "-pthread", "testdata/choice.c", "src/choose.c", "../libfors/src/pace.c", "-lm"))
	cases := []struct {
		times string // by the plan, all at once and by MPI, with two plans; noise, late ones, by the clock
		most  float64
	}{
		{"1 1 1  1 1 1  0 0 0", 1.01},
		{"1 2 3  1 2 3  0 0 0", 1.02},
		{"5 1.02 1  5 1.02 1  0 0 0", 1.02},
		{"1 1.4 5  5 1.4 1  0 0 0", 1.02},
		{"20 1 30  1 20 30  0 0 0", 1.1},
		{"2 1 1.1  2 1 1.1  .2 0 0", 1.04},
		{"1 1.1 1.2  1.2 1.1 1  .1 10 0", 1.03},
		{"2 1 1.5  2 1.5 1  .3 10 0", 1.05},
		{"1 1.5 2  1 1.5 2  0 100 0", 1.03},
		{"30 1 1.1  30 1 .5  0 1000 0", 1.1},
		{"1.2 1.05 1  1.2 1.05 1  0 0 .9", 1.05},
		{"1.4 1.1 1  1.4 1 1.1  .05 10 .7", 1.08},
	}
	text := ""
	const repeats = 20
	for _, c := range cases {
		text += strings.Repeat(c.times+"\n", repeats)
	}
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.NewReader(out)
	for _, c := range cases {
		var mean [4]float64
		for range repeats {
			for i := range mean {
				took := 0.0
				if _, err := fmt.Fscan(lines, &took); err != nil {
					t.Fatal(err)
				}
				mean[i] += took / repeats
			}
		}
		if slices.Max(mean[:]) > c.most {
			t.Errorf("%s: %v of the fastest way's time on the mean, want at most %g", c.times, mean, c.most)
		}
		t.Log(c.times, mean)
	}
}

// TestWays has random exchanges go by the clock, all at once, by MPI, and the fastest way: the data are those
// of MPI's own.
func TestWays(t *testing.T) {
	shim := needs(t)
	plain := job{ranks: 12, mca: linear, command: []string{compile(t, "mpicc", "testdata/exchanges.c"), "8", "20"}}
	want, _ := plain.run(t)
	for way, begun := range map[string]int{"clock": 100, "once": 100, "fastest": 0, "mpi": 0} {
		log := t.TempDir()
		if out, stderr := plain.with(shim, small(t), "FORS_WAY="+way, "FORS_LOG="+log).run(t); out != want || stderr != "" {
			t.Errorf("%s: it prints %q, not %q, and errors %q", way, out, want, stderr)
		}
		if begun > 0 && began(readLogs(t, log, plain.ranks)) < begun {
			t.Errorf("%s: less than %d exchanges are in the logs", way, begun)
		}
	}
}

// TestTruncated has exchanges fail on one rank, in trials and otherwise: the other ranks go on,
// and what the program does next is not mixed up with them.
func TestTruncated(t *testing.T) {
	shim := needs(t)
	j := job{ranks: 4, command: []string{compile(t, "mpicc", "testdata/truncated.c")}}
	for _, way := range []string{"fastest", "plan", "clock", "once", "mpi"} {
		if out, stderr := j.with(shim, small(t), "FORS_WAY="+way).run(t); out != "errors: 5\nwrong: 0\n" || stderr != "" {
			t.Errorf("%s: it prints %q, and errors %q", way, out, stderr)
		}
	}
}
