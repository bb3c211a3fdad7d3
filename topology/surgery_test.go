package topology_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestWithout takes random cables away: the fabric holds together, has all the others,
// and lacks the switches that have none left; the one before is as it was.
func TestWithout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := fabgen.Generate(fabgen.Spec{Spines: rapid.IntRange(1, 4).Draw(t, "spines"), Leaves: rapid.IntRange(1, 4).Draw(t, "leaves")})
		hash := whole.Hash()
		var all []topology.PortRef
		for i := range whole.Nodes {
			trunks := whole.Trunks(int32(i))
			if whole.Nodes[i].Kind == topology.Adapter && len(trunks) != 1 {
				t.Fatalf("%s has ports %v at switches", &whole.Nodes[i], trunks)
			}
			for p := range whole.Nodes[i].Ports {
				r := topology.PortRef{Node: int32(i), Port: uint8(p)}
				to := whole.Nodes[i].Ports[p].Peer
				if want := to != topology.None && whole.Nodes[to].Kind == topology.Switch; whole.Trunk(r) != want || slices.Contains(trunks, uint8(p)) != want {
					t.Fatalf("%s: Trunk says %v, Trunks %v", whole.PortLabel(r), whole.Trunk(r), trunks)
				}
				if whole.At(r).Connected() {
					all = append(all, r)
				}
			}
		}
		lost := rapid.SliceOfN(rapid.SampledFrom(all), 0, len(all)).Draw(t, "lost")
		given := slices.Clone(lost)
		cut := whole.Without(lost...)
		if err := cut.Validate(); err != nil || whole.Hash() != hash || !slices.Equal(lost, given) {
			t.Fatalf("%v; what was given has changed: %v, %v", err, whole.Hash() != hash, !slices.Equal(lost, given))
		}
		if (cut == whole) != (len(lost) == 0) {
			t.Fatalf("%d cables lost, and a copy: %v", len(lost), cut != whole)
		}
		left := map[ib.GUID]int{}
		for _, r := range all {
			p := whole.At(r)
			gone := slices.Contains(lost, r) || slices.Contains(lost, topology.PortRef{Node: p.Peer, Port: p.PeerPort})
			node := cut.Find(whole.Nodes[r.Node].GUID)
			there := node != topology.None && cut.Nodes[node].Ports[r.Port].Connected()
			if there == gone {
				t.Fatalf("the cable %s is there: %v", whole.CableLabel(r), there)
			}
			if there {
				left[whole.Nodes[r.Node].GUID]++
			}
		}
		for i := range whole.Nodes {
			n := &whole.Nodes[i]
			if stranded := n.Kind == topology.Switch && left[n.GUID] == 0; (cut.Find(n.GUID) == topology.None) != (stranded && len(lost) > 0) {
				t.Fatalf("%s has %d cables left, and is at %d", n, left[n.GUID], cut.Find(n.GUID))
			}
		}
	})
}

// TestTrunk holds for ports that are not up, or are not there.
func TestTrunk(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	leaf := f.Find(fabgen.LeafGUID)
	up := f.Trunks(leaf)
	if len(up) != 2 || f.Trunk(topology.PortRef{Node: leaf, Port: 255}) {
		t.Fatalf("trunks %v, port 255 %v", up, f.Trunk(topology.PortRef{Node: leaf, Port: 255}))
	}
	f.Nodes[leaf].Ports[up[0]].State = topology.Init
	if got := f.Trunks(leaf); !slices.Equal(got, up[1:]) {
		t.Errorf("trunks %v, and port %d is not active", got, up[0])
	}
}
