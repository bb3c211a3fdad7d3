package topology_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// must fails what the specs name.
func must(t testing.TB, f *topology.Fabric, specs ...string) {
	t.Helper()
	for _, s := range specs {
		if _, err := f.Fail(s); err != nil {
			t.Fatal(err)
		}
	}
}

// port finds a port by its node's description.
func port(t testing.TB, f *topology.Fabric, name string, number uint8) topology.PortRef {
	t.Helper()
	for i := range f.Nodes {
		if f.Nodes[i].Name == name {
			return topology.PortRef{Node: int32(i), Port: number}
		}
	}
	t.Fatalf("no node %s", name)
	return topology.PortRef{}
}

// says prints changes one a line, with their codes and ends.
func says(changes []topology.Change) []string {
	var out []string
	for _, c := range changes {
		out = append(out, fmt.Sprintf("%s %x/%d %x/%d: %s", c.Kind, uint64(c.At.Node), c.At.Port, uint64(c.Peer.Node), c.Peer.Port, c.Text))
	}
	return out
}

// TestDiff changes a fabric with three leaves of two hosts, three spines and free ports, and
// compares Diff's answers in both directions.
func TestDiff(t *testing.T) {
	rate := func(width uint8, speed ib.Speed) ib.Rate {
		return ib.Rate{Width: width, Speed: speed}
	}
	for name, c := range map[string]struct {
		change      func(t *testing.T, f *topology.Fabric)
		there, back []string
	}{
		"nothing": {func(_ *testing.T, _ *topology.Fabric) {}, nil, nil},
		"a cable": {func(t *testing.T, f *topology.Fabric) { must(t, f, "Leaf001/4") },
			[]string{"cable-down 200001/4 300001/2: Leaf001 port 4 – Spine001 port 2 went down"},
			[]string{"cable-up 200001/4 300001/2: Leaf001 port 4 – Spine001 port 2 came up"}},
		"a state": {func(t *testing.T, f *topology.Fabric) { f.At(port(t, f, "Spine001", 2)).State = topology.Init },
			[]string{"cable-down 200001/4 300001/2: Leaf001 port 4 – Spine001 port 2 went down"},
			[]string{"cable-up 200001/4 300001/2: Leaf001 port 4 – Spine001 port 2 came up"}},
		"a rate": {func(t *testing.T, f *topology.Fabric) {
			f.At(port(t, f, "Leaf001", 4)).Rate, f.At(port(t, f, "Spine001", 2)).Rate = rate(2, ib.HDR), rate(2, ib.HDR)
		},
			[]string{"cable-rate 200001/4 300001/2: Leaf001 port 4 – Spine001 port 2 now runs at 2xHDR (was 4xHDR)"},
			[]string{"cable-rate 200001/4 300001/2: Leaf001 port 4 – Spine001 port 2 now runs at 4xHDR (was 2xHDR)"}},
		"a rate at the far end": {func(t *testing.T, f *topology.Fabric) {
			f.At(port(t, f, "Spine001", 2)).Rate = rate(4, ib.EDR)
		},
			[]string{"cable-rate 200001/4 300001/2: Leaf001 port 4 – Spine001 port 2 now runs at 4xEDR (was 4xHDR)"},
			[]string{"cable-rate 200001/4 300001/2: Leaf001 port 4 – Spine001 port 2 now runs at 4xHDR (was 4xEDR)"}},
		"a spine": {func(t *testing.T, f *topology.Fabric) { must(t, f, "Spine001", "Leaf000/3") },
			[]string{"node-gone 300001/0 0/0: switch Spine001 disappeared (3 cables)",
				"cable-down 200000/3 300000/1: Leaf000 port 3 – Spine000 port 1 went down"},
			[]string{"node-new 300001/0 0/0: switch Spine001 appeared (3 cables)",
				"cable-up 200000/3 300000/1: Leaf000 port 3 – Spine000 port 1 came up"}},
		"a leaf": {func(t *testing.T, f *topology.Fabric) { must(t, f, "Leaf002") },
			[]string{"node-gone 200002/0 0/0: switch Leaf002 disappeared (5 cables)",
				"node-gone 100008/0 0/0: channel adapter Hca0004 disappeared (on Leaf002 port 1)",
				"node-gone 10000a/0 0/0: channel adapter Hca0005 disappeared (on Leaf002 port 2)"},
			[]string{"node-new 200002/0 0/0: switch Leaf002 appeared (5 cables)",
				"node-new 100008/0 0/0: channel adapter Hca0004 appeared (on Leaf002 port 1)",
				"node-new 10000a/0 0/0: channel adapter Hca0005 appeared (on Leaf002 port 2)"}},
		"a cable in other ports": {func(t *testing.T, f *topology.Fabric) {
			must(t, f, "Leaf001/4")
			f.Connect(port(t, f, "Leaf001", 6), port(t, f, "Spine001", 4), rate(4, ib.HDR))
		},
			[]string{"cable-moved 200001/6 300001/4: Leaf001 – Spine001 moved from port 4/2 to port 6/4"},
			[]string{"cable-moved 200001/4 300001/2: Leaf001 – Spine001 moved from port 6/4 to port 4/2"}},
		"a cable to another spine": {func(t *testing.T, f *topology.Fabric) {
			must(t, f, "Leaf001/4")
			f.Connect(port(t, f, "Leaf001", 4), port(t, f, "Spine002", 4), rate(4, ib.HDR))
		},
			[]string{"cable-moved 200001/4 300002/4: Leaf001 port 4 moved from Spine001 port 2 to Spine002 port 4"},
			[]string{"cable-moved 200001/4 300001/2: Leaf001 port 4 moved from Spine002 port 4 to Spine001 port 2"}},
		"a host on another leaf": {func(t *testing.T, f *topology.Fabric) {
			must(t, f, "Hca0000")
			f.Connect(port(t, f, "Hca0000", 1), port(t, f, "Leaf001", 6), rate(4, ib.HDR))
		},
			[]string{"cable-moved 100000/1 200001/6: Hca0000 port 1 moved from Leaf000 port 1 to Leaf001 port 6"},
			[]string{"cable-moved 100000/1 200000/1: Hca0000 port 1 moved from Leaf001 port 6 to Leaf000 port 1"}},
		"two cables swapped": {func(t *testing.T, f *topology.Fabric) {
			must(t, f, "Leaf001/4", "Leaf002/4")
			f.Connect(port(t, f, "Leaf001", 4), port(t, f, "Spine001", 3), rate(4, ib.HDR))
			f.Connect(port(t, f, "Leaf002", 4), port(t, f, "Spine001", 2), rate(4, ib.HDR))
		},
			[]string{"cable-moved 200001/4 300001/3: Leaf001 – Spine001 moved from port 4/2 to port 4/3",
				"cable-moved 200002/4 300001/2: Leaf002 – Spine001 moved from port 4/3 to port 4/2"},
			[]string{"cable-moved 200001/4 300001/2: Leaf001 – Spine001 moved from port 4/3 to port 4/2",
				"cable-moved 200002/4 300001/3: Leaf002 – Spine001 moved from port 4/2 to port 4/3"}},
		"a cable of what is a switch no more": {func(t *testing.T, f *topology.Fabric) {
			must(t, f, "Leaf001/4")
			f.Connect(port(t, f, "Leaf001", 6), port(t, f, "Spine001", 4), rate(4, ib.HDR))
			f.Nodes[port(t, f, "Spine001", 0).Node].Kind = topology.Adapter
		},
			[]string{"cable-moved 300001/4 200001/6: Spine001 – Leaf001 moved from port 2/4 to port 4/6"},
			[]string{"cable-moved 200001/4 300001/2: Leaf001 – Spine001 moved from port 6/4 to port 4/2"}},
		"a name": {func(t *testing.T, f *topology.Fabric) { f.Nodes[port(t, f, "Leaf001", 0).Node].Name = "rack 7" },
			[]string{`node-renamed 200001/0 0/0: switch 0x0000000000200001 is now called "rack 7" (was "Leaf001")`},
			[]string{`node-renamed 200001/0 0/0: switch 0x0000000000200001 is now called "Leaf001" (was "rack 7")`}},
		"LIDs": {func(t *testing.T, f *topology.Fabric) {
			f.At(port(t, f, "Leaf001", 0)).LID = 400
			p := f.At(port(t, f, "Hca0003", 1))
			p.LID, p.LMC = 404, 2
		},
			[]string{"lid-changed 200001/0 0/0: Leaf001 has LID 400 (was 2)", "lid-changed 100006/1 0/0: Hca0003 port 1 has LID 404 (was 10)",
				"lmc-changed 100006/1 0/0: Hca0003 port 1 has LMC 2 (was 0)"},
			[]string{"lid-changed 200001/0 0/0: Leaf001 has LID 2 (was 400)", "lid-changed 100006/1 0/0: Hca0003 port 1 has LID 10 (was 404)",
				"lmc-changed 100006/1 0/0: Hca0003 port 1 has LMC 0 (was 2)"}},
		"a shared name": {func(t *testing.T, f *topology.Fabric) {
			must(t, f, "Leaf001/4")
			f.Nodes[port(t, f, "Spine001", 0).Node].Name = "Spine000"
		},
			[]string{`node-renamed 300001/0 0/0: switch 0x0000000000300001 is now called "Spine000" (was "Spine001")`,
				"cable-down 200001/4 300001/2: Leaf001 port 4 – Spine001 port 2 went down"},
			[]string{`node-renamed 300001/0 0/0: switch 0x0000000000300001 is now called "Spine001" (was "Spine000")`,
				"cable-up 200001/4 300001/2: Leaf001 port 4 – Spine001 port 2 came up"}},
	} {
		t.Run(name, func(t *testing.T) {
			was, is := roomy(t), roomy(t)
			c.change(t, is)
			if err := is.Validate(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.there, says(topology.Diff(was, is))); diff != "" {
				t.Errorf("there (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.back, says(topology.Diff(is, was))); diff != "" {
				t.Errorf("back (-want +got):\n%s", diff)
			}
		})
	}
}

// roomy is a tree with a free port on each switch.
func roomy(t *testing.T) *topology.Fabric {
	f := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3, Hosts: []int{2}})
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Kind == topology.Switch {
			n.Ports = append(n.Ports, topology.Port{Peer: topology.None})
		}
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestDiffAmbiguous: a name that two nodes share comes with the GUID.
func TestDiffAmbiguous(t *testing.T) {
	was := roomy(t)
	was.Nodes[port(t, was, "Spine001", 0).Node].Name = "spine"
	was.Nodes[port(t, was, "Spine002", 0).Node].Name = "spine"
	is := was.Clone()
	must(t, is, "Leaf001/4")
	want := []string{"cable-down 200001/4 300001/2: Leaf001 port 4 – spine (0x0000000000300001) port 2 went down"}
	if diff := cmp.Diff(want, says(topology.Diff(was, is))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDiffDropped: a node that is no longer listed at all is reported as one that has lost its
// cables.
func TestDiffDropped(t *testing.T) {
	was, is := roomy(t), roomy(t)
	must(t, is, "Hca0000", "Spine002")
	read, err := topology.ReadSubnetLst(fabgen.SubnetLst(is))
	if err != nil {
		t.Fatal(err)
	}
	if len(read.Nodes) != len(was.Nodes)-2 {
		t.Fatalf("%d nodes are left", len(read.Nodes))
	}
	if diff := cmp.Diff(topology.Diff(was, is), topology.Diff(was, read)); diff != "" {
		t.Errorf("(-listed +not listed):\n%s", diff)
	}
}

// TestDiffTells: over random failures the changes account for every cable that
// is lost, each once, and Diff of equal fabrics says nothing.
func TestDiffTells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3, Cables: rapid.IntRange(1, 2).Draw(t, "cables"), Shuffle: rapid.Uint64().Draw(t, "shuffle")})
		is := was.Clone()
		lost := map[[2]topology.CableEnd]bool{}
		for range rapid.IntRange(0, 6).Draw(t, "failures") {
			node := rapid.Int32Range(0, int32(len(is.Nodes)-1)).Draw(t, "node")
			at := topology.PortRef{Node: node, Port: uint8(rapid.IntRange(1, len(is.Nodes[node].Ports)-1).Draw(t, "port"))}
			if p := *is.At(at); p.Connected() {
				a := topology.CableEnd{Node: is.Nodes[node].GUID, Port: at.Port}
				b := topology.CableEnd{Node: is.Nodes[p.Peer].GUID, Port: p.PeerPort}
				lost[[2]topology.CableEnd{a, b}], lost[[2]topology.CableEnd{b, a}] = true, true
				is.Disconnect(at)
			}
		}
		if again := topology.Diff(is, is.Clone()); again != nil {
			t.Fatalf("no change, but %v", says(again))
		}
		changes := topology.Diff(was, is)
		gone := map[ib.GUID]bool{}
		for _, c := range changes {
			switch c.Kind {
			case topology.ChangeNodeGone:
				gone[c.At.Node] = true
			case topology.ChangeCableDown:
				if !lost[[2]topology.CableEnd{c.At, c.Peer}] {
					t.Fatalf("%q is not lost, or is told twice", c.Text)
				}
				delete(lost, [2]topology.CableEnd{c.At, c.Peer})
				delete(lost, [2]topology.CableEnd{c.Peer, c.At})
			default:
				t.Fatalf("unexpected %s: %s", c.Kind, c.Text)
			}
		}
		for ends := range lost {
			if !gone[ends[0].Node] && !gone[ends[1].Node] {
				t.Fatalf("nothing is said of %v in %v", ends, says(changes))
			}
		}
		if back := topology.Diff(is, was); len(back) != len(changes) {
			t.Fatalf("there %v, back %v", says(changes), says(back))
		}
		if !slices.Equal(changes, topology.Diff(was, is)) {
			t.Fatal("the second time something else is said")
		}
	})
}

func BenchmarkDiff(b *testing.B) {
	was := fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5})
	is := was.Clone()
	must(b, is, "Leaf007/31", "Spine010")
	b.ReportAllocs()
	for b.Loop() {
		topology.Diff(was, is)
	}
}

// Aggregation nodes come and go with their switches, and are not spoken of.
func TestDiffAggregationNodes(t *testing.T) {
	f := fabgen.WithAggregation(fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1}))
	gone := without(t, f, fabgen.SpineGUID, fabgen.AggregationGUID+fabgen.SpineGUID)
	got := topology.Diff(f, gone)
	if len(got) != 1 || got[0].Text != "switch Spine000 disappeared (2 cables)" {
		t.Errorf("got %v", got)
	}
	bare := f.Clone()
	bare.Disconnect(ref(t, bare, fabgen.AggregationGUID+fabgen.SpineGUID, 1))
	if got := topology.Diff(f, bare); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}
