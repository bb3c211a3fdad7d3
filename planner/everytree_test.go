package planner

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/sim"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// This file compares plans for base LIDs with the bounds of the fabric. The walk and the
// bounds use cables and tables, not lanes or the planner.

// cable is a port that messages leave a switch by.
type cable struct {
	node int32
	port uint8
}

// walked follows a LID from the switch of its sender on, and returns the cables that it takes.
func walked(t testing.TB, f *topology.Fabric, tables *lft.Tables, at int32, lid ib.LID, to int32) (way []cable) {
	t.Helper()
	for len(way) < 8 {
		port := tables.Port(tables.Find(f.Nodes[at].GUID), lid)
		if port == lft.NoPath || !f.Nodes[at].Ports[port].Up() {
			t.Fatalf("LID %d is lost at %s", lid, f.Nodes[at].Name)
		}
		way = append(way, cable{at, port})
		if at = f.Nodes[at].Ports[port].Peer; at == to {
			return way
		}
	}
	t.Fatalf("LID %d does not arrive", lid)
	return nil
}

// walkBase walks the plan for base LIDs on the tables: every pair once, and in no phase two
// transfers over a cable, from a server or to one.
func walkBase(t testing.TB, r *Result) {
	t.Helper()
	f, n := r.Tree.Fabric, len(r.Tree.Servers)
	met, cut := make([]bool, n*n), map[[2]int32]bool{}
	for _, p := range r.Base.unreachable() {
		cut[p] = true
	}
	rows := r.Base.Table(0)
	for ph := range rows.Phases {
		taken, heard := map[cable]bool{}, map[int32]bool{}
		for s, d := range rows.To[ph*n:][:n] {
			if d < 0 {
				continue
			}
			src, dst := &r.Tree.Hosts[r.Tree.Servers[s]], &r.Tree.Hosts[r.Tree.Servers[d]]
			if heard[d] || met[s*n+int(d)] || int(d) == s || rows.DLID[ph*n+s] != dst.LID {
				t.Fatalf("phase %d: server %d sends to %d by LID %d", ph, s, d, rows.DLID[ph*n+s])
			}
			heard[d], met[s*n+int(d)] = true, true
			for _, c := range walked(t, f, r.Tables, src.At.Node, dst.LID, dst.Node) {
				if taken[c] {
					t.Fatalf("phase %d: two transfers leave %s by port %d", ph, f.Nodes[c.node].Name, c.port)
				}
				taken[c] = true
			}
		}
	}
	for i, ok := range met {
		if s, d := i/n, i%n; s != d && ok == (cut[[2]int32{int32(s), int32(d)}] || exchangeOf(r.Tree, s) != exchangeOf(r.Tree, d)) {
			t.Fatalf("server %d sends to %d: %t", s, d, ok)
		}
	}
}

// exchangeOf is the exchange of a server.
func exchangeOf(t *topology.FatTree, s int) int {
	if len(t.Exchanges) == 0 {
		return 0
	}
	return t.Hosts[t.Servers[s]].Exchange
}

// busiest counts a whole exchange by base LIDs.
func busiest(t testing.TB, r *Result) (most int) {
	t.Helper()
	load := map[cable]int{}
	for s, i := range r.Tree.Servers {
		for d, j := range r.Tree.Servers {
			src, dst := &r.Tree.Hosts[i], &r.Tree.Hosts[j]
			if i == j || exchangeOf(r.Tree, s) != exchangeOf(r.Tree, d) {
				continue
			}
			for _, c := range walked(t, r.Tree.Fabric, r.Tables, src.At.Node, dst.LID, dst.Node) {
				load[c]++
				most = max(most, load[c])
			}
		}
	}
	return most
}

// cablesTo lists, by spine, how many whole cables a leaf switch has.
func cablesTo(t *topology.FatTree, leaf int32) map[int32]int {
	up := map[int32]int{}
	for p := range t.Fabric.Nodes[leaf].Ports {
		if port := &t.Fabric.Nodes[leaf].Ports[p]; port.Up() && t.Fabric.Nodes[port.Peer].Kind == topology.Switch {
			up[port.Peer]++
		}
	}
	return up
}

// meet reports whether two leaves have cables to the same spine.
func meet(t *topology.FatTree, a, b int32) bool {
	up := cablesTo(t, b)
	for spine := range cablesTo(t, a) {
		if up[spine] > 0 {
			return true
		}
	}
	return false
}

// oneLIDBound is what any tables with one LID a server leave: a server has P−1 others; what a
// leaf of n servers sends to one of another leaf takes one cable whole, n at a time, at either
// end, and one whose spine leads there. The servers of a leaf are in one exchange.
func oneLIDBound(t *topology.FatTree) (bound int) {
	size, exchange := map[int32]int{}, map[int32]int{} // [leaf] servers
	for s, i := range t.Servers {
		size[t.Hosts[i].At.Node]++
		exchange[t.Hosts[i].At.Node] = exchangeOf(t, s)
	}
	for a, n := range size {
		var units []ways // to each other leaf, a server at a time
		others, from := 0, map[int][]ways{}
		for b, m := range size {
			if a == b || exchange[a] != exchange[b] || !meet(t, a, b) {
				continue
			}
			w, abreast := ways{count: m}, 0
			for spine, c := range cablesTo(t, a) {
				if down := cablesTo(t, b)[spine]; down > 0 {
					abreast += min(c, down)
					for i := range c {
						w.over = append(w.over, [2]int32{spine, int32(i)})
					}
				}
			}
			others += m
			bound = max(bound, n*ceil(m, abreast))
			units = append(units, w)
			from[m] = append(from[m], ways{n, w.over}) // as many arrive as it has servers, m at a time
		}
		bound = max(bound, n-1+others, n*least(units))
		for s := range from {
			var in []ways
			for m, w := range from {
				if m >= s {
					in = append(in, w...)
				}
			}
			bound = max(bound, s*least(in))
		}
	}
	return bound
}

// ways are so many units, each over one of some cables.
type ways struct {
	count int
	over  [][2]int32
}

// least is the least that the fullest cable has.
func least(units []ways) int {
	all, cables := 0, map[[2]int32]bool{}
	for _, u := range units {
		all += u.count
		for _, c := range u.over {
			cables[c] = true
		}
	}
	for most := ceil(all, max(1, len(cables))); ; most++ {
		on, ok := map[[2]int32][]int{}, true
		for i := range units {
			for range units[i].count {
				ok = ok && seat(units, i, most, on, map[[2]int32]bool{})
			}
		}
		if ok {
			return most
		}
	}
}

// seat puts a unit on a cable, and others elsewhere to make room.
func seat(units []ways, i, most int, on map[[2]int32][]int, seen map[[2]int32]bool) bool {
	for _, c := range units[i].over {
		if seen[c] {
			continue
		}
		seen[c] = true
		if len(on[c]) < most {
			on[c] = append(on[c], i)
			return true
		}
		for at, other := range on[c] {
			if seat(units, other, most, on, seen) {
				on[c][at] = i
				return true
			}
		}
	}
	return false
}

func ceil(a, b int) int { return (a + b - 1) / b }

// checkBase walks the plan for base LIDs and adds up its load on each cable if all of it is
// sent at once. It returns the phases and the busiest cable in bounds of the fabric.
func checkBase(t testing.TB, r *Result) (phases, at float64) {
	t.Helper()
	if r.Base == nil {
		t.Fatalf("no plan for base LIDs: %v", r.Notes)
	}
	walkBase(t, r)
	bound, b, most := oneLIDBound(r.Tree), r.Report().Base, busiest(t, r)
	if b.Phases < b.LowerBound || b.LowerBound < bound || r.Load.FairShare < bound {
		t.Errorf("%d phases by a bound of %d, a fair share of %d; the fabric has %d", b.Phases, b.LowerBound, r.Load.FairShare, bound)
	}
	if r.Load.BusiestCable != most {
		t.Errorf("a busiest cable of %d, counted %d", r.Load.BusiestCable, most)
	}
	return float64(b.Phases) / float64(bound), float64(most) / float64(bound)
}

// TestEveryTree plans for base LIDs where leaves have more hosts than living lanes, whatever
// the LMC.
func TestEveryTree(t *testing.T) {
	hosts := func(leaves, each, more int) []int {
		h := slices.Repeat([]int{each}, leaves)
		h[0] += more
		return h
	}
	for _, c := range []struct {
		name  string
		spec  fabgen.Spec
		dead  [][2]int
		bound int
	}{
		{"FT(2;20,18) and one more host", fabgen.Spec{Spines: 20, Leaves: 18, Hosts: hosts(18, 20, 1), LMC: 5}, nil, 360},
		{"18 leaves of 21 hosts, 20 spines", fabgen.Spec{Spines: 20, Leaves: 18, Hosts: []int{21}, LMC: 5}, nil, 378},
		{"12 leaves of 24 hosts, 16 spines", fabgen.Spec{Spines: 16, Leaves: 12, Hosts: []int{24}, LMC: 4}, nil, 408},
		{"10 leaves of 12 hosts, 8 spines", fabgen.Spec{Spines: 8, Leaves: 10, Hosts: []int{12}, LMC: 4}, nil, 168},
		{"two cables a spine, one dead", fabgen.Spec{Spines: 5, Leaves: 8, Hosts: []int{10}, Cables: 2, LMC: 4}, [][2]int{{3, 4}}, 80},
	} {
		for _, lmc := range []uint8{c.spec.LMC, 0} {
			c.spec.LMC = lmc
			r, err := Make(bg, fabgen.Damaged(t, c.spec, c.dead...), Settings{})
			if err != nil {
				t.Fatal(err)
			}
			phases, most := checkBase(t, r)
			if bound := oneLIDBound(r.Tree); bound != c.bound || phases > 1.02 || most > 1.1 {
				t.Errorf("%s, LMC %d: %d phases for base LIDs, busiest cable %d, by a bound of %d; want %d", c.name, lmc, r.Base.Plan.Phases, r.Load.BusiestCable, bound, c.bound)
			}
		}
	}
}

// TestDumps does the same with the dumps of a folder, FORS_DUMPS, that are fat trees of two
// levels, and plans exchanges within rails if there are any.
func TestDumps(t *testing.T) {
	dir := os.Getenv("FORS_DUMPS")
	if dir == "" {
		t.Skip("FORS_DUMPS names no folder of dumps")
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, _, err := topology.Read(data)
		if err != nil {
			return nil //nolint:nilerr // of another kind
		}
		b, err := topology.NewBaseline(f)
		if err != nil {
			return nil //nolint:nilerr // of another shape
		}
		tree, err := topology.Fit(f, b, nil)
		if err != nil || len(tree.Servers) == 0 {
			return err
		}
		r, err := Make(bg, tree, Settings{})
		if err != nil {
			t.Logf("%s: %v", path, err)
			return nil
		}
		phases, most := checkBase(t, r)
		t.Logf("%s: %d servers, %d lanes: %d phases, bound %d, busiest cable %d", path, len(tree.Servers), tree.Lanes, r.Base.Plan.Phases, r.Base.least, r.Load.BusiestCable)
		if phases > 1.02 || most > 1.1 {
			t.Errorf("%s: %.3f and %.3f times the bound", path, phases, most)
		}
		x, notes, err := topology.Rails(tree)
		if err != nil {
			return nil //nolint:nilerr // it has none
		}
		if r, err = Make(bg, x.Divide(tree), Settings{}); err != nil {
			return err
		}
		if walkBase(t, r); r.Load.BusiestCable != busiest(t, r) {
			t.Errorf("%s: a busiest cable of %d, counted %d", path, r.Load.BusiestCable, busiest(t, r))
		}
		t.Logf("%s, %s: %d phases for base LIDs, bound %d, busiest cable %d", path, notes[0], r.Base.Plan.Phases, r.Base.least, r.Load.BusiestCable)
		if 100*r.Base.Plan.Phases > 105*r.Base.least || 10*r.Load.BusiestCable > 11*r.Load.FairShare {
			t.Errorf("%s: plans within rails are too long", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEveryDrawnTree checks that plans for base LIDs are hardly longer than the fabric's own
// bound, on average and at worst, with any LMC as with LMC 0, and than a linear shift on the
// same tables. It also checks the load on a cable if all of a plan is sent at once.
func TestEveryDrawnTree(t *testing.T) {
	all := 1.0
	sum, worst, busy, count := 0.0, 0.0, 0.0, share(1000, 60)
	for i := range count {
		spec, dead := fabgen.Drawn(uint64(i))
		r, err := Make(bg, fabgen.Damaged(t, spec, dead...), Settings{MaxUnreachable: &all})
		if err != nil {
			t.Fatalf("tree %d: %v", i, err)
		}
		phases, most := checkBase(t, r)
		if phases > 1.03 {
			t.Logf("tree %d: %d leaves, %d spines of %d cables, %d servers, %d dead, LMC %d: %d phases, bound %d, busiest cable %d", i, spec.Leaves, spec.Spines, spec.Cables, len(r.Tree.Servers), len(dead), spec.LMC, r.Base.Plan.Phases, r.Base.least, r.Load.BusiestCable)
		}
		if sum, worst = sum+phases, max(worst, phases); len(r.Base.Plan.Unreachable) == 0 { // others go by more than one spine
			busy = max(busy, most)
		}
		if shift := phaseTimes(t, r, sim.LinearShift(r.Tree)); shift < r.Base.Plan.Phases {
			t.Errorf("tree %d: %d phases for base LIDs, a linear shift takes %d", i, r.Base.Plan.Phases, shift)
		}
		spec.LMC = 0
		plain, err := Route(bg, fabgen.Damaged(t, spec, dead...), Settings{MaxUnreachable: &all})
		if err != nil || plain.Base == nil || plain.Base.Plan.Phases < r.Base.Plan.Phases {
			t.Errorf("tree %d: %d phases for base LIDs, and fewer at LMC 0 (%v)", i, r.Base.Plan.Phases, err)
		}
	}
	mean := sum / float64(count)
	t.Logf("%d trees: %.4f times the bound on the mean, %.4f at worst; busiest cable %.4f", count, mean, worst, busy)
	if mean > 1.02 || worst > 1.06 || busy > 1.1 {
		t.Errorf("%.4f times the bound on the mean, %.4f at worst, busiest cable %.4f", mean, worst, busy)
	}
}

// entry is a switch's for a base LID.
type entry struct {
	node int32
	lid  ib.LID
}

// baseEntries is the ports by which switches send what servers send to base LIDs, and the entries
// of ways that lead over a cable. What no server's packets pass is left out.
func baseEntries(t testing.TB, f *topology.FatTree, tables *lft.Tables, cut cable) (ports map[entry]uint8, over map[entry]bool) {
	t.Helper()
	ports, over = map[entry]uint8{}, map[entry]bool{}
	peer := f.Fabric.Nodes[cut.node].Ports[cut.port]
	for _, leaf := range leavesWithServers(f) {
		for _, i := range f.Servers {
			h := &f.Hosts[i]
			at := f.Leaves[leaf].Node
			if tables.Port(tables.Find(f.Fabric.Nodes[at].GUID), h.LID) == lft.NoPath {
				continue
			}
			var way []entry
			for _, c := range walked(t, f.Fabric, tables, at, h.LID, h.Node) {
				way = append(way, entry{c.node, h.LID})
				if ports[way[len(way)-1]] = c.port; c == cut || c == (cable{peer.Peer, peer.PeerPort}) {
					for _, e := range way {
						over[e] = true
					}
				}
			}
		}
	}
	return ports, over
}

// TestFewEntriesMove has one more cable die, whatever was dead before. Of the entries for base
// LIDs, no more than one in a hundred move beyond those that lead over it, and those by which a
// cable would carry too much then with any tables; and none move if the tree is planned once more.
func TestFewEntriesMove(t *testing.T) {
	all, worst, sum, long, busy, count, many, beyond, again := 1.0, 0.0, 0.0, 0.0, 0.0, share(1000, 60), 0, 0, 0
	for i := range count {
		spec, dead := fabgen.Drawn(uint64(i))
		f := fabgen.Damaged(t, spec, dead...)
		route := func(f *topology.FatTree, now *Result) *Result {
			s := Settings{MaxUnreachable: &all}
			if now != nil {
				before, err := phasetable.New(now.Base.Table(1))
				if err != nil {
					t.Fatal(err)
				}
				s.Before, s.Tables = before, now.Tables
			}
			r, err := Route(bg, f, s)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		lanes := spec
		lanes.Spines *= spec.Cables
		cut := fabgen.DrawCables(rand.New(rand.NewPCG(uint64(i), 33)), lanes, 1)[0]
		now := fabgen.Damaged(t, spec, append(slices.Clone(dead), cut)...)
		before := route(f, nil)
		after := route(now, before)
		if err := lft.Compare(after.Tables, route(now, after).Tables, lft.LIDs(now.Fabric)); err != nil {
			t.Logf("tree %d, planned once more: %v", i, err)
			again++
		}
		after.Schedule = after.Base
		phases, most := checkBase(t, after)
		if phases > 1.06 {
			t.Logf("tree %d: %v, %d dead and %v: %.4f times the bound, %d phases before", i, spec, len(dead), cut, phases, before.Base.Plan.Phases)
		}
		if long = max(long, phases); len(after.Base.Plan.Unreachable) == 0 {
			busy = max(busy, most)
		}
		at := spec.Uplink(f.Fabric, cut)
		was, over := baseEntries(t, f, before.Tables, cable{at.Node, at.Port})
		moved := 0
		for e, port := range was {
			if after.Tables.Port(after.Tables.Find(f.Fabric.Nodes[e.node].GUID), e.lid) != port && !over[e] {
				moved++
			}
		}
		part := float64(moved) / float64(len(was))
		if part > 0.01 {
			least := fewestMoved(after.Base.Tree, before.Tables, int(1.06*float64(oneLIDBound(now))), moved, share(moved-1, max(len(was)/100, moved-len(was)/100-1)))
			t.Logf("tree %d: %d leaves, %d spines of %d cables, %d servers, %d dead, LMC %d: %d of %d entries move, at least %d must", i, spec.Leaves, spec.Spines, spec.Cables, len(f.Servers), len(dead), spec.LMC, moved, len(was), least)
			if least > moved {
				t.Errorf("tree %d: %d entries move, by the bound %d do", i, moved, least)
			}
			if many++; 100*(moved-least) > len(was) {
				beyond++
			}
		}
		worst, sum = max(worst, part), sum+part
	}
	mean := sum / float64(count)
	t.Logf("%d trees: %.4f of the entries on the mean, %.4f at worst, more than 0.01 on %d, on %d more than 0.01 beyond those that are proved to; %.4f times the bound at worst, busiest cable %.4f; %d change if planned once more", count, mean, worst, many, beyond, long, busy, again)
	if mean > 0.003 || 30*many > count || 1000*beyond > count || long > 1.06 || busy > 1.1 || 50*again > count {
		t.Error("more entries move than need to, or the plan gets too long by those that stay")
	}
}
