package lft

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"

	"pgregory.net/rapid"
)

// ringByHand decides whether the channel dependency graph has a cycle by taking
// channels without successors away until none is left.
func ringByHand(t *Tables, f *topology.Fabric) bool {
	follows := map[topology.PortRef]map[topology.PortRef]bool{}
	channel := func(node int32, lid topology.LID) (topology.PortRef, bool) {
		i := t.Find(f.Nodes[node].GUID)
		if i < 0 {
			return topology.PortRef{}, false
		}
		out := t.Port(i, lid)
		if out == NoPath || int(out) >= len(f.Nodes[node].Ports) {
			return topology.PortRef{}, false
		}
		port := &f.Nodes[node].Ports[out]
		return topology.PortRef{Node: node, Port: out}, port.Up() && f.Nodes[port.Peer].Kind == topology.Switch
	}
	for _, lid := range LIDs(f) {
		for i := range f.Nodes {
			if f.Nodes[i].Kind != topology.Switch {
				continue
			}
			c, ok := channel(int32(i), lid)
			if !ok {
				continue
			}
			if d, ok := channel(f.At(c).Peer, lid); ok {
				if follows[c] == nil {
					follows[c] = map[topology.PortRef]bool{}
				}
				follows[c][d] = true
			}
		}
	}
	for removed := true; removed; {
		removed = false
		for c, next := range follows {
			for d := range next {
				if follows[d] == nil {
					delete(next, d)
				}
			}
			if len(next) == 0 {
				delete(follows, c)
				removed = true
			}
		}
	}
	return len(follows) > 0
}

// TestDeadlockFree: on tables of random nonsense the verdict is that of the slow
// way, and the cycle of an error is one.
func TestDeadlockFree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: rapid.IntRange(2, 4).Draw(r, "leaves"), Hosts: []int{1}})
		tables := newTables(f)
		for i := range tables.Switches {
			s := &tables.Switches[i]
			for lid := 1; lid < len(s.Out); lid++ {
				s.Out[lid] = rapid.SampledFrom([]uint8{NoPath, NoPath, 0, 1, 2, 3, 200}).Draw(r, "port")
			}
		}
		g := tables.dependencies(f)
		cycle := g.cycle()
		if want := ringByHand(tables, f); (cycle != nil) != want {
			r.Fatalf("cycle %v, and by hand %t", cycle, want)
		}
		for i, c := range cycle {
			if d := cycle[(i+1)%len(cycle)]; g.between(c, d) == 0 {
				r.Fatalf("no LID goes on from channel %d to %d", c, d)
			}
		}
	})
}

// TestDeadlockWords: the error names the cables and the LIDs.
func TestDeadlockWords(t *testing.T) {
	ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, Hosts: []int{1}}), nil)
	tables := build(t, ft)
	lid := ft.Hosts[1].LID
	// Leaf000 → Spine000 → Leaf000 → …
	tables.Switches[tables.Find(fabgen.SpineGUID)].Out[lid] = 1
	tables.Switches[tables.Find(fabgen.LeafGUID)].Out[lid] = 2
	err := tables.DeadlockFree(ft.Fabric)
	const want = "packets can wait for each other in a ring: Leaf000 port 2 – Spine000 port 1 (LID 0x0006), then Spine000 port 1 – Leaf000 port 2 (LID 0x0006), then again the first; rebuild the tables"
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant %s", err, strings.TrimSpace(want))
	}
}
