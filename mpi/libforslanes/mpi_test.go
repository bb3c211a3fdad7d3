package libforslanes

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/adapter"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestOpenMPI runs exchanges of unmodified Open MPI over UCX with the library preloaded,
// on the software adapter and a tree with dead cables: every packet has the LIDs of the
// lane of its pair in the plan, and every pair has packets. This holds for reliable
// connections and for datagrams, which use address handles.
func TestOpenMPI(t *testing.T) {
	needs(t, "mpirun", "mpicc")
	const n, lmc = 4, 3
	fabric, made := plan(t, fabgen.Spec{Spines: n, Leaves: n, LMC: lmc}, [2]int{1, 2}, [2]int{1, 3}, [2]int{3, 0})
	dir := t.TempDir()
	v := table(t, filepath.Join(dir, "phases.bin"), made.Table(42))
	if err := adapter.Build(t.Context(), scratch); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(scratch, "exchange")
	if out, err := exec.Command("mpicc", "-O2", "-o", program, "../../testbed/adapter/testdata/exchange.c", "-lm").CombinedOutput(); err != nil {
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

// TestPrograms runs the programs of ibverbs-utils and perftest between two servers with the
// library preloaded: without a table they send to base LIDs, as without the library, and with
// a table over the lane of the pair, by connections and by datagrams.
func TestPrograms(t *testing.T) {
	needs(t, "ibv_rc_pingpong", "ibv_ud_pingpong", "ib_write_bw", "ib_read_lat")
	fabric, made := plan(t, fabgen.Spec{Spines: 4, Leaves: 3, LMC: 2}, [2]int{0, 0})
	path := filepath.Join(t.TempDir(), "phases.bin")
	v := table(t, path, made.Table(42))
	a, b := moved(t, v)
	if err := adapter.Build(t.Context(), scratch); err != nil {
		t.Fatal(err)
	}
	data, err := adapter.Start(adapter.Options{Programs: scratch, Fabric: fabric})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := data.SetTables(made.Tables); err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(20000 + os.Getpid()%2000)
	for _, command := range [][]string{{"ibv_rc_pingpong", "-c", "-n", "20"}, {"ibv_ud_pingpong", "-c", "-n", "20"}, {"ib_write_bw", "-n", "20", "-F", "-d", "sim0"},
		{"ib_read_lat", "-n", "20", "-F", "-d", "sim0"}} {
		for _, named := range []string{"", path} {
			if err := data.Clear(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			run := func(server int, args ...string) (*exec.Cmd, *strings.Builder) {
				args = append(append(slices.Clone(command), "-p", port), args...)
				cmd, out := exec.CommandContext(ctx, args[0], args[1:]...), &strings.Builder{}
				cmd.Env = append(append(os.Environ(), data.Env(v.Server(server).Name)...), "LD_PRELOAD="+preload(), "FORSD_TABLE="+cmp.Or(named, path+"x"))
				cmd.Stdout, cmd.Stderr = out, out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				return cmd, out
			}
			server, said := run(a)
			if err := adapter.Listening(ctx, port); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			client, answer := run(b, "localhost")
			if err := errors.Join(client.Wait(), server.Wait()); err != nil {
				t.Errorf("%v: %v\n%s\n%s", command, err, said, answer)
			}
			cancel()
			flows, err := data.Flows(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := map[adapter.Flow]bool{{Src: v.Server(a).LID, Dst: v.Server(b).LID}: true, {Src: v.Server(b).LID, Dst: v.Server(a).LID}: true}
			if named != "" {
				want = map[adapter.Flow]bool{lane(v, a, b): true, lane(v, b, a): true}
			}
			if len(flows) != 2 {
				t.Errorf("%v, table %q: packets of %d flows, want 2", command, named, len(flows))
			}
			for f := range flows {
				if !want[f] {
					t.Errorf("%v, table %q: packets from LID %d to %d, want %v", command, named, f.Src, f.Dst, want)
				}
			}
		}
	}
}

// lane has the LIDs of the lane of a pair.
func lane(v *phasetable.View, src, dst int) adapter.Flow {
	p, _ := v.FindPair(src, dst)
	return adapter.Flow{Src: v.Server(src).LID + ib.LID(p.SrcPathBits), Dst: p.DLID}
}

// moved is a pair whose lane is not that of base LIDs, neither way.
func moved(t *testing.T, v *phasetable.View) (a, b int) {
	t.Helper()
	for a := range v.Servers() {
		for b := range v.Servers() {
			if l := lane(v, a, b); a != b && l.Dst != v.Server(b).LID && l.Src != v.Server(a).LID {
				return a, b
			}
		}
	}
	t.Fatal("every pair has a base LID")
	return 0, 0
}

// onLanes checks that the packets between servers have the LIDs of the lanes that a table has for
// the pairs, and that none was lost.
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
		slid := v.Server(src).LID + ib.LID(p.SrcPathBits)
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

// mpirun runs a job of unmodified Open MPI over UCX, a rank on each of that many hosts.
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
