package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// populations puts 326 hosts on 18 leaves: ten with 20, six with 18, two with 9.
var populations = []int{20, 20, 18, 20, 20, 18, 20, 9, 20, 18, 20, 18, 20, 18, 20, 9, 18, 20}

// recognised asserts that f is a tree whose leaves are the generator's, each
// with all its lanes up.
func recognised(t testing.TB, f *topology.Fabric, spines, leaves, cables int) *topology.FatTree {
	t.Helper()
	ft := fitted(t, f, baselineOf(t, f))
	consistent(t, ft)
	if len(ft.Spines) != spines || len(ft.Leaves) != leaves || ft.Lanes != spines*cables {
		t.Fatalf("%d spines, %d leaves, %d lanes; want %d, %d, %d", len(ft.Spines), len(ft.Leaves), ft.Lanes, spines, leaves, spines*cables)
	}
	for l := range ft.Leaves {
		if ft.Leaves[l].GUID != fabgen.LeafGUID+ib.GUID(l) {
			t.Fatalf("leaf %d is %s", l, ft.Leaves[l].Name)
		}
		for k := range ft.Lanes {
			if !ft.LaneUp(l, k) {
				t.Fatalf("lane %d of leaf %d is down", k, l)
			}
		}
	}
	for k, s := range ft.LaneOf {
		if s != k/cables || ft.Spines[s].First != s*cables || ft.Spines[s].GUID != fabgen.SpineGUID+ib.GUID(s) {
			t.Fatalf("lane %d is on spine %d", k, s)
		}
	}
	return ft
}

func TestRecognise(t *testing.T) {
	for _, test := range []struct {
		name    string
		spec    fabgen.Spec
		servers int
	}{
		{"FT(2;20,18)", fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}, 360},
		{"FT(2;20,18), shuffled", fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5, Shuffle: 4}, 360},
		{"three populations", fabgen.Spec{Spines: 20, Leaves: 18, Hosts: populations, LMC: 5, Shuffle: 1}, 326},
		{"missing hosts", fabgen.Spec{Spines: 4, Leaves: 3, Missing: [][2]int{{0, 0}, {1, 2}, {2, 3}}, LMC: 2}, 9},
		{"parallel cables", fabgen.Spec{Spines: 4, Leaves: 6, Hosts: []int{8}, Cables: 2, LMC: 3, Shuffle: 2}, 48},
		{"three parallel cables", fabgen.Spec{Spines: 2, Leaves: 2, Hosts: []int{6}, Cables: 3, LMC: 3}, 12},
		{"more leaves than spines", fabgen.Spec{Spines: 2, Leaves: 9, LMC: 1}, 18},
		{"one host a leaf", fabgen.Spec{Spines: 4, Leaves: 4, Hosts: []int{1}, LMC: 2}, 4},
		{"one spine", fabgen.Spec{Spines: 1, Leaves: 4, Hosts: []int{3}}, 12},
		{"a leaf without hosts", fabgen.Spec{Spines: 4, Leaves: 3, Hosts: []int{4, 0, 4}, LMC: 2}, 8},
		{"two leaves of five without hosts", fabgen.Spec{Spines: 3, Leaves: 5, Hosts: []int{3, 0, 3, 0, 3}, LMC: 2}, 9},
		{"one leaf alone", fabgen.Spec{Spines: 0, Leaves: 1, Hosts: []int{5}}, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			ft := recognised(t, fabgen.Generate(test.spec), test.spec.Spines, test.spec.Leaves, max(1, test.spec.Cables))
			found(t, ft)
			if len(ft.Servers) != test.servers {
				t.Errorf("%d servers, want %d", len(ft.Servers), test.servers)
			}
		})
	}
}

// Without a missing host, index α is the generator's slot.
func TestRecogniseAlpha(t *testing.T) {
	spec := fabgen.Spec{Spines: 3, Leaves: 3, Hosts: []int{3, 2}, LMC: 2, Shuffle: 3}
	ft := recognised(t, fabgen.Generate(spec), 3, 3, 1)
	number := 0
	for l := range spec.Leaves {
		for a := range spec.HostsOn(l) {
			if h := ft.Hosts[number]; h.GUID != fabgen.HostGUID+ib.GUID(2*number+1) || h.Leaf != l || h.Alpha != a {
				t.Errorf("host %d is %s, index %d of leaf %d", number, h.Name, h.Alpha, h.Leaf)
			}
			number++
		}
	}
}

// onSpines plugs an adapter into each of the first n spines.
func onSpines(t testing.TB, f *topology.Fabric, n int) *topology.Fabric {
	for s := range n {
		nodes := f.Clone().Nodes
		at := f.Find(fabgen.SpineGUID + ib.GUID(s))
		nodes[at].Ports = append(nodes[at].Ports, topology.Port{Peer: topology.None})
		port := len(nodes[at].Ports) - 1
		g := ib.GUID(0x900000 + 2*s)
		f = newFabric(t, append(nodes, adapter(g, fmt.Sprintf("Manager%d", s), ib.LID(40000+s), 0)))
		f.Connect(ref(t, f, g, 1), ref(t, f, fabgen.SpineGUID+ib.GUID(s), port), hdr)
	}
	return f
}

func TestRecogniseAdapterOnSpine(t *testing.T) {
	for _, size := range [][2]int{{4, 6}, {6, 4}, {5, 5}} {
		for n := 1; n <= size[0]; n++ {
			f := onSpines(t, fabgen.Generate(fabgen.Spec{Spines: size[0], Leaves: size[1], LMC: 2}), n)
			ft := recognised(t, f, size[0], size[1], 1)
			if got := codes(ft); len(got) != 1 || got[0] != topology.PartlyCovered || len(ft.Uncovered.Hosts) != n || len(ft.Servers) != size[0]*size[1] {
				t.Errorf("%d adapters on FT(2;%d,%d): %d servers, findings %v", n, size[0], size[1], len(ft.Servers), ft.Findings)
			}
		}
	}
}

// A damaged tree is still recognised: spines without most of their cables, and
// leaves that have lost a few.
func TestRecogniseDamaged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := fabgen.Spec{Spines: rapid.IntRange(2, 6).Draw(rt, "spines"), Leaves: rapid.IntRange(2, 6).Draw(rt, "leaves"),
			Cables: rapid.IntRange(1, 2).Draw(rt, "cables"), LMC: 1, Shuffle: rapid.Uint64().Draw(rt, "shuffle")}
		f := fabgen.Generate(spec)
		for range rapid.IntRange(0, 8).Draw(rt, "dead") {
			l, p := rapid.IntRange(0, spec.Leaves-1).Draw(rt, "leaf"), rapid.IntRange(1, spec.Spines*spec.Cables).Draw(rt, "cable")
			f.Disconnect(ref(t, f, fabgen.LeafGUID+ib.GUID(l), spec.Spines+p))
		}
		b, err := topology.NewBaseline(f)
		var verdict *topology.NotFatTree
		if errors.As(err, &verdict) {
			return // too much is gone
		}
		if err != nil {
			rt.Fatal(err)
		}
		ft := fitted(t, f, b)
		consistent(rt, ft)
		// Leaves that share no spine with others for now are not covered.
		if all := spec.Leaves * spec.Spines; len(ft.Servers)+len(ft.Uncovered.Hosts) != all || 2*len(ft.Servers) <= all {
			rt.Fatalf("%d servers and %d uncovered hosts of %d", len(ft.Servers), len(ft.Uncovered.Hosts), all)
		}
		unmet := 0
		for _, i := range ft.Servers {
			for _, j := range ft.Servers {
				a, b := &ft.Leaves[ft.Hosts[i].Leaf], &ft.Leaves[ft.Hosts[j].Leaf]
				if !slices.ContainsFunc(ft.LaneOf, func(s int) bool {
					return slices.ContainsFunc(a.Cables[ft.Spines[s].First:][:ft.Spines[s].Cables], topology.Cable.Usable) &&
						slices.ContainsFunc(b.Cables[ft.Spines[s].First:][:ft.Spines[s].Cables], topology.Cable.Usable)
				}) && ft.Hosts[i].Leaf != ft.Hosts[j].Leaf {
					unmet++
				}
			}
		}
		if n := len(ft.Servers); 100*unmet > n*(n-1) {
			rt.Fatalf("%d of %d pairs meet at no spine", unmet, n*(n-1))
		}
	})
}

// wire builds a fabric of switches: hosts[i] hosts on switch i, and cables
// between switches.
func wire(t testing.TB, hosts []int, cables [][2]int) *topology.Fabric {
	t.Helper()
	var nodes []topology.Node
	for i := range hosts {
		nodes = append(nodes, bare(ib.GUID(0x200000+i), fmt.Sprintf("S%02d", i), ib.LID(i+1), 0))
	}
	plug := func(i int) topology.PortRef {
		nodes[i].Ports = append(nodes[i].Ports, topology.Port{Peer: topology.None})
		return topology.PortRef{Node: int32(i), Port: uint8(len(nodes[i].Ports) - 1)}
	}
	for i, n := range hosts {
		for range n {
			at, h := plug(i), len(nodes)
			nodes = append(nodes, adapter(ib.GUID(0x600000+2*h), fmt.Sprintf("H%02d", h), ib.LID(1000+h), 0))
			(&topology.Fabric{Nodes: nodes}).Connect(at, topology.PortRef{Node: int32(h), Port: 1}, hdr)
		}
	}
	for _, c := range cables {
		a := plug(c[0])
		b := plug(c[1])
		(&topology.Fabric{Nodes: nodes}).Connect(a, b, hdr)
	}
	return newFabric(t, nodes)
}

// pods is a three-level tree: pods of leaves (with hosts) and spines, all
// spines joined to all cores.
func pods(t testing.TB, pods, leaves, spines, cores, hosts int) *topology.Fabric {
	var on []int
	var cables [][2]int
	core := pods * (leaves + spines)
	for p := range pods {
		first := p * (leaves + spines)
		for l := range leaves {
			on = append(on, hosts)
			for s := range spines {
				cables = append(cables, [2]int{first + l, first + leaves + s})
			}
		}
		for s := range spines {
			on = append(on, 0)
			for c := range cores {
				cables = append(cables, [2]int{first + leaves + s, core + c})
			}
		}
	}
	return wire(t, append(on, make([]int, cores)...), cables)
}

// complete joins every two of n switches.
func complete(from, n int) (cables [][2]int) {
	for i := from; i < from+n; i++ {
		for j := i + 1; j < from+n; j++ {
			cables = append(cables, [2]int{i, j})
		}
	}
	return cables
}

// TestNewLeafOnDamagedSpine plugs a switch with one host into a spine that has few other
// cables left: it is a new leaf as long as it meets half of the others.
func TestNewLeafOnDamagedSpine(t *testing.T) {
	tree := fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18})
	base := baselineOf(t, tree)
	f := fabgen.WithChain(tree, "Spine002", 1)
	for leaf := range 18 {
		if ft := fitted(t, f, base); leaf < 17 && len(ft.Leaves) != 18+min(1, max(0, 10-leaf)) {
			t.Errorf("%d cables cut: %d leaves, %d servers", leaf, len(ft.Leaves), len(ft.Servers))
		}
		f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID + ib.GUID(leaf)), Port: 21 + 2})
	}
}

// TestChainOnLargeTree hangs switches in a row with one host on a large tree. The pairs of
// that host are few, but the host is not covered.
func TestChainOnLargeTree(t *testing.T) {
	tree := fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18})
	for _, c := range []struct {
		at     string
		length int
	}{{"Leaf002", 1}, {"Leaf002", 2}, {"Leaf002", 3}, {"Leaf002", 4}, {"Spine002", 2}, {"Spine002", 3}, {"Spine002", 4}} {
		f := fabgen.WithChain(tree, c.at, c.length)
		ft := fitted(t, f, baselineOf(t, f))
		if len(ft.Leaves) != 18 || len(ft.Spines) != 20 || len(ft.Servers) != 360 {
			t.Errorf("%s, %d switches: %d leaves, %d spines, %d servers", c.at, c.length, len(ft.Leaves), len(ft.Spines), len(ft.Servers))
		}
		if u := &ft.Uncovered; len(u.Switches) != c.length || len(u.Hosts) != 1 || len(u.Cables) != 0 {
			t.Errorf("%s, %d switches: %d switches, %d hosts, %d cables are not covered", c.at, c.length, len(u.Switches), len(u.Hosts), len(u.Cables))
		}
	}
}

func TestVerdict(t *testing.T) {
	ring := func(n int) (cables [][2]int) {
		for i := range n {
			cables = append(cables, [2]int{i, (i + 1) % n})
		}
		return cables
	}
	// Groups of a dragonfly: three complete groups of three, joined once each.
	dragonfly := append(append(complete(0, 3), complete(3, 3)...), complete(6, 3)...)
	dragonfly = append(dragonfly, [2]int{0, 3}, [2]int{4, 6}, [2]int{1, 7})
	for _, test := range []struct {
		name string
		f    *topology.Fabric
		want []string
	}{
		{"three levels", pods(t, 2, 2, 2, 2, 3), []string{"switch S", "has no hosts and sits above spines, and leaves S00 and S04 share no spine: there are three levels or more"}},
		{"three levels, many pods", pods(t, 4, 3, 3, 3, 4), []string{"share no spine: there are three levels or more"}},
		{"ring", wire(t, []int{2, 2, 2, 2, 2}, ring(5)), []string{"cable S", "joins two leaves"}},
		{"even ring", wire(t, []int{2, 2, 2, 2, 2, 2}, ring(6)), []string{"switch S", "hosts belong on leaves"}},
		{"dragonfly", wire(t, []int{2, 2, 2, 2, 2, 2, 2, 2, 2}, dragonfly), []string{"cable S", "joins two "}},
		{"full mesh", wire(t, []int{2, 2, 2, 2}, complete(0, 4)), []string{"cable S", "joins two "}},
		{"no hosts", wire(t, []int{0, 0, 0}, [][2]int{{0, 1}, {1, 2}}), []string{"the fabric has no leaf switch with a host"}},
		{"a switch alone", wire(t, []int{0}, nil), []string{"the fabric has no switch with a cable"}},
		{"nothing", newFabric(t, nil), []string{"the fabric has no switch with a cable"}},
		{"hosts on all spines", wire(t, []int{4, 4, 4, 3, 3}, [][2]int{{0, 3}, {0, 4}, {1, 3}, {1, 4}, {2, 3}, {2, 4}}), []string{"switch S", "has 3 hosts and cables to leaves: hosts belong on leaves, and 6 of 18 are not"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := topology.NewBaseline(test.f)
			var verdict *topology.NotFatTree
			if !errors.As(err, &verdict) {
				t.Fatalf("want a verdict, got %v", err)
			}
			for _, w := range test.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("want %q in %q", w, err)
				}
			}
			if !strings.HasPrefix(err.Error(), "not a two-level fat tree: ") || verdict.Where == "" || verdict.Why == "" {
				t.Errorf("incomplete verdict %q", err)
			}
			t.Log(err)
		})
	}
}

// TestRails refuses two fabrics in one file, and plans the larger one where the other is
// small.
func TestRails(t *testing.T) {
	rail := func(first, leaves int) (hosts []int, cables [][2]int) {
		for l := range leaves {
			hosts = append(hosts, 2)
			for s := range 2 {
				cables = append(cables, [2]int{first + l, first + leaves + s})
			}
		}
		return append(hosts, 0, 0), cables
	}
	for _, test := range []struct {
		leaves  int // of the second one
		refused bool
	}{{4, true}, {3, true}, {1, false}} {
		hosts, cables := rail(0, 4)
		more, others := rail(len(hosts), test.leaves)
		f := wire(t, append(hosts, more...), append(cables, others...))
		b, err := topology.NewBaseline(f)
		if test.refused {
			if err == nil || !strings.Contains(err.Error(), "falls into 2 parts without a cable between them, the largest with 8 of") {
				t.Errorf("rails of 4 and %d leaves: %v", test.leaves, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if ft := fitted(t, f, b); len(ft.Servers) != 8 || len(ft.Uncovered.Switches) != 3 || len(ft.Uncovered.Hosts) != 2 {
			t.Errorf("rails of 4 and 1 leaves: %d servers, uncovered %+v", len(ft.Servers), ft.Uncovered)
		}
	}
}

// TestRewired sees a tree whose cables were plugged into a ring, through its baseline.
func TestRewired(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 5, Hosts: []int{3}, LMC: 2})
	b := baselineOf(t, f)
	for l := range 5 {
		for p := 4; p <= 6; p++ {
			f.Disconnect(ref(t, f, fabgen.LeafGUID+ib.GUID(l), p))
		}
	}
	cut := f.Clone()
	for l := range 5 {
		f.Connect(ref(t, f, fabgen.LeafGUID+ib.GUID(l), 4), ref(t, f, fabgen.LeafGUID+ib.GUID((l+1)%5), 5), hdr)
	}
	var verdict *topology.NotFatTree
	if _, err := topology.Fit(f, b, nil); !errors.As(err, &verdict) {
		t.Errorf("a ring of the leaves: %v", err)
	}
	if ft := fitted(t, cut, b); len(ft.Servers) != 15 {
		t.Errorf("without cables: %d servers", len(ft.Servers))
	}
}

// TestLeafMesh has leaves with more cables to one another than to spines: they stay
// leaves, and the cables among them are named.
func TestLeafMesh(t *testing.T) {
	cables := complete(0, 5)
	for l := range 5 {
		cables = append(cables, [2]int{l, 5}, [2]int{l, 6})
	}
	f := wire(t, []int{3, 3, 3, 3, 3, 0, 0}, cables)
	ft := fitted(t, f, baselineOf(t, f))
	consistent(t, ft)
	if len(ft.Servers) != 15 || ft.Lanes != 2 || len(ft.Uncovered.Cables) != 10 || len(ft.Uncovered.Switches)+len(ft.Uncovered.Hosts) != 0 {
		t.Errorf("%d servers, %d lanes, uncovered %+v", len(ft.Servers), ft.Lanes, ft.Uncovered)
	}
}
