package adapter

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// exchange builds the program of testdata.
func exchange(t testing.TB) string {
	t.Helper()
	bin := scratch + "/exchange"
	if out, err := exec.Command("mpicc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", bin, "testdata/exchange.c", "-lm").CombinedOutput(); err != nil {
		t.Fatalf("mpicc: %v\n%s", err, out)
	}
	return bin
}

// mpirun runs a job.
func (w *world) mpirun(ranks int, command ...string) string {
	w.Helper()
	cmd, err := w.MPI(w.Context(), ranks, nil, command...)
	w.must(err)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// throughput is a line of the program of testdata, in bytes a second.
func throughput(t testing.TB, said, way string) float64 {
	t.Helper()
	m := regexp.MustCompile(way + `: [\d.]+ s, (\d+) bytes/s`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("no %s in: %s", way, said)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMPI runs exchanges of unmodified Open MPI over UCX on a healthy tree, with a rank
// on each host. Every byte arrives, over the paths of the tables: the same load on each
// cable between switches.
func TestMPI(t *testing.T) {
	needs(t, "mpicc", "mpirun")
	const n = 4
	w := up(t, fabgen.Spec{Spines: n, Leaves: n}, 4_000_000)
	bin := exchange(t)
	for _, way := range []string{"alltoall", "shift"} {
		w.must(w.Clear())
		said := w.mpirun(n*n, bin, way, "65536", "3")
		c, err := w.Count(t.Context())
		w.must(err)
		t.Logf("%s%s: %.3f of a link; %s", said, way, throughput(t, said, way)/4e6, c.summary(w.fabric))
		if c.DeadPort+c.NoEntry+c.Loop+c.WrongLID > 0 {
			t.Errorf("packets were lost: %+v", c)
		}
	}
}

// summary is a line about a run.
func (c *Counters) summary(f *topology.Fabric) string {
	var data, most uint64
	var wait, longest int64
	where := ""
	for ref, p := range c.Ports {
		if f.Nodes[ref.Node].Kind != topology.Switch {
			continue
		}
		data += p.XmitData
		most = max(most, p.XmitData)
		wait += int64(p.XmitWait)
		if int64(p.XmitWait) > longest {
			longest, where = int64(p.XmitWait), f.PortLabel(ref)
		}
	}
	return fmt.Sprintf("events %d, late %v, at most %v, behind for %v of %v; switches sent %d bytes, at most %d by a port; waited %.3f s, at most %.3f s at %s",
		c.Events, c.Late, c.Latest, c.Behind, c.Elapsed, data, most, float64(wait)/1e9, float64(longest)/1e9, where)
}
