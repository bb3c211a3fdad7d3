package liquid_test

import (
	"slices"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/liquid"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestTorusHasLiquid constructs a liquid schedule of all to all on the 6×6 torus
// under OpenSM's dor, which Make does not find. The tables look the same from every
// switch, so a shift along the diagonal, one in x and one in y, maps the exchange to
// itself. It suffices to schedule the orbits of transfers, 852 in place of 5112, over
// the orbits of links: those of a step share none.
func TestTorusHasLiquid(t *testing.T) {
	needOpenSM(t)
	f, tables := programmed(t, fabgen.Torus(side, side, 2), "dor")
	routes, err := liquid.Trace(f, tables, f.ConnectedHosts(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := routes.Traffic
	at := make(map[liquid.Pair]liquid.Transfer)
	for x := range all.Len() {
		at[all.Pair(liquid.Transfer(x))] = liquid.Transfer(x)
	}
	var pairs []liquid.Pair
	var paths [][]liquid.Link
	var orbits [][]liquid.Transfer
	for x := range all.Len() {
		p := all.Pair(liquid.Transfer(x))
		if p.Src/2%side != 0 {
			continue // the orbit of one from the first column
		}
		path, orbit := linkOrbits(t, f, tables, routes.Hosts, p), []liquid.Transfer(nil)
		for q, n := p, 0; n < side; q, n = (liquid.Pair{Src: along(q.Src), Dst: along(q.Dst)}), n+1 {
			if other := linkOrbits(t, f, tables, routes.Hosts, q); !slices.Equal(other, path) {
				t.Fatalf("pair %v goes over %v, and %v, a step along the diagonal, over %v", p, path, q, other)
			}
			orbit = append(orbit, at[q])
		}
		pairs, paths, orbits = append(pairs, p), append(paths, path), append(orbits, orbit)
	}
	quotient, err := liquid.NewTraffic(side*8, pairs, paths)
	if err != nil {
		t.Fatal(err)
	}
	r, err := liquid.Make(t.Context(), quotient, liquid.Options{Method: liquid.MethodSearch})
	if err != nil {
		t.Fatal(err)
	}
	var schedule liquid.Schedule
	for _, step := range r.Schedule {
		var whole []liquid.Transfer
		for _, orbit := range step {
			whole = append(whole, orbits[orbit]...)
		}
		schedule = append(schedule, whole)
	}
	if err := liquid.VerifyLiquid(all, schedule); err != nil {
		t.Error(err)
	}
	if len(orbits) != 852 || all.Len() != 5112 || len(schedule) != 144 || all.Duration() != 144 {
		t.Errorf("%d orbits of %d transfers, %d steps, Λ = %d: want 852 of 5112, and 144", len(orbits), all.Len(), len(schedule), all.Duration())
	}
}

// side is the side of the torus. Switch s is in row s/side and column s%side, and
// has the hosts 2s and 2s+1.
const side = 6

// along is the image of a host under a shift along the diagonal.
func along(host int32) int32 {
	s := host / 2
	return 2*((s/side+1)%side*side+(s+1)%side) + host%2
}

// linkOrbits is the orbits of the links between two hosts: that of a link out of a
// port of a switch is a diagonal and the port; a host's has number 0 or 7 in place of
// a port.
func linkOrbits(t *testing.T, f *topology.Fabric, tables *lft.Tables, hosts []topology.EndPort, p liquid.Pair) []liquid.Link {
	t.Helper()
	hops, err := tables.Trace(f, hosts[p.Src].PortRef, hosts[p.Dst].LID)
	if err != nil {
		t.Fatal(err)
	}
	diagonal := func(s int) int { return (s/side + side - s%side) % side }
	path := []liquid.Link{liquid.Link(8*diagonal(int(p.Src/2)) + int(p.Src%2)*7)}
	for _, h := range hops[1 : len(hops)-1] {
		path = append(path, liquid.Link(8*diagonal(int(f.Nodes[h.Node].GUID-fabgen.LeafGUID))+int(h.Out)))
	}
	return path
}
