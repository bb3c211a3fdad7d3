package topology_test

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestPretendLMC gives fabrics other LMCs than they have.
func TestPretendLMC(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18})
	for _, lmc := range []uint8{5, 0, 6, 7} {
		anew, err := topology.PretendLMC(f, lmc)
		if want := lmc != 0; err != nil || anew != want {
			t.Errorf("LMC %d: numbered anew %v, %v", lmc, anew, err)
		}
		host := f.Nodes[0].Ports
		for i := range f.Nodes {
			if f.Nodes[i].Kind == topology.Adapter {
				host = f.Nodes[i].Ports
			}
		}
		if p := host[1]; p.LMC != lmc || p.LID%(1<<lmc) != 0 && lmc > 0 {
			t.Errorf("LMC %d: a host has LID %d, LMC %d", lmc, p.LID, p.LMC)
		}
	}
	big := fabgen.Generate(fabgen.Spec{Spines: 32, Leaves: 64})
	before := big.Hash()
	_, err := topology.PretendLMC(big, 7)
	if err == nil || !strings.Contains(err.Error(), "need 262367 LIDs, and there are 49151: the largest LMC that fits is 4") || big.Hash() != before {
		t.Errorf("LMC 7 for 2048 hosts: %v", err)
	}
	if _, err := topology.PretendLMC(big, 4); err != nil {
		t.Error(err)
	}
}
