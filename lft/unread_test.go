package lft

import (
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestFillUnread cuts tables off before the largest LID, as dump_fts does where
// that begins a block, and wants it completed there and nowhere else.
func TestFillUnread(t *testing.T) {
	for _, c := range []struct {
		hosts int // of the one leaf that varies
		cut   int // table length as read
		lid   ib.LID
	}{
		{14, 64, 64}, // 56 hosts, 8 switches
		{14, 65, 0},  // read after all
		{13, 64, 0},  // the largest LID is 63
		{15, 64, 0},  // it is 65: its block is read, and was lost
	} {
		ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, Hosts: []int{14, 14, 14, c.hosts}}), nil)
		want := build(t, ft)
		got := build(t, ft)
		for i := range got.Switches {
			got.Switches[i].Out = got.Switches[i].Out[:min(c.cut, len(got.Switches[i].Out))]
		}
		if lid := FillUnread(got, want); lid != c.lid {
			t.Errorf("%d hosts, %d entries: LID %d filled in, want %d", c.hosts, c.cut, lid, c.lid)
		}
		complete := c.cut >= len(want.Switches[0].Out) || c.lid != 0
		if err := Compare(want, got, LIDs(ft.Fabric)); (err == nil) != complete {
			t.Errorf("%d hosts, %d entries: %v", c.hosts, c.cut, err)
		}
	}
}
