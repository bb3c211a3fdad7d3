package ibsim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// small is FT(2;4,3) with one host a leaf.
func small() *topology.Fabric {
	return fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 3, Hosts: []int{1}})
}

// altered returns f after a change.
func altered(f *topology.Fabric, change func(*topology.Fabric)) *topology.Fabric {
	g := f.Clone()
	change(g)
	return g
}

// sees waits for a sweep and compares its dump with f.
func sees(t *testing.T, m *OpenSM, f *topology.Fabric) {
	t.Helper()
	if err := m.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkCables(t, f, subnet(t, m), "PHY=4x LOG=ACT SPD=50")
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestAggregationNodes has OpenSM see a tree as Quantum switches show it.
func TestAggregationNodes(t *testing.T) {
	f := fabgen.WithAggregation(small())
	m := up(t, start(t, f), OpenSMOptions{Host: "Hca0000", LMC: 2})
	got, err := topology.ReadSubnetLst([]byte(subnet(t, m)))
	ok(t, err)
	roles := map[topology.Role]int{}
	for i := range got.Nodes {
		n := &got.Nodes[i]
		roles[n.Role]++
		if n.Role == topology.AggregationNode && (n.Vendor != 0x2c9 || n.Device != 0xcf09 || n.Name != "Mellanox Technologies Aggregation Node") {
			t.Errorf("OpenSM shows the aggregation node %s of vendor 0x%x, device 0x%x", n, n.Vendor, n.Device)
		}
	}
	if roles[topology.AggregationNode] != 7 || roles[topology.ComputeNode] != 3 {
		t.Errorf("roles %v", roles)
	}
}

func TestCablesComeAndGo(t *testing.T) {
	f, ctx := small(), t.Context()
	s := start(t, f)
	m := up(t, s, OpenSMOptions{Host: "Hca0000", LMC: 2})
	leaf, spine := f.Find(fabgen.LeafGUID+1), f.Find(fabgen.SpineGUID+2)
	port3, port4 := topology.PortRef{Node: leaf, Port: 3}, topology.PortRef{Node: leaf, Port: 4}

	from := m.LogSize()
	ok(t, s.Unlink(ctx, "Leaf001", 3))
	waitLog(t, m, SubnetUp, from) // by the trap alone
	sees(t, m, altered(f, func(g *topology.Fabric) { g.Disconnect(port3) }))
	from = m.LogSize()
	ok(t, s.Relink(ctx, "Leaf001", 3))
	waitLog(t, m, SubnetUp, from)
	sees(t, m, f)

	ok(t, s.Unlink(ctx, "Leaf001", 3), s.Unlink(ctx, "Leaf001", 4), s.Link(ctx, "Leaf001", 3, f.Nodes[spine].GUID.String(), 2))
	sees(t, m, altered(f, func(g *topology.Fabric) {
		g.Disconnect(port3)
		g.Disconnect(port4)
		g.Connect(port3, topology.PortRef{Node: spine, Port: 2}, ib.Rate{Width: 4, Speed: ib.HDR})
	}))
}

// TestBurst pulls cables of different leaves in one write, and puts them back.
func TestBurst(t *testing.T) {
	f, ctx := small(), t.Context()
	s := start(t, f)
	m := up(t, s, OpenSMOptions{Host: "Hca0000", LMC: 2})
	ports := []Port{{"Leaf001", 3}, {"Leaf000", 4}, {"Leaf001", 4}}

	from := m.LogSize()
	ok(t, s.UnlinkAll(ctx, ports))
	waitLog(t, m, SubnetUp, from)
	sees(t, m, altered(f, func(g *topology.Fabric) {
		for _, p := range ports {
			leaf, err := strconv.Atoi(p.Node[len("Leaf"):])
			ok(t, err)
			g.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID + ib.GUID(leaf)), Port: uint8(p.Port)})
		}
	}))
	err := s.RelinkAll(ctx, append(ports, Port{"Leaf001", 99}))
	if err == nil || !strings.Contains(err.Error(), "99") {
		t.Errorf("one bad port of four: got error %v", err)
	}
	sees(t, m, f)
}

func TestNodesComeAndGo(t *testing.T) {
	f, ctx := small(), t.Context()
	s := start(t, f)
	m := up(t, s, OpenSMOptions{Host: "Hca0000"})
	spine := f.Find(fabgen.SpineGUID + 2)

	ok(t, s.UnlinkNode(ctx, "Spine002"))
	sees(t, m, altered(f, func(g *topology.Fabric) {
		for p := range g.Nodes[spine].Ports {
			g.Disconnect(topology.PortRef{Node: spine, Port: uint8(p)})
		}
	}))
	ok(t, s.RelinkNode(ctx, "Spine002"))
	sees(t, m, f)

	ok(t, s.ReplaceAdapter(ctx, "Hca0001", 0x500000))
	sees(t, m, altered(f, func(g *topology.Fabric) {
		host := &g.Nodes[g.Find(fabgen.HostGUID+2)]
		host.GUID, host.Ports[1].GUID = 0x500000, 0x500001
	}))
}

func TestCommandErrors(t *testing.T) {
	f, ctx := small(), t.Context()
	f.Nodes[f.Find(fabgen.SpineGUID)].Name = "Leaf000"
	s := start(t, f)
	unknown := s.Unlink(ctx, "Leaf9", 1)
	twice := s.Unlink(ctx, "Leaf000", 1)
	noPort := s.Unlink(ctx, "Leaf001", 99)
	noCable := errors.Join(s.Unlink(ctx, "Leaf001", 1), s.Unlink(ctx, "Leaf001", 1))
	_, twoLines := s.Command(ctx, "Unlink\nQuit")
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	late := s.Relink(stopped, "Leaf001", 1)
	for i, c := range []struct {
		err  error
		want string
	}{
		{unknown, `no node "Leaf9"`},
		{twice, `no node "Leaf000", or several`},
		{noPort, "can't unlink port 99"},
		{noCable, "is not linked"},
		{twoLines, "want one line"},
		{late, "context canceled"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("case %d: got error %v, want one with %q", i, c.err, c.want)
		}
	}
	if _, err := s.Command(ctx, "Quit"); !errors.Is(err, errGone) {
		t.Errorf("after Quit: got error %v, want %v", err, errGone)
	}
}

// TestEmptyTableFile has the engine "file" start on an empty file, as on a
// machine where no tables exist yet, and then on tables, which it must program.
func TestEmptyTableFile(t *testing.T) {
	f, ctx := small(), t.Context()
	s := start(t, f)
	file := filepath.Join(t.TempDir(), "lfts.dump")
	ok(t, os.WriteFile(file, nil, 0o644))
	m := up(t, s, OpenSMOptions{Host: "Hca0000", RoutingEngine: "file,no_fallback", LFTsFile: file, LogFlags: 0x43})
	checkCables(t, f, subnet(t, m), "PHY=4x LOG=ACT SPD=50")

	before := leafTable(t, s)
	if strings.Contains(before, "0x0001 003") {
		t.Fatalf("the table has an entry already:\n%s", before)
	}
	ok(t, os.WriteFile(file, []byte("Unicast lids [0x1-0x8] of switch Lid 0 guid 0x0000000000200000 ('Leaf000'):\n0x0001 003\n"), 0o644), m.Sweep(ctx))
	if after := leafTable(t, s); !strings.Contains(after, "0x0001 003") {
		t.Errorf("OpenSM has not programmed the file; before:\n%s\nafter:\n%s", before, after)
	}
}

// leafTable reads the forwarding table of Leaf000 out of the simulated switch.
func leafTable(t *testing.T, s *Sim) string {
	t.Helper()
	tables, err := s.Run(t.Context(), "Hca0001", "dump_fts", "-n")
	ok(t, err)
	_, rest, found := strings.Cut(string(tables), "guid "+fabgen.LeafGUID.String())
	table, _, ended := strings.Cut(rest, "valid lids dumped")
	if !found || !ended {
		t.Fatalf("dump_fts shows no table of Leaf000:\n%s", tables)
	}
	return table
}

func TestRestart(t *testing.T) {
	f, ctx := small(), t.Context()
	s := start(t, f)
	m := up(t, s, OpenSMOptions{Host: "Hca0000"})
	for round := range 12 { // more than ibsim has places for clients
		pid := m.PID()
		if text, err := os.ReadFile(m.PIDFile()); err != nil || string(text) != fmt.Sprintf("%d\n", pid) {
			t.Fatalf("PID file: %q, %v; OpenSM is %d", text, err, pid)
		}
		if round%2 == 0 {
			m.Kill()
			if m.PID() != 0 || m.Signal(syscall.SIGHUP) == nil {
				t.Fatalf("OpenSM lives after Kill: PID %d", m.PID())
			}
			if clients, err := s.Command(ctx, "Attached"); err != nil || clients != "" {
				t.Fatalf("the dead are still attached: %q, %v", clients, err)
			}
		}
		from := m.LogSize()
		ok(t, m.Restart(ctx))
		waitLog(t, m, SubnetUp, from)
		if m.PID() == pid {
			t.Fatalf("OpenSM is still process %d after a restart", pid)
		}
	}
	sees(t, m, f)
	if left, _ := os.ReadDir(m.workDir()); len(left) != 1 {
		t.Errorf("the dead left files behind: %v", left)
	}
	m.Stop(ctx)
	if _, _, err := m.WaitLog(ctx, "never said", 0); err == nil || !strings.Contains(err.Error(), "ended before") {
		t.Errorf("waiting for a stopped OpenSM: got error %v", err)
	}
}

func TestOpenSMFailsToStart(t *testing.T) {
	s := start(t, small())
	_, err := s.StartOpenSM(t.Context(), OpenSMOptions{Host: "nowhere"})
	if err == nil || !strings.Contains(err.Error(), `no node "nowhere"`) {
		t.Errorf("unknown host: got error %v", err)
	}
	blocked := filepath.Join(t.TempDir(), "opensm")
	ok(t, os.MkdirAll(filepath.Join(blocked, "opensm.log"), 0o755)) // no place for a log
	_, err = s.StartOpenSM(t.Context(), OpenSMOptions{Host: "Hca0000", Dir: blocked})
	if err == nil || !strings.Contains(err.Error(), "ended at once") {
		t.Errorf("OpenSM without a log: got error %v", err)
	}
}

// TestTwoSimulations changes one of two simulations; the other sees nothing.
func TestTwoSimulations(t *testing.T) {
	f, ctx := small(), t.Context()
	s1, s2 := start(t, f), start(t, f)
	m1, m2 := up(t, s1, OpenSMOptions{Host: "Hca0000"}), up(t, s2, OpenSMOptions{Host: "Hca0000"})
	ok(t, s1.UnlinkNode(ctx, "Hca0002"))
	gone := altered(f, func(g *topology.Fabric) {
		g.Disconnect(topology.PortRef{Node: g.Find(fabgen.HostGUID + 4), Port: 1})
	})
	sees(t, m2, f)
	sees(t, m1, gone)
	ok(t, s1.Close())
	sees(t, m2, f)
}

// TestStandby runs two subnet managers in one simulation: the second leaves the
// fabric to the first.
func TestStandby(t *testing.T) {
	f, ctx := small(), t.Context()
	s := start(t, f)
	first := up(t, s, OpenSMOptions{Host: "Hca0000", Rival: true})
	second, err := s.StartOpenSM(ctx, OpenSMOptions{Host: "Hca0001", Rival: true})
	ok(t, err)
	waitLog(t, second, "Entering STANDBY state", 0)
	if first.Dir() == second.Dir() {
		t.Errorf("both subnet managers keep their files in %s", first.Dir())
	}
	second.Stop(ctx)
	sees(t, first, f)
}

func TestRun(t *testing.T) {
	f, ctx := small(), t.Context()
	s := start(t, f)
	up(t, s, OpenSMOptions{Host: "Hca0000"})
	for range 12 { // more than ibsim has places for clients
		out, err := s.Run(ctx, "Hca0001", "ibnetdiscover")
		ok(t, err)
		if n := bytes.Count(out, []byte("\nSwitch\t")); n != 7 {
			t.Fatalf("ibnetdiscover found %d switches, want 7:\n%s", n, out)
		}
		brief, cancel := context.WithCancelCause(ctx)
		why := errors.New("enough")
		cancel(why)
		if _, err := s.Run(brief, "Hca0001", "sleep", "1000000"); !errors.Is(err, why) {
			t.Fatalf("a run that was called off: got error %v", err)
		}
	}
	if _, err := s.Run(ctx, "Hca0001", "ibnetdiscover", "--no-such-option"); err == nil || !strings.Contains(err.Error(), "exit status") {
		t.Errorf("a tool that fails: got error %v", err)
	}
	if _, err := s.Run(ctx, "Hca0001", "no-such-tool"); err == nil {
		t.Error("no error from a tool that does not exist")
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir(), "run-*")); len(left) != 0 {
		t.Errorf("runs left directories behind: %v", left)
	}
}
