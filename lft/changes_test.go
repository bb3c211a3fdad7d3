package lft

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestChanges counts the differences of random tables one LID at a time.
func TestChanges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		draw := func(name string) *Tables {
			length := rapid.IntRange(1, 200).Draw(r, name+" length")
			t := &Tables{}
			for g := ib.GUID(1); g < 5; g++ {
				if rapid.IntRange(0, 3).Draw(r, name+" switch") > 0 {
					out := make([]uint8, length)
					for i := range out {
						out[i] = NoPath
					}
					for range rapid.IntRange(0, 3).Draw(r, name+" entries") {
						out[rapid.IntRange(0, length-1).Draw(r, name+" LID")] = uint8(rapid.IntRange(0, 2).Draw(r, name+" port"))
					}
					t.Switches = append(t.Switches, Table{GUID: g, Out: out})
				}
			}
			return t
		}
		a, b := draw("a"), draw("b")
		port := func(t *Tables, g ib.GUID, lid int) uint8 {
			if i := t.Find(g); i >= 0 {
				return t.Port(i, ib.LID(lid))
			}
			return NoPath
		}
		var want Delta
		blocks, switches := map[[2]int]bool{}, map[ib.GUID]bool{}
		for g := ib.GUID(1); g < 5; g++ {
			for lid := range 200 {
				if port(a, g, lid) != port(b, g, lid) {
					want.Entries++
					blocks[[2]int{int(g), lid / 64}], switches[g] = true, true
				}
			}
		}
		want.Blocks, want.Switches = len(blocks), len(switches)
		if got := Changes(a, b); got != want {
			r.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// TestOneCable checks that a dead cable of FT(2;20,18) changes entries only in its two
// switches and in the other leaves.
func TestOneCable(t *testing.T) {
	f := fabgen.Generate(lhcb)
	cut := func(f *topology.Fabric) { f.Disconnect(topology.PortRef{Node: f.Find(fabgen.LeafGUID + 4), Port: 30}) }
	d := Changes(build(t, tree(t, f, nil)), build(t, tree(t, f, cut)))
	t.Logf("one dead cable: %+v", d)
	if d.Switches < 18 || d.Switches > 19 || d.Entries < 2*(18*20-20) {
		t.Errorf("one dead cable changes %+v", d)
	}
}

// TestCompare: differences on the given LIDs are found and named, others not.
func TestCompare(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 4, LMC: 1})
	ft := tree(t, f, nil)
	lids := LIDs(f)
	for want, change := range map[string]func(*Tables){
		"<nil>": func(t *Tables) { t.Switches[3].Out[7] = 3 }, // LID 7 is unused
		"switch Leaf003 LID 0x0008: port 2 programmed, port 3 planned":                         func(t *Tables) { t.Switches[3].Out[8] = 2 },
		"switch Leaf003 LID 0x0008: no entry programmed, port 3 planned":                       func(t *Tables) { t.Switches[3].Out[8] = NoPath },
		"switch Leaf001 LID 0x0006: port 9 programmed, port 4 planned, and 1 more differences": func(t *Tables) { t.Switches[1].Out[6], t.Switches[3].Out[8] = 9, 9 },
		"switch Spine001 (0x0000000000300001): no table was read back":                         func(t *Tables) { t.Switches = t.Switches[:5] },
		"switch Spine001 LID 0x0017: no entry programmed, port 4 planned":                      func(t *Tables) { t.Switches[5].Out = t.Switches[5].Out[:23] },
		"switch Spine000 (0x0000000000300000): no table was read back, and 1 more differences": func(t *Tables) { t.Switches = t.Switches[:4] },
		"switch Leaf000 LID 0x0001: port 1 programmed, port 0 planned, and 1 more differences": func(t *Tables) { t.Switches[0].Out[1], t.Switches[0].Out[2] = 1, 99 },
	} {
		got := build(t, ft)
		change(got)
		err := Compare(build(t, ft), got, lids)
		if text := fmt.Sprint(err); text != want {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
}

// TestBlocks counts the blocks of tables of all lengths around the ends of blocks.
func TestBlocks(t *testing.T) {
	tables, want := &Tables{}, 0
	for length, blocks := range map[int]int{0: 0, 1: 1, 63: 1, 64: 1, 65: 2, 128: 2, 129: 3} {
		out := make([]uint8, length)
		if got := Blocks(out); got != blocks {
			t.Errorf("%d entries: %d blocks, want %d", length, got, blocks)
		}
		tables.Switches = append(tables.Switches, Table{Out: out})
		want += blocks
	}
	if got := tables.Blocks(); got != want {
		t.Errorf("%d blocks, want %d", got, want)
	}
}
