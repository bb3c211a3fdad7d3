package phasetable

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
)

// TestChanges compares with a reading of both tables pair by pair.
func TestChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := anyTable(rt), anyTable(rt)
		if len(a.Servers) > 0 && rapid.Bool().Draw(rt, "the same fabric") {
			b = anyTable(rt)
			for i := range min(len(a.Servers), len(b.Servers)) {
				b.Servers[i].GUID = a.Servers[i].GUID
			}
		}
		old, err := New(a)
		if err != nil {
			rt.Fatal(err)
		}
		now, err := New(b)
		if err != nil {
			rt.Skip("GUIDs are taken twice")
		}
		var want []PairChange
		for s := range now.Servers() {
			for p := range now.Phases() {
				x := now.Row(s).At(p)
				if x.SendTo == Idle {
					continue
				}
				src, dst := now.Server(s).GUID, now.Server(x.SendTo).GUID
				if was := dlidOf(old, src, dst); was != 0 && was != x.DLID {
					want = append(want, PairChange{src, dst, was, x.DLID})
				}
			}
		}
		if d := cmp.Diff(want, Changes(old, now)); d != "" {
			rt.Fatalf("changes (-want +got):\n%s", d)
		}
		if c := Changes(old, old); len(c) > 0 && len(sent(a)) == len(a.To) {
			rt.Fatalf("a table differs from itself: %v", c)
		}
	})
}

// dlidOf returns the last LID that src sends to dst by, or 0 if it sends nothing.
func dlidOf(v *View, src, dst ib.GUID) (lid ib.LID) {
	s, ok := v.FindGUID(src)
	if !ok {
		return 0
	}
	for p := range v.Phases() {
		if x := v.Row(s).At(p); x.SendTo != Idle && v.Server(x.SendTo).GUID == dst {
			lid = x.DLID
		}
	}
	return lid
}

// sent is the pairs that a table has.
func sent(t *Table) map[[2]int32]bool {
	pairs := map[[2]int32]bool{}
	for i, d := range t.To {
		pairs[[2]int32{int32(i % max(1, len(t.Servers))), d}] = true
	}
	return pairs
}

// TestChangesOfLanes moves one pair of a shift to another lane.
func TestChangesOfLanes(t *testing.T) {
	a := shiftTable(3, 2, 1)
	b := shiftTable(3, 2, 1)
	old, err := New(a)
	if err != nil {
		t.Fatal(err)
	}
	i := 2*len(b.Servers) + 1 // phase 2, from server 1 to 4
	b.Lane[i] ^= 1
	b.DLID[i] ^= 1
	b.Epoch++
	now, err := New(b)
	if err != nil {
		t.Fatal(err)
	}
	want := []PairChange{{b.Servers[1].GUID, b.Servers[4].GUID, a.DLID[i], b.DLID[i]}}
	if d := cmp.Diff(want, Changes(old, now)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	if c := Changes(old, old); len(c) > 0 {
		t.Errorf("a table differs from itself: %v", c)
	}
}
