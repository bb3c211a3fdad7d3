//go:build umad && cgo

package umad_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/opensm/umad"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/routed"
	"github.com/forsd/forsd/topology"
)

// site is a simulated fabric whose switches hold tables of ours.
type site struct {
	sim    *ibsim.Sim
	fabric *topology.Fabric
	dump   string // file with the fabric, as the manager saw it
	want   *lft.Tables

	sm      *ibsim.OpenSM
	file    string // the table file
	manager ib.LID // of the manager's port
}

func bringUp(t testing.TB, f *topology.Fabric, lmc uint8) *site {
	t.Helper()
	s := simulate(t, f)
	s.manage(t, lmc)
	return s
}

// simulate brings a fabric up that has no manager yet.
func simulate(t testing.TB, f *topology.Fabric) *site {
	t.Helper()
	if err := ibsim.Available(); err != nil {
		t.Fatal(err)
	}
	sim, err := ibsim.Start(t.Context(), ibsim.Options{Fabric: f, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	return &site{sim: sim, fabric: f, file: filepath.Join(sim.Dir(), "planned.lfts")}
}

// manage starts the manager, and has it load tables of ours.
func (s *site) manage(t testing.TB, lmc uint8) {
	t.Helper()
	ctx := t.Context()
	m, err := s.sim.StartOpenSM(ctx, ibsim.OpenSMOptions{Host: "Hca0000", LMC: lmc, RoutingEngine: "file,minhop", LFTsFile: s.file})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.WaitLog(ctx, ibsim.SubnetUp, 0); err != nil {
		t.Fatal(err)
	}
	s.sm, s.dump = m, filepath.Join(m.Dir(), opensm.SubnetFile)
	s.read(t, filepath.Join(m.Dir(), opensm.GUID2LIDFile))
	if err := s.write(t, s.want); err != nil {
		t.Fatal(err)
	}
}

// write has the manager load tables.
func (s *site) write(t testing.TB, tables *lft.Tables) error {
	t.Helper()
	if _, err := opensm.WriteTables(s.file, func(w io.Writer) error { return tables.Write(w, nil) }); err != nil {
		return err
	}
	return s.sm.Sweep(t.Context())
}

// read takes the fabric from the manager's files, and plans tables for it.
func (s *site) read(t testing.TB, guid2lid string) {
	t.Helper()
	var err error
	if s.fabric, err = whole(s.dump); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(guid2lid)
	if err != nil {
		t.Fatal(err)
	}
	ranges, err := topology.ReadGUID2LID(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.fabric.ApplyGUID2LID(ranges); err != nil {
		t.Fatal(err)
	}
	for _, e := range s.fabric.EndPorts() {
		if s.fabric.Nodes[e.Node].Name == "Hca0000" {
			s.manager = e.LID
		}
	}
	if s.want, err = routed.Tables(s.fabric); err != nil {
		t.Fatal(err)
	}
}

// dumped are the tables that dump_fts reads, and how long that takes.
func (s *site) dumped(t testing.TB) (*lft.Tables, time.Duration) {
	t.Helper()
	start := time.Now()
	text, err := s.sim.Run(t.Context(), "Hca0002", "dump_fts", "-n")
	took := time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := lft.ReadBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	return tables, took
}

// lid is the LID of the switch with a description.
func (s *site) lid(name string) ib.LID {
	for i := range s.fabric.Nodes {
		if s.fabric.Nodes[i].Name == name {
			return s.fabric.Nodes[i].LID()
		}
	}
	return 0
}

// port is the GUID of an adapter's port.
func (s *site) port(name string) ib.GUID {
	for i := range s.fabric.Nodes {
		if s.fabric.Nodes[i].Name == name {
			return s.fabric.Nodes[i].Ports[1].GUID
		}
	}
	return 0
}

// TestPaperFabric reads FT(2;20,18) with LMC 5, 38 tables of 12736 entries: they
// are those planned and those that dump_fts reads, for every LID. The ports of a
// switch are as the manager saw them.
func TestPaperFabric(t *testing.T) {
	s := bringUp(t, fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18}), 5)
	c := attach(t, s.sim, "Hca0001", s.dump)
	got := c.do(order{Tables: true, Times: 3})
	if got.Err != "" {
		t.Fatal(got.Err)
	}
	if err := lft.Compare(s.want, got.Tables, lft.LIDs(s.fabric)); err != nil {
		t.Errorf("against the plan: %v", err)
	}
	dumped, took := s.dumped(t)
	if err := lft.Compare(dumped, got.Tables, lft.LIDs(s.fabric)); err != nil {
		t.Errorf("against dump_fts: %v", err)
	}
	t.Logf("%d tables of %d entries in %v, by dump_fts in %v: %.1f times as long", len(got.Tables.Switches),
		len(got.Tables.Switches[0].Out), got.Took, took, took.Seconds()/got.Took.Seconds())

	for _, name := range []string{"Leaf004", "Spine007"} {
		p := c.do(order{Ports: s.lid(name), Times: 20})
		t.Logf("%d ports of %s in %v", len(p.Ports)-1, name, p.Took)
		s.samePorts(t, name, p)
	}
	if self := c.do(order{Self: true}); self.Err != "" || s.fabric.Nodes[s.fabric.Find(self.Node)].Name != "Hca0001" {
		t.Errorf("the local node is %s, %s", self.Node, self.Err)
	}
}

// samePorts compares port states with those that the manager dumped.
func (s *site) samePorts(t *testing.T, name string, got report) {
	t.Helper()
	if got.Err != "" {
		t.Fatal(got.Err)
	}
	for i := range s.fabric.Nodes {
		n := &s.fabric.Nodes[i]
		if n.Name != name {
			continue
		}
		if len(got.Ports) != len(n.Ports) || got.Ports[0].LID != n.LID() || got.Ports[0].SMLID != s.manager {
			t.Fatalf("%s: %d ports, port 0 is %+v; want %d ports, LID %d, the manager at LID %d", name, len(got.Ports), got.Ports[0], len(n.Ports), n.LID(), s.manager)
		}
		for p := 1; p < len(n.Ports); p++ {
			if want := &n.Ports[p]; got.Ports[p].State != want.State || want.Up() && got.Ports[p].Rate != want.Rate {
				t.Errorf("%s port %d: %+v; the manager saw state %d, %s", name, p, got.Ports[p], want.State, want.Rate)
			}
		}
	}
}

// TestLastBlock reads the entries of a LID that begins a block of its own, which
// dump_fts leaves out: 64 for 64 ports that have one LID each.
func TestLastBlock(t *testing.T) {
	s := bringUp(t, fabgen.Generate(fabgen.Spec{Spines: 8, Leaves: 7, Hosts: []int{7}}), 0)
	top := 0
	for _, lid := range lft.LIDs(s.fabric) {
		top = max(top, int(lid))
	}
	if top != lft.Block {
		t.Fatalf("the largest LID is %d, the test needs %d", top, lft.Block)
	}
	c := attach(t, s.sim, "Hca0001", s.dump)
	got := c.do(order{Tables: true})
	if got.Err != "" {
		t.Fatal(got.Err)
	}
	if err := lft.Compare(s.want, got.Tables, lft.LIDs(s.fabric)); err != nil {
		t.Error(err)
	}
}

// TestPulledCable reads the ports of both ends before the manager knows of it;
// then a switch that loses all its cables is named, and the tables of the others
// are read.
func TestPulledCable(t *testing.T) {
	s := bringUp(t, fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3}), 2)
	c := attach(t, s.sim, "Hca0001", s.dump)
	ctx := t.Context()
	const port = 5 // of Leaf002, to Spine001
	if err := s.sim.Unlink(ctx, "Leaf002", port); err != nil {
		t.Fatal(err)
	}
	for name, pulled := range map[string]int{"Leaf002": port, "Spine001": 3} {
		for p, i := range c.do(order{Ports: s.lid(name)}).Ports {
			if p > 0 && (i.State == topology.Active) != (p != pulled) {
				t.Errorf("%s port %d: %+v", name, p, i)
			}
		}
	}
	if err := s.sim.Relink(ctx, "Leaf002", port); err != nil {
		t.Fatal(err)
	}

	c.tell(order{Tables: true, Times: 1 << 30}) // until it fails
	for p := 1; p <= 3; p++ {
		if err := s.sim.Unlink(ctx, "Spine002", p); err != nil {
			t.Fatal(err)
		}
	}
	got := c.hear()
	if !strings.Contains(got.Err, "Spine002") || strings.Contains(got.Err, "Leaf") {
		t.Errorf("error %q, want Spine002 alone in it", got.Err)
	}
	if len(got.Tables.Switches) != 5 {
		t.Errorf("%d tables, want 5", len(got.Tables.Switches))
	}
	if port := c.do(order{Ports: s.lid("Spine002")}); !strings.Contains(port.Err, "does not answer") {
		t.Errorf("ports of a switch without cables: %q", port.Err)
	}
}

// TestRouteWithoutTables reads switches whose tables lead nowhere: by directed
// routes.
func TestRouteWithoutTables(t *testing.T) {
	s := bringUp(t, fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 3}), 1)
	if err := s.write(t, &lft.Tables{}); err != nil {
		t.Fatal(err)
	}
	c := attach(t, s.sim, "Hca0001", s.dump)
	got := c.do(order{Tables: true})
	if got.Err != "" || len(got.Tables.Switches) != 5 {
		t.Fatalf("%s; %d tables", got.Err, len(got.Tables.Switches))
	}
	for i := range got.Tables.Switches {
		for lid, port := range got.Tables.Switches[i].Out {
			if port != lft.NoPath {
				t.Fatalf("switch %d has port %d for LID %d: its table is meant to be empty", i, port, lid)
			}
		}
	}
}

// TestReports subscribes before there is a manager. It receives reports of a pulled cable, and of
// a host that goes and comes, under the first manager and under the next. OpenSM may miss that a
// host comes in mid-sweep, and is asked to sweep.
func TestReports(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	s := simulate(t, f)
	file := filepath.Join(t.TempDir(), "fabric.lst")
	if err := os.WriteFile(file, fabgen.SubnetLst(f), 0o644); err != nil {
		t.Fatal(err)
	}
	env, end, err := s.sim.EnvOpen("Hca0001")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	c := attachBy(t, s.sim, env, file)
	c.tell(order{Traps: true})
	if e := c.hear().Event; !strings.Contains(e.Err, "no subnet manager") {
		t.Fatalf("the first event is %+v", e)
	}
	s.manage(t, 1)
	host := s.port("Hca0003")
	for port, peer := range map[int]string{3: "Spine000", 4: "Spine001"} {
		c.until(func(e *umad.Event) bool { return e.Manager == s.manager })
		if err := s.sim.Unlink(t.Context(), "Leaf001", port); err != nil {
			t.Fatal(err)
		}
		c.until(func(e *umad.Event) bool {
			n := e.Notice
			return n != nil && n.Trap == umad.TrapLinkState && (n.Subject == s.lid("Leaf001") || n.Subject == s.lid(peer))
		})
		if err := s.sim.Relink(t.Context(), "Leaf001", port); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.sim.Unlink(t.Context(), "Hca0003", 1), s.sm.Sweep(t.Context())); err != nil {
			t.Fatal(err)
		}
		c.until(func(e *umad.Event) bool {
			return e.Notice != nil && e.Notice.Trap == umad.TrapOutOfService && e.Notice.GUID == host
		})
		if err := errors.Join(s.sim.Relink(t.Context(), "Hca0003", 1), s.sm.Sweep(t.Context())); err != nil {
			t.Fatal(err)
		}
		c.until(func(e *umad.Event) bool {
			return e.Notice != nil && e.Notice.Trap == umad.TrapInService && e.Notice.GUID == host
		})
		s.sm.Kill()
		c.until(func(e *umad.Event) bool { return strings.Contains(e.Err, "does not answer") })
		if err := s.sm.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// until hears events until one is as wanted.
func (c *client) until(wanted func(*umad.Event) bool) {
	c.t.Helper()
	for {
		e := c.hear().Event
		c.t.Logf("%+v %+v", e, e.Notice)
		if wanted(e) {
			return
		}
	}
}

// BenchmarkTables prints the time of dump_fts in ratio to ours.
func BenchmarkTables(b *testing.B) {
	s := bringUp(b, fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18}), 5)
	c := attach(b, s.sim, "Hca0001", s.dump)
	var own, theirs time.Duration
	for b.Loop() {
		_, took := s.dumped(b)
		theirs += took
		got := c.do(order{Tables: true})
		if got.Err != "" {
			b.Fatal(got.Err)
		}
		own += got.Took
	}
	b.ReportMetric(float64(own.Milliseconds())/float64(b.N), "own-ms/op")
	b.ReportMetric(theirs.Seconds()/own.Seconds(), "dump_fts/own")
}
