package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"

	"pgregory.net/rapid"
)

func survey(t rapid.TB, f *topology.Fabric, tables *lft.Tables) *Survey {
	t.Helper()
	s, err := NewSurvey(f, tables, f.ConnectedHosts())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSurveyHealthy: a whole tree on its own tables has everything at its best.
func TestSurveyHealthy(t *testing.T) {
	ft, tables := fabric(t, fabgen.Spec{Spines: 6, Leaves: 4, LMC: 3}, nil)
	s := survey(t, ft.Fabric, tables)
	if s.Hosts != 24 || s.Switches != 10 || s.Pairs != 24*23 || s.Lost != 0 || s.Faults != nil || s.CreditLoop != nil || s.Unused != 0 {
		t.Errorf("%+v", s)
	}
	if s.BusiestCable != 23 || s.FairShare != 23 || s.Shift != 1 || s.Ring != 1 {
		t.Errorf("busiest cable %d, fair share %d, shift %g, ring %d; want 23, 23, 1, 1", s.BusiestCable, s.FairShare, s.Shift, s.Ring)
	}
	// Of the 18 hosts beyond a leaf, a cable of it leads to 3: that many pairs meet there.
	if s.WorstPairs != 3 || len(s.Ports) != 48 || s.Ports[0].Destinations != 3 || s.Ports[0].Transfers != 18 {
		t.Errorf("worst pairs %d, %d ports, the first %+v", s.WorstPairs, len(s.Ports), s.Ports[0])
	}
}

// TestSurveyFaults: entries that lose packets are named, each with its pairs.
func TestSurveyFaults(t *testing.T) {
	ft, tables := fabric(t, fabgen.Spec{Spines: 2, Leaves: 3}, nil)
	host := func(leaf, slot int) *topology.Host {
		for i := range ft.Hosts {
			if h := &ft.Hosts[i]; h.Leaf == leaf && h.Alpha == slot {
				return h
			}
		}
		return nil
	}
	leaf := func(l int) *lft.Table { return &tables.Switches[tables.Find(ft.Leaves[l].GUID)] }
	leaf(0).Out[host(1, 0).LID] = lft.NoPath // two hosts lose a destination
	leaf(1).Out[host(1, 1).LID] = 9          // its own leaf sends it to a dead port: all five others do
	leaf(2).Out[host(0, 1).LID] = 1          // to a host that it does not belong to
	s := survey(t, ft.Fabric, tables)
	var got []string
	for _, f := range s.Faults {
		got = append(got, f.Switch+": "+f.Why)
	}
	want := []string{"Leaf000: no entry", "Leaf001: no entry", "Leaf002: port 1 leads to"}
	for i := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("faults %q, want %q", got, want)
		}
	}
	if s.Lost != 2+5+2 || s.Faults[0].Pairs != 2 || s.Faults[1].Pairs != 5 || s.Faults[2].Pairs != 2 {
		t.Errorf("%d pairs lost: %+v", s.Lost, s.Faults)
	}
}

// TestSurveyCreditLoop: on a torus, packets that only go in the directions +x and then +y
// can wait for each other in a circle, whose links are named.
func TestSurveyCreditLoop(t *testing.T) {
	const side = 3
	f := fabgen.Torus(side, side, 1)
	tables := &lft.Tables{}
	hosts := f.ConnectedHosts()
	last := hosts[0].LID
	for _, h := range hosts {
		last = max(last, h.LID)
	}
	for n := range f.Nodes {
		if f.Nodes[n].Kind != topology.Switch {
			continue
		}
		table := lft.Table{GUID: f.Nodes[n].GUID, Out: make([]uint8, last+1)}
		at := int(f.Nodes[n].GUID - fabgen.LeafGUID)
		for _, h := range hosts {
			home := int(f.Nodes[f.At(h.PortRef).Peer].GUID - fabgen.LeafGUID)
			switch {
			case home == at:
				table.Out[h.LID] = 1
			case home%side != at%side:
				table.Out[h.LID] = 2
			default:
				table.Out[h.LID] = 4
			}
		}
		tables.Switches = append(tables.Switches, table)
	}
	s := survey(t, f, tables)
	if s.Lost != 0 || len(s.CreditLoop) != side {
		t.Errorf("%d lost, credit loop %q", s.Lost, s.CreditLoop)
	}
}

// drawn draws a tree, with its tables.
func drawn(t *rapid.T, leastLeaves int) (*topology.FatTree, *lft.Tables) {
	spec := fabgen.Spec{Spines: rapid.IntRange(1, 4).Draw(t, "spines"), Leaves: rapid.IntRange(leastLeaves, 4).Draw(t, "leaves"),
		Hosts: rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "hosts")}
	return fabric(t, spec, nil)
}

// TestSurveyAgreesWithWalks: loads and losses are those of walks one by one, destinations
// those of another count, and no pattern exceeds the worst pairs on any link.
func TestSurveyAgreesWithWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ft, tables := drawn(t, 1)
		for range rapid.IntRange(0, 3).Draw(t, "faults") {
			table := &tables.Switches[rapid.IntRange(0, len(tables.Switches)-1).Draw(t, "switch")]
			lid := rapid.IntRange(1, len(table.Out)-1).Draw(t, "LID")
			table.Out[lid] = uint8(rapid.IntRange(0, 10).Draw(t, "port"))
		}
		f, hosts := ft.Fabric, ft.Fabric.ConnectedHosts()
		s := survey(t, f, tables)
		var rows []Row
		for _, r := range HostShift(hosts) {
			rows = append(rows, Row{DLID: r.DLID, Src: r.Src, Dst: r.Dst})
		}
		all, err := Run(f, tables, rows)
		if err != nil {
			t.Fatal(err)
		}
		if s.Lost != all.Lost || len(s.Faults) == 0 != (s.Lost == 0) {
			t.Fatalf("%d lost and faults %+v, by walks %d", s.Lost, s.Faults, all.Lost)
		}
		if s.Lost == 0 && len(hosts) > 1 && s.BusiestCable != all.Max {
			t.Fatalf("busiest cable %d, by walks %d", s.BusiestCable, all.Max)
		}
		perm := rapid.Permutation(hosts).Draw(t, "permutation")
		rows = nil
		for i := range hosts {
			if hosts[i].GUID != perm[i].GUID {
				rows = append(rows, Row{DLID: perm[i].LID, Src: hosts[i].GUID, Dst: perm[i].GUID})
			}
		}
		some, err := Run(f, tables, rows)
		if err != nil {
			t.Fatal(err)
		}
		if s.Lost == 0 && some.Max > max(1, s.WorstPairs) {
			t.Fatalf("a permutation puts %d on a link, worst pairs %d", some.Max, s.WorstPairs)
		}
	})
}

// TestCut: as many pairs are cut as lose their packets once the cables are gone, and, of a
// leaf, all that a host of it belongs to.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ft, tables := drawn(t, 2)
		f, hosts := ft.Fabric, ft.Fabric.ConnectedHosts()
		s := survey(t, f, tables)
		without := f.Clone()
		var dead []topology.PortRef
		for range rapid.IntRange(0, 6).Draw(t, "dead") {
			at := rapid.SampledFrom(ft.Leaves).Draw(t, "leaf").Node
			p := topology.PortRef{Node: at, Port: rapid.SampledFrom(f.Trunks(at)).Draw(t, "port")}
			if rapid.Bool().Draw(t, "from above") {
				p = topology.PortRef{Node: f.At(p).Peer, Port: f.At(p).PeerPort}
			}
			dead = append(dead, p)
			without.Disconnect(p)
		}
		after, err := NewSurvey(without, tables, hosts)
		if err != nil {
			t.Fatal(err)
		}
		if cut := s.Cut(dead...); cut != after.Lost {
			t.Fatalf("%d pairs are cut, and %d lost", cut, after.Lost)
		}
		leaf := rapid.SampledFrom(ft.Leaves).Draw(t, "dead leaf").Node
		var all []topology.PortRef
		for p := range f.Nodes[leaf].Ports {
			if f.Nodes[leaf].Ports[p].Connected() {
				all = append(all, topology.PortRef{Node: leaf, Port: uint8(p)})
			}
		}
		n, others := int(s.by.senders[leaf]), len(hosts)-int(s.by.senders[leaf])
		if cut := s.Cut(all...); cut != n*(n-1)+2*n*others {
			t.Fatalf("a leaf with %d of %d hosts cuts %d pairs", n, len(hosts), cut)
		}
	})
}

// TestWorstPairs: the matching is as large as the best of all choices.
func TestWorstPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &surveyor{senders: make([]int32, 4)}
		for i := range s.senders {
			s.senders[i] = int32(rapid.IntRange(0, 2).Draw(t, "senders"))
		}
		pairs := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) route {
			return route{int32(rapid.IntRange(0, 3).Draw(t, "leaf")), int32(rapid.IntRange(0, 4).Draw(t, "to"))}
		}), 0, 12, rapid.ID).Draw(t, "pairs")
		var best func(rest []route, left []int32, met []int32) int
		best = func(rest []route, left []int32, met []int32) int {
			if len(rest) == 0 {
				return 0
			}
			n := best(rest[1:], left, met)
			if p := rest[0]; left[p.leaf] > 0 && !slices.Contains(met, p.to) {
				fewer := slices.Clone(left)
				fewer[p.leaf]--
				n = max(n, 1+best(rest[1:], fewer, append(met[:len(met):len(met)], p.to)))
			}
			return n
		}
		if got, want := s.worstPairs(pairs), best(pairs, s.senders, nil); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}
