package liquid_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// tree is FT(2;20,18) with 360 hosts and tables of base LIDs, without the cables of
// leaf 0 to the first spines.
func tree(t testing.TB, lost int) *liquid.Routes {
	t.Helper()
	f := fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18})
	base, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range lost {
		f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID), Port: uint8(21 + i)})
	}
	fitted, err := topology.Fit(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := lft.Build(fitted)
	if err != nil {
		t.Fatal(err)
	}
	routes, err := liquid.Trace(f, tables, f.ConnectedHosts(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

// Test360Hosts schedules 129,240 transfers, with and without dead cables. The budget is in
// moves, not time, for a stable result; FORS_LONG=1 and TestOtherShapes have more.
func Test360Hosts(t *testing.T) {
	for _, c := range []struct{ lost, within int }{{0, 0}, {1, 8}, {3, 0}} {
		routes := tree(t, c.lost)
		if routes.Traffic.Len() != 129240 || len(routes.Cut) != 0 {
			t.Fatalf("%d transfers and %d pairs without a path, want 129240 and none", routes.Traffic.Len(), len(routes.Cut))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		r, err := liquid.Make(t.Context(), routes.Traffic, liquid.Options{Moves: 1_000})
		if err != nil {
			t.Fatal(err)
		}
		spent := time.Since(start)
		runtime.ReadMemStats(&after)
		gap := len(r.Schedule) - routes.Traffic.Duration()
		t.Logf("%d dead cables: Λ = %d, %d steps by %s, %d over Λ, in %v; %d MB allocated in all", c.lost, routes.Traffic.Duration(), len(r.Schedule), r.Method,
			gap, spent, (after.TotalAlloc-before.TotalAlloc)>>20)
		if gap > c.within {
			t.Errorf("%d dead cables: %d steps over Λ, want at most %d", c.lost, gap, c.within)
		}
		if most := uint64(1 << 30); after.TotalAlloc-before.TotalAlloc > most {
			t.Errorf("%d bytes were allocated, want at most %d", after.TotalAlloc-before.TotalAlloc, most)
		}
		table, err := routes.Table(r.Schedule)
		if err != nil {
			t.Fatal(err)
		}
		if err := routes.Check(table); err != nil {
			t.Error(err)
		}
	}
}
