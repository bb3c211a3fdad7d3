package lft

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestNetwork compares what the builder knows of a tree with the fabric: the cables of every
// leaf with every switch above, the relay leaf, and where each LID leaves the tree.
func TestNetwork(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ft := drawTree(r)
		hold(r, ft)
		f, n := ft.Fabric, newNetwork(ft)
		place := map[int32][2]int{} // [node] leaf and upper, one of them −1
		for l := range ft.Leaves {
			place[ft.Leaves[l].Node] = [2]int{l, -1}
		}
		for u := range n.uppers {
			place[n.uppers[u].node] = [2]int{-1, u}
		}
		delete(place, topology.None)
		if len(n.uppers) != len(ft.Spines)+len(ft.NewSpines) {
			r.Fatalf("%d switches above", len(n.uppers))
		}
		relay, most, apart := -1, 0, false
		reached := make([][]bool, len(ft.Leaves))
		for l := range ft.Leaves {
			reached[l] = make([]bool, len(n.uppers))
			count := 0
			for u := range n.uppers {
				if checkLinks(r, n, l, u) > 0 {
					reached[l][u] = true
					count++
				}
				if n.reaches(l, u) != reached[l][u] {
					r.Fatalf("leaf %d reaches %d: %t", l, u, n.reaches(l, u))
				}
			}
			if count > most {
				relay, most = l, count
			}
		}
		met := make([]int, len(reached))
		for a := range reached {
			for b := range reached {
				if meet := slices.ContainsFunc(n.uppers, func(x upper) bool { p := place[x.node]; return x.node >= 0 && reached[a][p[1]] && reached[b][p[1]] }); n.meet(a, b) != meet {
					r.Fatalf("leaves %d and %d meet: %t", a, b, !meet)
				} else if meet {
					met[a]++
				} else if slices.Contains(reached[a], true) && slices.Contains(reached[b], true) {
					apart = true
				}
			}
		}
		if !apart && n.relay != relay || apart && met[n.relay] < slices.Max(met) {
			r.Fatalf("leaf %d relays; leaves meet %v others, leaf %d reaches the most switches above", n.relay, met, relay)
		}
		want := map[end]bool{}
		for _, e := range f.EndPorts() {
			at := topology.PortRef{Node: e.Node}
			if f.Nodes[e.Node].Kind != topology.Switch {
				at = topology.PortRef{Node: f.At(e.PortRef).Peer, Port: f.At(e.PortRef).PeerPort}
			}
			if p, is := place[at.Node]; is && e.LID != 0 {
				want[end{lid: e.LID, n: 1 << e.LMC, leaf: p[0], upper: p[1], port: at.Port}] = true
			}
		}
		for i, e := range n.ends {
			if e.alpha = 0; !want[e] {
				r.Fatalf("%+v does not end there", e)
			}
			delete(want, e)
			if i > 0 && uint(e.leaf) < uint(n.ends[i-1].leaf) {
				r.Fatalf("%+v comes after %+v", e, n.ends[i-1])
			}
		}
		if len(want) > 0 {
			r.Fatalf("no ends: %+v", want)
		}
	})
}

// checkLinks compares the cables of a leaf and a switch above with those of the fabric, and
// returns how many there are: first those with a lane, as the lanes are, then the others.
func checkLinks(r *rapid.T, n *network, l, u int) int {
	var laned, others []link
	for i := range n.uppers[u].lanes {
		if c := n.Leaves[l].Cables[n.uppers[u].first+i]; c.Usable() {
			laned = append(laned, link{c.LeafPort, c.SpinePort, c.State == topology.Full, i})
		}
	}
	leaf, top := n.Leaves[l].Node, n.uppers[u].node
	if leaf != topology.None && top != topology.None {
		for p, port := range n.Fabric.Nodes[leaf].Ports {
			if port.Up() && port.Peer == top && !slices.ContainsFunc(laned, func(x link) bool { return int(x.leafPort) == p }) {
				others = append(others, link{uint8(p), port.PeerPort, false, -1})
			}
		}
	}
	if want := slices.Concat(laned, others); !slices.Equal(n.between(l, u), want) {
		r.Fatalf("leaf %d and switch %d above have cables %+v, want %+v", l, u, n.between(l, u), want)
	}
	return len(laned) + len(others)
}

// TestRelayStays checks that a dead cable of the relay leaf does not make another leaf relay hosts
// whose leaves do not meet.
func TestRelayStays(t *testing.T) {
	spec := fabgen.Spec{Spines: 4, Leaves: 5, LMC: 1}
	dead := [][2]int{{3, 0}, {3, 1}, {4, 2}, {4, 3}} // leaves 3 and 4 do not meet
	for _, more := range [][2]int{{0, 0}, {0, 3}, {1, 2}, {3, 2}} {
		if n := newNetwork(fabgen.Damaged(t, spec, append(slices.Clone(dead), more)...)); n.relay != 0 {
			t.Errorf("without %v leaf %d relays", more, n.relay)
		}
	}
	if n := newNetwork(fabgen.Damaged(t, spec, append(dead, [2]int{0, 0}, [2]int{0, 1})...)); n.relay != 1 {
		t.Errorf("leaf %d relays, which does not meet leaf 4", n.relay)
	}
}

// TestSteps checks that the steps of substitutes are the numbers below K−1 that are coprime to
// it, and 1.
func TestSteps(t *testing.T) {
	for k, want := range [][]int{1: {1}, 2: {1}, 3: {1}, 4: {1, 2}, 5: {1, 3}, 6: {1, 2, 3, 4}, 7: {1, 5}, 13: {1, 5, 7, 11}} {
		if want == nil {
			continue
		}
		if got := newNetwork(&topology.FatTree{Common: topology.Common{Fabric: &topology.Fabric{}}, Lanes: k}).steps; !slices.Equal(got, want) {
			t.Errorf("%d lanes: steps %v, want %v", k, got, want)
		}
	}
}

// TestPick compares with a look at all cables in the order of preference: those at full rate,
// that of the lane wanted first, then from h on; slow ones in the same order; then those
// without a lane, from h on.
func TestPick(t *testing.T) {
	for lanes := range 4 {
		for state := range 81 { // of each lane: gone, slow, or full, and cables without a lane
			var links []link
			port := uint8(1)
			for i := range lanes {
				if s := state / []int{1, 3, 9}[i] % 3; s > 0 {
					links = append(links, link{leafPort: port, full: s == 2, index: i})
					port++
				}
			}
			for range state / 27 {
				links = append(links, link{leafPort: port, index: -1})
				port++
			}
			if len(links) == 0 {
				continue
			}
			b := &builder{network: &network{uppers: make([]upper, 1), links: links, first: []int32{0, int32(len(links))}}}
			b.uppers[0].lanes = lanes
			for h := range 8 {
				for own := -1; own < lanes; own++ {
					if got, want := b.pick(0, 0, own, h), preferred(links, lanes, own, h); *got != want {
						t.Fatalf("of %+v, lane %d, from %d on: %+v, want %+v", links, own, h, *got, want)
					}
				}
			}
		}
	}
}

func preferred(links []link, lanes, own, h int) link {
	for _, full := range []bool{true, false} {
		order := []int{own}
		for i := range lanes {
			order = append(order, (h+i)%lanes)
		}
		for _, index := range order {
			if i := slices.IndexFunc(links, func(x link) bool { return x.index == index && x.index >= 0 && x.full == full }); i >= 0 {
				return links[i]
			}
		}
	}
	return links[(len(links)-h%len(links))%len(links)] // none has a lane
}

// TestNewTables checks the length of tables: up to the largest LID of any port.
func TestNewTables(t *testing.T) {
	for _, c := range []struct {
		lid   ib.LID
		lmc   uint8
		ports int
		want  int // length
	}{{0, 3, 2, 0}, {1, 0, 2, 2}, {1, 2, 1, 5}, {7, 0, 4, 8}, {8, 3, 4, 16}} {
		ports := make([]topology.Port, c.ports)
		ports[0].LID, ports[0].LMC = c.lid, c.lmc
		f := &topology.Fabric{Nodes: []topology.Node{{Kind: topology.Adapter, GUID: 1, Ports: make([]topology.Port, 2)},
			{Kind: topology.Switch, GUID: 2, Name: "a", Ports: ports}, {Kind: topology.Switch, GUID: 3}}}
		want := &Tables{Switches: []Table{{GUID: 2, LID: c.lid, Name: "a", Ports: c.ports - 1}, {GUID: 3}}}
		for i := range want.Switches {
			want.Switches[i].Out = bytes.Repeat([]uint8{NoPath}, c.want)
		}
		got := newTables(f)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%+v (-want +got):\n%s", c, d)
		}
		for i := range got.Switches {
			if out := got.Switches[i].Out; cap(out) != c.want {
				t.Errorf("%+v: a table may grow into the next: %d of %d", c, len(out), cap(out))
			}
		}
	}
}

// TestWithoutLanes checks that leaves of a baseline without spines reach each other over all new
// spines.
func TestWithoutLanes(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 3, LMC: 2})
	base, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	base.Spines = nil
	for l := range base.Leaves {
		base.Leaves[l].Uplinks = nil
	}
	ft, err := topology.Fit(f, base, nil)
	if err != nil || ft.Lanes != 0 || len(ft.NewSpines) != 2 {
		t.Fatalf("%+v, %v", ft, err)
	}
	tables := build(t, ft)
	w := newWalker(f, tables)
	for l := range ft.Leaves {
		used := map[uint8]bool{}
		for _, lid := range LIDs(f) {
			if path, arrived, err := w.walk(ft.Leaves[l].Node, lid); err != nil || !arrived {
				t.Errorf("LID %d from leaf %d: %v, %v", lid, l, path, err)
			}
			used[tables.Port(tables.Find(ft.Leaves[l].GUID), lid)] = true
		}
		if len(used) != 1+2+2 { // itself, hosts, spines
			t.Errorf("leaf %d uses ports %v", l, used)
		}
	}
}
