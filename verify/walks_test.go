package verify

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// walked is a plan with all that NewWalk and Done are given.
type walked struct {
	tree        *topology.PodTree
	tables      *lft.Tables
	servers     []topology.EndPort
	phases      [][]Transfer
	unreachable [][2]int32
}

// drawWalk draws a tree of three levels with damage, its tables, and a plan of one transfer
// after the other, squeezed into few phases.
func drawWalk(t *testing.T, rng *rand.Rand) *walked {
	spec := fabgen.TreeSpec{Pods: 2 + rng.IntN(2), Leaves: 1 + rng.IntN(2), Mids: 1 + rng.IntN(2), Tops: 1 + rng.IntN(2), Hosts: 1 + rng.IntN(2),
		TopCables: 1 + rng.IntN(2), LMC: uint8(rng.IntN(2)), Shuffle: rng.Uint64N(3)}
	f := fabgen.GenerateTree(spec)
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		return nil // too small for three levels
	}
	for _, part := range spec.Draw(rng, fabgen.Damage{LeafCables: rng.IntN(3), TopCables: rng.IntN(4)}) {
		_, _ = f.Fail(part) // a cable may be drawn by both of its ends
	}
	tree, err := topology.FitPods(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &walked{tree: tree}
	if w.tables, err = lft.BuildPods(t.Context(), tree, nil); err != nil {
		t.Fatal(err)
	}
	for _, h := range tree.Servers {
		w.servers = append(w.servers, tree.Hosts[h].EndPort)
	}
	w.plan(t)
	return w
}

// plan puts each transfer into the first phase that takes it, by the reference walker.
func (w *walked) plan(t *testing.T) {
	t.Helper()
	var taken []map[topology.PortRef]bool // [phase]
	for s := range w.servers {
		for d := range w.servers {
			if s == d {
				continue
			}
			x := Transfer{int32(s), int32(d), w.servers[d].LID}
			way, err := w.way(x)
			if err != nil {
				w.unreachable = append(w.unreachable, [2]int32{x.Src, x.Dst})
				continue
			}
			p := 0
			for p < len(taken) && slices.ContainsFunc(way, func(r topology.PortRef) bool { return taken[p][r] }) {
				p++
			}
			if p == len(taken) {
				taken, w.phases = append(taken, map[topology.PortRef]bool{}), append(w.phases, nil)
			}
			for _, r := range way {
				taken[p][r] = true
			}
			w.phases[p] = append(w.phases[p], x)
		}
	}
}

// way is the ports that a transfer leaves by, its source's first.
func (w *walked) way(x Transfer) ([]topology.PortRef, error) {
	src, dst := w.servers[x.Src], w.servers[x.Dst]
	if x.Src == x.Dst || x.DLID < dst.LID || x.DLID >= dst.LID+1<<dst.LMC {
		return nil, fmt.Errorf("LID %d is not the destination's", x.DLID)
	}
	way, end, err := trace(w.tree.Fabric, w.tables, w.tree.Fabric.At(src.PortRef).Peer, x.DLID)
	if err == nil && end != dst.PortRef {
		err = fmt.Errorf("it comes to %v", end)
	}
	return append([]topology.PortRef{src.PortRef}, way...), err
}

// slow is the verdict of the reference walker.
func (w *walked) slow() error {
	met := map[[2]int32]bool{}
	for p, phase := range w.phases {
		taken := map[topology.PortRef]bool{}
		for _, x := range phase {
			way, err := w.way(x)
			if err != nil {
				return err
			}
			for _, r := range way {
				if taken[r] {
					return fmt.Errorf("phase %d: %v twice", p, r)
				}
				taken[r] = true
			}
			pair := [2]int32{x.Src, x.Dst}
			if met[pair] {
				return fmt.Errorf("%v twice", pair)
			}
			met[pair] = true
		}
	}
	for _, u := range w.unreachable {
		if met[u] || w.joined(u[0], u[1]) {
			return fmt.Errorf("%v is not unreachable", u)
		}
		met[u] = true
	}
	if n := len(w.servers); len(met) != n*(n-1) {
		return fmt.Errorf("%d pairs", len(met))
	}
	return nil
}

// joined reports, by the lists of cables, whether a lane or a plane joins two servers.
func (w *walked) joined(s, d int32) bool {
	t := w.tree
	a, b := t.Hosts[t.Servers[s]].Leaf, t.Hosts[t.Servers[d]].Leaf
	if a == b {
		return true
	}
	for k := range t.Lanes {
		j := t.Lanes[k].Plane
		if t.LeafUp(a, j) && t.LeafUp(b, j) && (t.Leaves[a].Pod == t.Leaves[b].Pod || t.LaneUp(t.Leaves[a].Pod, k) && t.LaneUp(t.Leaves[b].Pod, k)) {
			return true
		}
	}
	return false
}

// fast is the verdict of Walk: by phases one after the other for no workers.
func (w *walked) fast(workers int) error {
	x, err := NewWalk(w.tree.Fabric, w.tables, w.servers)
	if err != nil {
		return err
	}
	if workers == 0 {
		for _, p := range w.phases {
			if err := x.Phase(p); err != nil {
				return err
			}
		}
		return x.Done(w.tree, w.unreachable)
	}
	err = x.Phases(len(w.phases), workers, func() func(int) ([]Transfer, error) {
		return func(p int) ([]Transfer, error) { return w.phases[p], nil }
	})
	if err != nil {
		return err
	}
	return x.Done(w.tree, w.unreachable)
}

// spoil makes a mistake.
func (w *walked) spoil(rng *rand.Rand) {
	x := func() *Transfer {
		p := w.phases[rng.IntN(len(w.phases))]
		return &p[rng.IntN(len(p))]
	}
	server := func() int32 { return int32(rng.IntN(len(w.servers))) }
	switch i := rng.IntN(len(w.phases)); rng.IntN(8) {
	case 0:
		w.phases[i] = w.phases[i][1:]
		if len(w.phases[i]) == 0 {
			w.phases = slices.Delete(w.phases, i, i+1)
		}
	case 1:
		w.phases[i] = append(w.phases[i], *x())
	case 2:
		x().DLID += ib.LID(rng.IntN(5) - 2)
	case 3:
		t, d := x(), server()
		t.Dst, t.DLID = d, w.servers[d].LID
	case 4:
		w.unreachable = append(w.unreachable, [2]int32{server(), server()})
	case 5:
		if n := len(w.unreachable); n > 0 {
			w.unreachable = slices.Delete(w.unreachable, n-1, n)
		}
	case 6: // two transfers change phases
		a, b := x(), x()
		*a, *b = *b, *a
	case 7:
		s := &w.tables.Switches[rng.IntN(len(w.tables.Switches))]
		s.Out[w.servers[server()].LID] = uint8(rng.IntN(s.Ports + 2))
	}
}

// TestWalkMutation compares Walk with the reference walker, on plans that are right and on
// others. The first violation is the same on any number of goroutines.
func TestWalkMutation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	good, left := 0, 0
	for n := 0; n < 1500; n++ {
		w := drawWalk(t, rng)
		if w == nil || len(w.phases) == 0 {
			continue
		}
		if err := w.fast(n % 3); err != nil {
			t.Fatalf("valid plan: %v", err)
		}
		left += len(w.unreachable)
		w.spoil(rng)
		if len(w.phases) == 0 {
			continue
		}
		slow := w.slow()
		if slow == nil {
			good++
		}
		for workers := range 3 {
			if got := w.fast(workers); (got == nil) != (slow == nil) || got != nil && got.Error() != w.fast(0).Error() {
				t.Fatalf("%d workers: %v, one: %v, the reference walker says %v", workers, got, w.fast(0), slow)
			}
		}
	}
	if good < 20 || left < 100 {
		t.Errorf("%d mistakes were none, and %d pairs had no way", good, left)
	}
}

// shiftOn is the linear shift of a k-ary tree, on tables of which one is the other's.
func shiftOn(t *testing.T, k int) *walked {
	t.Helper()
	tree := fabgen.FittedPods(t, fabgen.GenerateTree(fabgen.KAry(k)))
	w := &walked{tree: tree}
	var err error
	if w.tables, err = lft.BuildPods(t.Context(), tree, nil); err != nil {
		t.Fatal(err)
	}
	for _, h := range tree.Servers {
		w.servers = append(w.servers, tree.Hosts[h].EndPort)
	}
	n := len(w.servers)
	w.phases = make([][]Transfer, n-1)
	for p := range w.phases {
		for s := range n {
			d := (s + p + 1) % n
			w.phases[p] = append(w.phases[p], Transfer{int32(s), int32(d), w.servers[d].LID})
		}
	}
	return w
}

// TestWalkWords spoils a plan of 127 phases, more than a goroutine checks in a row, and
// compares the violation, word for word.
func TestWalkWords(t *testing.T) {
	w := shiftOn(t, 8)
	plan := w.phases
	entry := func(name string, lid ib.LID) *uint8 {
		for i := range w.tables.Switches {
			if w.tables.Switches[i].Name == name {
				return &w.tables.Switches[i].Out[lid]
			}
		}
		t.Fatal(name)
		return nil
	}
	lid := w.servers[127].LID
	for _, c := range []struct {
		spoil func(p [][]Transfer)
		want  string
	}{
		{func([][]Transfer) {}, "<nil>"},
		{func(p [][]Transfer) { p[100] = p[100][1:] }, "Hca0000 port 1 → Hca0101 port 1 is in no phase (pair-missing)"},
		{func(p [][]Transfer) { p[126] = p[126][:127] }, "Hca0127 port 1 → Hca0126 port 1 is in no phase (pair-missing)"},
		{func(p [][]Transfer) { p[100] = p[3] }, "phase 100: Hca0000 port 1 → Hca0004 port 1 occurs again (pair-twice)"},
		{func(p [][]Transfer) { p[99] = p[98] }, "phase 99: Hca0000 port 1 → Hca0099 port 1 occurs again (pair-twice)"},
		{func(p [][]Transfer) { p[110] = append(p[110], p[111][5]) }, "phase 110: Hca0005 port 1 sends twice (sends-twice)"},
		{func(p [][]Transfer) { p[110][7].Dst = p[110][6].Dst }, "phase 110: Hca0117 port 1 receives twice (receives-twice)"},
		{func(p [][]Transfer) { p[110][7].DLID++ }, fmt.Sprintf("phase 110: Hca0007 port 1 → Hca0118 port 1 has DLID %d, which is none of the destination's (wrong-dlid)", w.servers[118].LID+1)},
		{func(p [][]Transfer) { p[110][7].DLID-- }, fmt.Sprintf("phase 110: Hca0007 port 1 → Hca0118 port 1 has DLID %d, which is none of the destination's (wrong-dlid)", w.servers[118].LID-1)},
		{func(p [][]Transfer) { p[0][0].Dst = 128 }, "phase 0: a transfer from server 0 to server 128: there are 128 servers (bad-rows)"},
		{func(p [][]Transfer) { p[0][0].Dst = -1 }, "phase 0: a transfer from server 0 to server -1: there are 128 servers (bad-rows)"},
		{func(p [][]Transfer) { p[0][0].Src = 128 }, "phase 0: a transfer from server 128 to server 1: there are 128 servers (bad-rows)"},
		{func(p [][]Transfer) { p[0][0].Src = -1 }, "phase 0: a transfer from server -1 to server 1: there are 128 servers (bad-rows)"},
		{func(p [][]Transfer) { p[0][0].Dst = 0 }, "phase 0: a transfer from server 0 to server 0: there are 128 servers (bad-rows)"},
		{func([][]Transfer) { *entry("Leaf000", lid) = lft.NoPath }, fmt.Sprintf("phase 123: Hca0003 port 1 → Hca0127 port 1: Leaf000 has no entry for LID %d (no-entry)", lid)},
		{func([][]Transfer) { *entry("Leaf000", lid) = 1 }, fmt.Sprintf("phase 123: Hca0003 port 1 → Hca0127 port 1 by LID %d comes to Hca0000 port 1 (wrong-destination)", lid)},
		{func([][]Transfer) { *entry("Leaf000", lid) = 9 }, fmt.Sprintf("phase 123: Hca0003 port 1 → Hca0127 port 1 by LID %d: Leaf000 has no port 9: it has 8 ports (down-port)", lid)},
		{func([][]Transfer) { *entry("Leaf000", lid) = 5 + (*entry("Leaf000", lid)-4)%4 }, fmt.Sprintf("phase 123: Hca0003 port 1 → Hca0127 port 1 by LID %d takes Leaf000 port 5, as another transfer does (link-twice)", lid)},
		{func([][]Transfer) { *entry("Mid003", lid) = 1 }, fmt.Sprintf("phase 111: Hca0015 port 1 → Hca0127 port 1 by LID %d goes over more than 64 switches (loop)", lid)},
	} {
		spoilt := make([][]Transfer, len(plan))
		for p := range plan {
			spoilt[p] = slices.Clone(plan[p])
		}
		kept := *entry("Leaf000", lid)
		c.spoil(spoilt)
		w.phases = spoilt
		for workers := range 4 {
			if got := fmt.Sprint(w.fast(workers)); !strings.HasPrefix(got, c.want) {
				t.Errorf("%d workers: %s\nwant %s", workers, got, c.want)
			}
		}
		*entry("Leaf000", lid) = kept
	}
}

// TestTrails checks that the ways of a phase are known after it, except for a few that others
// have driven out, and that they are right.
func TestTrails(t *testing.T) {
	w := shiftOn(t, 8)
	x, err := NewWalk(w.tree.Fabric, w.tables, w.servers)
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, phase := range w.phases {
		if err := x.Phase(phase); err != nil {
			t.Fatal(err)
		}
		for _, p := range phase {
			at, lid := x.at[p.Src], int32(p.DLID)
			trail := x.find(at, lid)
			if trail == nil {
				continue
			}
			known++
			var way []channel
			for c := x.through(at, int(lid)); x.isSwitch(x.next[c]); c = x.through(x.next[c], int(lid)) {
				way = append(way, c)
			}
			if trail.goal != x.ends[p.Dst].at || !slices.Equal(trail.by[:trail.n], way) {
				t.Fatalf("%v: %+v, want %v", p, trail, way)
			}
		}
	}
	if all := len(w.phases) * len(w.servers); 100*known < 80*all {
		t.Errorf("%d of %d ways are known", known, all)
	}
}

// TestWaysWithinPods has a pair of one pod called unreachable whose mids have lost all tops.
func TestWaysWithinPods(t *testing.T) {
	f := fabgen.GenerateTree(fabgen.KAry(4))
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	fabgen.Fails(t, "Mid000/3", "Mid000/4", "Mid001/3", "Mid001/4")(f)
	w := &walked{}
	if w.tree, err = topology.FitPods(f, base, nil); err != nil {
		t.Fatal(err)
	}
	for _, h := range w.tree.Servers {
		w.servers = append(w.servers, w.tree.Hosts[h].EndPort)
	}
	if w.tables, err = lft.BuildPods(t.Context(), w.tree, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pair [2]int32
		code string
	}{{[2]int32{0, 1}, NotUnreachable}, {[2]int32{0, 2}, NotUnreachable}, {[2]int32{0, 4}, PairMissing}, {[2]int32{4, 8}, NotUnreachable}} {
		w.unreachable = [][2]int32{c.pair}
		refused(t, w.fast(0), c.code, NoPhase)
	}
}

// TestPhases has two goroutines check a part of a plan each: a pair that occurs in both parts
// is found, an error of rows ends the check, and phases are counted on.
func TestPhases(t *testing.T) {
	w := shiftOn(t, 8)
	check := func(rows func(phase int) ([]Transfer, error)) (*Walk, error) {
		x, err := NewWalk(w.tree.Fabric, w.tables, w.servers)
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Add(2)
		turns := 0
		return x, x.Phases(len(w.phases), 2, func() func(int) ([]Transfer, error) {
			turns++
			first := turns <= 2
			return func(phase int) ([]Transfer, error) {
				if first {
					first = false
					both.Done()
					both.Wait()
				}
				return rows(phase)
			}
		})
	}
	row := func(phase int) ([]Transfer, error) { return w.phases[phase], nil }
	x, err := check(row)
	if err != nil || x.Done(w.tree, nil) != nil {
		t.Fatal(err, x.Done(w.tree, nil))
	}
	if err := x.Done(w.tree, [][2]int32{{3, 7}}); fmt.Sprint(err) != "Hca0003 port 1 → Hca0007 port 1 is called unreachable, and occurs or is called so twice (pair-twice)" {
		t.Error(err)
	}
	if err := x.Phase(w.phases[0]); fmt.Sprint(err) != "phase 127: Hca0000 port 1 → Hca0001 port 1 occurs again (pair-twice)" {
		t.Error(err)
	}
	if _, err = check(func(phase int) ([]Transfer, error) {
		if phase == 100 {
			return w.phases[3][1:], nil
		}
		return w.phases[phase], nil
	}); fmt.Sprint(err) != "phase 100: Hca0001 port 1 → Hca0005 port 1 occurs again (pair-twice)" {
		t.Error(err)
	}
	if _, err = check(func(phase int) ([]Transfer, error) {
		if phase == 100 {
			return nil, errors.New("spoilt")
		}
		return w.phases[phase], nil
	}); fmt.Sprint(err) != "spoilt" {
		t.Error(err)
	}
	x, err = check(func(phase int) ([]Transfer, error) { return w.phases[phase][min(phase, 1):], nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Done(w.tree, [][2]int32{{0, 9}}); fmt.Sprint(err) != "Hca0000 port 1 → Hca0009 port 1 is called unreachable, and has a way (not-unreachable)" {
		t.Error(err)
	}
}

// A walk by goroutines knows what was seen before it.
func TestPhasesAfterPhase(t *testing.T) {
	f, tables, servers := chain(t, 3)
	w, err := NewWalk(f, tables, servers)
	if err != nil {
		t.Fatal(err)
	}
	once := []Transfer{{0, 1, servers[1].LID}}
	if err := w.Phase(once); err != nil {
		t.Fatal(err)
	}
	err = w.Phases(1, 1, func() func(int) ([]Transfer, error) {
		return func(int) ([]Transfer, error) { return once, nil }
	})
	refused(t, err, PairTwice, 1, "occurs again")
}

// chain is so many switches in a row with a host each, the switches with the lowest GUIDs,
// and its tables.
func chain(t *testing.T, n int) (*topology.Fabric, *lft.Tables, []topology.EndPort) {
	t.Helper()
	var nodes []topology.Node
	for i := range n {
		g := ib.GUID(0x10 + i)
		nodes = append(nodes, topology.Node{Kind: topology.Switch, GUID: g, Name: fmt.Sprintf("S%d", i), Ports: []topology.Port{
			{Peer: topology.None, GUID: g, LID: ib.LID(1 + i), State: topology.Active}, {Peer: topology.None}, {Peer: topology.None}, {Peer: topology.None}}})
	}
	for i := range n {
		g := ib.GUID(0x1000 + 2*i)
		nodes = append(nodes, topology.Node{Kind: topology.Adapter, GUID: g, Name: fmt.Sprintf("H%d", i), Ports: []topology.Port{
			{Peer: topology.None}, {Peer: topology.None, GUID: g + 1, LID: ib.LID(100 + 2*i), LMC: 1}}})
	}
	f, err := topology.NewFabric(nodes, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		f.Connect(topology.PortRef{Node: int32(n + i), Port: 1}, topology.PortRef{Node: int32(i), Port: 1}, ib.Rate{Width: 4, Speed: ib.HDR})
		if i > 0 {
			f.Connect(topology.PortRef{Node: int32(i - 1), Port: 3}, topology.PortRef{Node: int32(i), Port: 2}, ib.Rate{Width: 4, Speed: ib.HDR})
		}
	}
	tables := &lft.Tables{}
	for i := range n {
		out := slices.Repeat([]uint8{lft.NoPath}, 100+2*n)
		for j := range n {
			to := []uint8{0, 3, 2}
			switch {
			case j > i:
				to[0], to[1] = 3, 3
			case j < i:
				to[0], to[1] = 2, 2
			default:
				to[1] = 1
			}
			out[1+j], out[100+2*j], out[101+2*j] = to[0], to[1], to[1]
		}
		tables.Switches = append(tables.Switches, lft.Table{GUID: ib.GUID(0x10 + i), Ports: 3, Out: out})
	}
	var servers []topology.EndPort
	for _, e := range f.EndPorts() {
		if f.Nodes[e.Node].Kind == topology.Adapter {
			servers = append(servers, e)
		}
	}
	return f, tables, servers
}

// TestWalkLong walks over more switches than a fat tree's ways have.
func TestWalkLong(t *testing.T) {
	const n = 9
	f, tables, servers := chain(t, n)
	to := func(s, d int) Transfer { return Transfer{int32(s), int32(d), servers[d].LID + 1} }
	walk := func(phases ...[]Transfer) string {
		w, err := NewWalk(f, tables, servers)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range phases {
			if err := w.Phase(p); err != nil {
				return err.Error()
			}
		}
		return ""
	}
	for _, c := range []struct {
		phases [][]Transfer
		want   string
	}{
		{[][]Transfer{{to(0, 8), to(8, 0)}, {to(0, 5), to(5, 0), to(6, 8), to(8, 6)}, {to(0, 4), to(4, 8)}, {to(0, 1), to(1, 2), to(2, 3)}}, ""},
		{[][]Transfer{{to(0, 8)}, {to(0, 8)}}, "phase 1: H0 port 1 → H8 port 1 occurs again (pair-twice)"},
		{[][]Transfer{{to(0, 6), to(5, 8)}}, "phase 0: H5 port 1 → H8 port 1 by LID 117 takes S5 port 3, as another transfer does (link-twice)"},
		{[][]Transfer{{to(4, 0), to(8, 3)}}, "phase 0: H8 port 1 → H3 port 1 by LID 107 takes S4 port 2, as another transfer does (link-twice)"},
		{[][]Transfer{{to(3, 7)}, {to(0, 6), to(6, 8)}, {to(0, 3), to(2, 4)}}, "phase 2: H2 port 1 → H4 port 1 by LID 109 takes S2 port 3, as another transfer does (link-twice)"},
	} {
		if got := walk(c.phases...); got != c.want {
			t.Errorf("%v: %q, want %q", c.phases, got, c.want)
		}
	}
	w, err := NewWalk(f, tables, servers)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is sent again is forgotten in between
		if err := w.Phase([]Transfer{to(0, 8), to(8, 0)}); err != nil {
			t.Error(err)
		}
		w.Again()
	}
	tables.Switches[7].Out[117] = 0 // to the switch itself
	if got, want := walk([]Transfer{to(0, 8)}), "phase 0: H0 port 1 → H8 port 1 by LID 117 comes to S7 (wrong-destination)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	tables.Switches[7].Out[117] = 2
	if got, want := walk([]Transfer{to(0, 8)}), "phase 0: H0 port 1 → H8 port 1 by LID 117 goes over more than 64 switches (loop)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.Disconnect(topology.PortRef{Node: n, Port: 1})
	if _, err := NewWalk(f, tables, servers); err == nil || err.Error() != "H0 port 1 has no cable to a switch (bad-rows)" {
		t.Error(err)
	}
	if _, err := NewWalk(f, tables, servers[1:]); err != nil {
		t.Error(err)
	}
	f.Connect(topology.PortRef{Node: n, Port: 1}, topology.PortRef{Node: n + 1, Port: 1}, ib.Rate{Width: 4, Speed: ib.HDR})
	if _, err := NewWalk(f, tables, servers[:1]); err == nil {
		t.Error("a host that is joined to another one passes for a server")
	}
}

// TestChunks checks tables of more LIDs than a goroutine takes in a row, on several: a ring
// that entries of LIDs far apart make is found, and so is a fault in the last of them.
func TestChunks(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	ft := tree(t, fabgen.Spec{Spines: 3, Leaves: 3, Hosts: []int{60}, LMC: 3})
	tables := naiveTables(ft)
	lids := owners(ft.Fabric)
	few := tree(t, fabgen.Spec{Spines: 2, Leaves: 2}) // for one goroutine alone
	if err := Tables(few, naiveTables(few)); err != nil {
		t.Fatal(err)
	}
	last := ib.LID(0)
	for lid := range lids {
		last = max(last, lid)
	}
	for range 50 {
		if err := Tables(ft, tables); err != nil {
			t.Fatal(err)
		}
	}
	kept := *out(ft, tables, fabgen.SpineGUID, last)
	*out(ft, tables, fabgen.SpineGUID, last) = lft.NoPath
	refused(t, Tables(ft, tables), LIDMissing, NoPhase, fmt.Sprintf("Spine000 has no entry for LID %d of", last))
	*out(ft, tables, fabgen.SpineGUID, last) = kept
	// Hosts of leaf 2 have the highest LIDs. Spine 1 sends one of lane 0 home by leaf 0 and
	// spine 0, and spine 0 sends one of lane 1, far below, by leaf 1 and spine 1.
	at := func(lid ib.LID, lane int) ib.LID { // the next LID of leaf 2 on a lane
		for ; ; lid-- {
			for i := range ft.Hosts {
				if h := &ft.Hosts[i]; lid >= h.LID && lid < h.LID+8 && ft.LIDLane(h, int(lid-h.LID)) == lane {
					return lid
				}
			}
		}
	}
	a := at(last, 0)
	b := at(a-300, 1)
	*out(ft, tables, fabgen.SpineGUID, b) = 2
	*out(ft, tables, fabgen.SpineGUID+1, a) = 1
	for range 50 {
		refused(t, Tables(ft, tables), Deadlock, NoPhase)
	}
}
