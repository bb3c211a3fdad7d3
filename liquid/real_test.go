package liquid_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/planner"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/topology"
)

// programmed is a fabric as OpenSM sees it, with the tables that were read back out
// of its switches.
func programmed(t *testing.T, fabric *topology.Fabric, engine string) (*topology.Fabric, *lft.Tables) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := ibsim.Start(ctx, ibsim.Options{Fabric: fabric})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	m, err := s.StartOpenSM(ctx, ibsim.OpenSMOptions{Host: "Hca0000", RoutingEngine: engine})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.WaitLog(ctx, ibsim.SubnetUp, 0); err != nil {
		t.Fatal(err)
	}
	f, tables, err := readBack(ctx, s, m)
	if err != nil {
		t.Fatal(err)
	}
	log, err := m.Log()
	if err != nil {
		t.Fatal(err)
	}
	used := ""
	for line := range strings.Lines(string(log)) {
		if e, ok := opensm.ClassifyLog(line); ok && e.Kind == opensm.EngineUsed {
			used = e.Engine
		}
	}
	if used != engine {
		t.Fatalf("OpenSM has routed by %s, not by %s", used, engine)
	}
	return f, tables
}

// readBack reads OpenSM's dump of the fabric and the switches' tables.
func readBack(ctx context.Context, s *ibsim.Sim, m *ibsim.OpenSM) (*topology.Fabric, *lft.Tables, error) {
	dump, err := os.ReadFile(filepath.Join(m.Dir(), "opensm-subnet.lst"))
	if err != nil {
		return nil, nil, err
	}
	f, err := topology.ReadSubnetLst(dump)
	if err != nil {
		return nil, nil, err
	}
	lids, err := os.ReadFile(filepath.Join(m.Dir(), "guid2lid"))
	if err != nil {
		return nil, nil, err
	}
	ranges, err := topology.ReadGUID2LID(lids)
	if err != nil {
		return nil, nil, err
	}
	text, err := s.Run(ctx, "Hca0000", "dump_fts", "-n")
	if err != nil {
		return nil, nil, err
	}
	tables, err := lft.ReadBytes(text)
	return f, tables, errors.Join(f.ApplyGUID2LID(ranges), err)
}

// schedule schedules all to all, and verifies it on the tables.
func schedule(t *testing.T, f *topology.Fabric, tables *lft.Tables) (*liquid.Routes, *liquid.Result, int) {
	t.Helper()
	routes, err := liquid.Trace(f, tables, f.ConnectedHosts(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(routes.Cut) > 0 {
		t.Errorf("%d pairs have no path, the first because: %v", len(routes.Cut), routes.Cut[0].Reason)
	}
	var o liquid.Options // FORS_LONG=1 gives it the time that forsctl gives it
	if os.Getenv("FORS_LONG") == "" {
		o.Nodes, o.Moves = 300_000, 20_000
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := liquid.Make(ctx, routes.Traffic, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("found in %v", time.Since(start))
	if err := liquid.Verify(routes.Traffic, r.Schedule); err != nil {
		t.Error(err)
	}
	table, err := routes.Table(r.Schedule)
	if err != nil {
		t.Fatal(err)
	}
	if err := routes.Check(table); err != nil {
		t.Error(err)
	}
	shift := timeOf(t, f, tables, sim.HostShift(routes.Hosts))
	if len(r.Schedule) < routes.Traffic.Duration() || len(r.Schedule) > shift {
		t.Errorf("%d steps, Λ = %d, and the linear shift takes %d", len(r.Schedule), routes.Traffic.Duration(), shift)
	}
	return routes, r, shift
}

// timeOf is the time of an exchange: that of a phase is the number of transfers on its
// busiest link.
func timeOf(t *testing.T, f *topology.Fabric, tables *lft.Tables, rows []sim.Row) int {
	t.Helper()
	result, err := sim.Run(f, tables, rows)
	if err != nil {
		t.Fatal(err)
	}
	if result.Lost > 0 {
		t.Errorf("%d transfers are lost: %s", result.Lost, result.FirstLost)
	}
	time := 0
	for _, most := range result.PerPhaseMax {
		time += most
	}
	return time
}

func needOpenSM(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts OpenSM")
	}
	if err := ibsim.Available(); err != nil {
		t.Skip(err)
	}
}

// row prints a line of the table in docs/liquid.md.
func row(name, engine string, routes *liquid.Routes, r *liquid.Result, shift int) string {
	t := routes.Traffic
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %s | %d | %.2f |", name, engine, len(routes.Hosts), t.Len(), t.Duration(),
		len(r.Schedule), r.Method, shift, float64(shift)/float64(len(r.Schedule)))
}

// TestOtherShapes schedules all to all on a dragonfly and on a torus, on the tables
// that OpenSM has programmed.
func TestOtherShapes(t *testing.T) {
	needOpenSM(t)
	for _, c := range []struct {
		name    string
		fabric  *topology.Fabric
		engines []string
	}{
		{"dragonfly, 9 groups of 4 routers", fabgen.Dragonfly(9, 4, 2), []string{"minhop", "dfsssp"}},
		{"torus, 6×6", fabgen.Torus(6, 6, 2), []string{"minhop", "dfsssp", "dor"}},
	} {
		for _, engine := range c.engines {
			t.Run(c.name+" "+engine, func(t *testing.T) {
				f, tables := programmed(t, c.fabric, engine)
				routes, r, shift := schedule(t, f, tables)
				t.Log(row(c.name, engine, routes, r, shift))
				if over := len(r.Schedule) - routes.Traffic.Duration(); over > 0 {
					t.Errorf("%d steps over Λ, want none", over)
				}
			})
		}
	}
}

// TestDamagedFatTree compares three ways to use a fat tree that has lost cables: the
// liquid schedule and the linear shift on the tables of min-hop, and forsd's plan on
// its own tables.
func TestDamagedFatTree(t *testing.T) {
	needOpenSM(t)
	for _, c := range []struct {
		name string
		lost [][2]int // leaf and port; the cables to spines are at ports 9 to 16
	}{
		{"1 cable", [][2]int{{0, 9}}},
		{"3 cables of a leaf", [][2]int{{0, 9}, {0, 10}, {0, 11}}},
		{"6 cables of 6 leaves", [][2]int{{0, 9}, {1, 10}, {2, 12}, {3, 13}, {5, 15}, {7, 16}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fabric := fabgen.Generate(fabgen.Spec{Spines: 8, Leaves: 8})
			base, err := topology.NewBaseline(fabric)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range c.lost {
				fabric.Disconnect(topology.PortRef{Node: fabric.Find(fabgen.LeafGUID + ib.GUID(at[0])), Port: uint8(at[1])})
			}
			f, tables := programmed(t, fabric, "minhop")
			routes, r, shift := schedule(t, f, tables)
			tree, err := topology.Fit(f, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			if time := timeOf(t, f, tables, sim.LinearShift(tree)); time != shift {
				t.Errorf("the linear shift takes %d on the hosts in their order, and %d on the tree's servers", shift, time)
			}
			// forsd's plan needs an LMC with a LID for each lane.
			own := fabgen.Generate(fabgen.Spec{Spines: 8, Leaves: 8, LMC: 3})
			for _, at := range c.lost {
				own.Disconnect(topology.PortRef{Node: own.Find(fabgen.LeafGUID + ib.GUID(at[0])), Port: uint8(at[1])})
			}
			if tree, err = topology.Fit(own, base, nil); err != nil {
				t.Fatal(err)
			}
			plan, err := planner.Make(context.Background(), tree, planner.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(row("FT(2;8,8), "+c.name, "minhop", routes, r, shift), "forsd", plan.Rows.Phases)
			if plan.Rows.Phases > len(r.Schedule) {
				t.Errorf("forsd's plan has %d phases on its own tables, the liquid schedule %d on those of min-hop", plan.Rows.Phases, len(r.Schedule))
			}
		})
	}
}

// TestLarge schedules the 129,240 transfers of FT(2;20,18) on the tables of OpenSM's
// min-hop and dfsssp, intact, and without one and three cables.
func TestLarge(t *testing.T) {
	needOpenSM(t)
	if os.Getenv("FORS_LONG") == "" {
		t.Skip("it takes a minute and more: FORS_LONG=1 runs it")
	}
	for _, lost := range []int{0, 1, 3} {
		fabric := fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18})
		for i := range lost {
			fabric.Disconnect(topology.PortRef{Node: fabric.Find(fabgen.LeafGUID), Port: uint8(21 + i)})
		}
		for _, engine := range []string{"minhop", "dfsssp"} {
			f, tables := programmed(t, fabric, engine)
			routes, r, shift := schedule(t, f, tables)
			t.Log(row(fmt.Sprintf("FT(2;20,18), %d dead", lost), engine, routes, r, shift))
		}
	}
}
