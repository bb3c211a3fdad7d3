//go:build umad && cgo

package umad_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"forsd/internal/fabgen"
	"forsd/internal/ibsim"
	"forsd/lft"
	"forsd/opensm"
	"forsd/topology"
)

// site is a simulated fabric whose switches hold tables of ours.
type site struct {
	sim    *ibsim.Sim
	fabric *topology.Fabric
	dump   string // file with the fabric, as the manager saw it
	want   *lft.Tables
}

func bringUp(t testing.TB, f *topology.Fabric, lmc uint8) *site {
	t.Helper()
	if err := ibsim.Available(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	sim, err := ibsim.Start(ctx, ibsim.Options{Fabric: f, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	s := &site{sim: sim}
	file := filepath.Join(sim.Dir(), "planned.lfts")
	if _, err := opensm.InstallEmpty(file); err != nil {
		t.Fatal(err)
	}
	m, err := sim.StartOpenSM(ctx, ibsim.OpenSMOptions{Host: "Hca0000", LMC: lmc, RoutingEngine: "file,no_fallback", LFTsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.WaitLog(ctx, ibsim.SubnetUp, 0); err != nil {
		t.Fatal(err)
	}
	s.dump = filepath.Join(m.Dir(), opensm.SubnetFile)
	s.read(t, filepath.Join(m.Dir(), opensm.GUID2LIDFile))
	if _, err := opensm.WriteTables(file, func(w io.Writer) error { return s.want.Write(w, nil) }); err != nil {
		t.Fatal(err)
	}
	if err := m.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// read takes the fabric from the manager's files, and plans tables for it.
func (s *site) read(t testing.TB, guid2lid string) {
	t.Helper()
	data, err := os.ReadFile(s.dump)
	if err != nil {
		t.Fatal(err)
	}
	if s.fabric, _, err = topology.Read(data); err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(guid2lid); err != nil {
		t.Fatal(err)
	}
	ranges, err := topology.ReadGUID2LID(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.fabric.ApplyGUID2LID(ranges); err != nil {
		t.Fatal(err)
	}
	b, err := topology.NewBaseline(s.fabric)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := topology.Fit(s.fabric, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.want, err = lft.Build(tree); err != nil {
		t.Fatal(err)
	}
}

// TestPaperFabric reads FT(2;20,18) with LMC 5, 38 tables of 12736 entries: they
// are those planned and those that dump_fts reads, and come in a small part of
// its time.
func TestPaperFabric(t *testing.T) {
	s := bringUp(t, fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18}), 5)
	c := attach(t, s.sim, "Hca0001", s.dump)
	got := c.do(order{Tables: true, Times: 5})
	if got.Err != "" {
		t.Fatal(got.Err)
	}
	if err := lft.Compare(s.want, got.Tables, lft.LIDs(s.fabric)); err != nil {
		t.Error(err)
	}
	t.Log(got.Took)
	p := c.do(order{Ports: s.fabric.Nodes[s.fabric.Find(got.Tables.Switches[0].GUID)].LID(), Times: 20})
	t.Log(p.Took, len(p.Ports), p.Err, p.Ports[1])
}
