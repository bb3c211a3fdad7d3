package podplan_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestMakeFrom compares with plans as they are written, with rows and in blocks. What
// MakeFrom counts is what differs, and where nothing fails nothing changes.
func TestMakeFrom(t *testing.T) {
	for i, s := range []fabgen.TreeSpec{
		{Pods: 4, Leaves: 2, Mids: 2, Tops: 2, Hosts: 2, LMC: 5}, fabgen.KAry(8),
		{Pods: 4, Leaves: 4, Mids: 4, Tops: 4, Hosts: 4, LMC: 2, Missing: [][2]int{{0, 1}, {5, 0}}},
	} {
		rng := rand.New(rand.NewPCG(3, uint64(i)))
		var fail []string
		r := made(t, fitted(t, s))
		for _, one := range s.Draw(rng, fabgen.Damage{LeafCables: 2, TopCables: 1}) {
			table := r.Compact(1)
			if len(fail) == 1 {
				table = r.Rows(1)
			}
			data, err := phasetable.Encode(table)
			if err != nil {
				t.Fatal(err)
			}
			old, err := phasetable.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			same, err := podplan.MakeFrom(context.Background(), fitted(t, s, fail...), podplan.Settings{MaxUnreachable: &all}, old, r.Tables)
			if err != nil {
				t.Fatal(err)
			}
			if c := same.Report(); *c.PairsChanged != 0 || c.BlocksChanged != 0 || same.Plan.Phases() != r.Plan.Phases() {
				t.Errorf("%+v, %v, from itself: %+v, %d phases, then %d", s, fail, c, r.Plan.Phases(), same.Plan.Phases())
			}
			fail = append(fail, one)
			next, err := podplan.MakeFrom(context.Background(), fitted(t, s, fail...), podplan.Settings{MaxUnreachable: &all}, old, r.Tables)
			if err != nil {
				t.Fatal(err)
			}
			if c := next.Report().Changes; lft.Changes(r.Tables, next.Tables).Blocks != c.BlocksChanged || c.TableBlocks <= c.BlocksChanged {
				t.Errorf("%+v, %v: the report has %+v", s, fail, c)
			}
			r = next
		}
	}
}
