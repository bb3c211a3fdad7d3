package topology_test

import (
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestPodSlow checks that no schedule uses a cable of three levels that is slower than the
// others, by either of its ends.
func TestPodSlow(t *testing.T) {
	for _, at := range []ib.GUID{fabgen.LeafGUID, fabgen.MidGUID} {
		for _, far := range []bool{false, true} {
			f := fabgen.GenerateTree(fabgen.KAry(4))
			base, err := topology.NewPodBaseline(f)
			if err != nil {
				t.Fatal(err)
			}
			p := f.At(topology.PortRef{Node: f.Find(at), Port: 3})
			if far {
				p = f.At(topology.PortRef{Node: p.Peer, Port: p.PeerPort})
			}
			p.Rate.Width = 1
			tree, err := topology.FitPods(f, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			if up := tree.LeafUp(0, 0) && tree.LaneUp(0, 0); up {
				t.Errorf("%s, far end %v: the slow cable is used", at, far)
			}
		}
	}
}
