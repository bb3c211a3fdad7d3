package libforslanes

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/adapter"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestOpenMPI runs exchanges of unmodified Open MPI over UCX with the library preloaded,
// on the software adapter and a tree with dead cables: every packet has the LIDs of the
// lane of its pair, those of the plan, and no pair is without. So it is by reliable
// connections and by datagrams, which take address handles.
func TestOpenMPI(t *testing.T) {
	needs(t, "mpirun", "mpicc")
	const n, lmc = 4, 2
	fabric, made := plan(t, fabgen.Spec{Spines: n, Leaves: n, LMC: lmc}, [2]int{1, 2}, [2]int{1, 3}, [2]int{3, 0})
	dir := t.TempDir()
	v := table(t, filepath.Join(dir, "phases.bin"), made.Table(42))
	if err := adapter.Build(t.Context(), scratch); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(scratch, "exchange")
	if out, err := exec.Command("mpicc", "-O2", "-o", program, "../../testbed/adapter/testdata/exchange.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a, err := adapter.Start(adapter.Options{Programs: scratch, Fabric: fabric, Rate: 4_000_000})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := a.SetTables(made.Tables); err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"rc_v", "ud_v"} {
		if err := a.Clear(); err != nil {
			t.Fatal(err)
		}
		out := mpirun(t, a, n*n, []string{"LD_PRELOAD=" + preload(), "FORSD_TABLE=" + filepath.Join(dir, "phases.bin"), "UCX_TLS=" + transport + ",self"},
			program, "alltoall", "16384", "2")
		if !strings.Contains(out, "wrong bytes: 0\n") || strings.Contains(out, "libforslanes") {
			t.Errorf("%s", out)
		}
		pairs, moved := onLanes(t, a, v)
		if pairs != n*n*(n*n-1) || moved < pairs/10 {
			t.Errorf("%d pairs exchange, %d of them on other lanes than those of base LIDs", pairs, moved)
		}
		t.Logf("%s: %s%d pairs, %d on other lanes than those of base LIDs", transport, out, pairs, moved)
	}
}

// onLanes holds that the packets between servers have the LIDs of the lanes that a table
// has for the pairs, and that none was lost.
func onLanes(t testing.TB, a *adapter.Fabric, v *phasetable.View) (pairs, moved int) {
	t.Helper()
	flows, err := a.Flows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	met := map[[2]int]bool{}
	for f, packets := range flows {
		src, ok := v.FindLID(f.Src)
		dst, known := v.FindLID(f.Dst)
		if !ok || !known {
			t.Fatalf("%d packets from LID %d to LID %d", packets, f.Src, f.Dst)
		}
		if src == dst {
			continue
		}
		met[[2]int{src, dst}] = true
		p, ok := v.FindPair(src, dst)
		slid := v.Server(src).LID + topology.LID(p.SrcPathBits)
		if !ok || f.Dst != p.DLID || f.Src != slid {
			t.Errorf("%d packets from server %d to %d have LIDs %d and %d, want %d and %d", packets, src, dst, f.Src, f.Dst, slid, p.DLID)
		}
		if p.DLID != v.Server(dst).LID {
			moved++
		}
	}
	c, err := a.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.DeadPort+c.NoEntry+c.Loop+c.WrongLID > 0 {
		t.Errorf("packets were lost: %+v", c)
	}
	return len(met), moved
}

// mpirun runs a job of unmodified Open MPI over UCX, a rank on each of so many hosts.
func mpirun(t testing.TB, a *adapter.Fabric, ranks int, env []string, command ...string) string {
	t.Helper()
	cmd, err := a.MPI(t.Context(), ranks, env, command...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}
