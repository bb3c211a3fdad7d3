package lft

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/ib"
)

// TestCommon compares with a look at every entry of every set.
func TestCommon(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for range 200 {
		all := make([]*Tables, 1+rng.IntN(3))
		for i := range all {
			all[i] = &Tables{}
			for g := range 4 {
				if rng.IntN(5) == 0 {
					continue
				}
				s := Table{GUID: 10 + 2*ib.GUID(g), Out: make([]uint8, 6+i)}
				for lid := range s.Out {
					s.Out[lid] = []uint8{1, 2, NoPath}[rng.IntN(3)]
				}
				all[i].Switches = append(all[i].Switches, s)
			}
		}
		before := fmt.Sprint(all[0].Switches)
		got := Common(all...)
		if after := fmt.Sprint(all[0].Switches); after != before {
			t.Fatalf("%s became %s", before, after)
		}
		for g := range 4 {
			at := got.Find(10 + 2*ib.GUID(g))
			for lid := range 10 {
				want := NoPath
				for i, s := range all {
					port := NoPath
					if j := s.Find(10 + 2*ib.GUID(g)); j >= 0 && lid < len(s.Switches[j].Out) {
						port = s.Switches[j].Out[lid]
					}
					if i == 0 {
						want = port
					} else if port != want {
						want = NoPath
					}
				}
				have := NoPath
				if at >= 0 && lid < len(got.Switches[at].Out) {
					have = got.Switches[at].Out[lid]
				}
				if have != want {
					t.Fatalf("switch %d LID %d: port %d, want %d", g, lid, have, want)
				}
			}
		}
	}
	if got := Common(&Tables{Switches: []Table{{GUID: 1, Out: []uint8{3}}}}, nil); len(got.Switches) != 0 {
		t.Errorf("with tables that are not known: %v", got)
	}
}
