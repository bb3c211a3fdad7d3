package phasetable

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
)

// blockTable is a plan in blocks: in block b the servers of leaf a, a group, send to those
// of the leaf b places on.
func blockTable(leaves, servers int, lmc uint8) *Table {
	t := &Table{Epoch: 3, Servers: shiftTable(leaves, servers, lmc).Servers, Lanes: servers, Blocks: &Blocks{Group: servers, Blocks: leaves}}
	b := t.Blocks
	for a := range leaves {
		b.Groups = append(b.Groups, Members{a * servers, servers})
	}
	for block := range leaves {
		for a := range leaves {
			for i := range servers {
				d := (a+block)%leaves*servers + i
				lane, dlid := int16(Local), t.Servers[d].LID
				if block != 0 {
					lane, dlid = int16(i), dlid+ib.LID(i%(1<<lmc))
				}
				b.To, b.Lane, b.DLID = append(b.To, int32(d)), append(b.Lane, lane), append(b.DLID, dlid)
			}
		}
	}
	return t
}

// placesTable is a linear shift over all servers, with a free place at the end; leaves are
// their own pods.
func placesTable(leaves, servers int, lmc uint8) *Table {
	t := &Table{Epoch: 3, Servers: shiftTable(leaves, servers, lmc).Servers, Lanes: servers, Shift: &Shift{Places: leaves*servers + 1}}
	for s := range t.Servers {
		t.Shift.At = append(t.Shift.At, Place{Place: uint32(s), Pod: uint32(s / servers), Lane: int16(s % servers)})
	}
	return t
}

// TestRules checks that tables of a rule give the same results as tables of rows with the same
// transfers, by every way of reading, and that other readers see the version.
func TestRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		leaves, servers := rapid.IntRange(1, 5).Draw(rt, "leaves"), rapid.IntRange(1, 4).Draw(rt, "servers")
		lmc := uint8(rapid.IntRange(0, 2).Draw(rt, "lmc"))
		in := placesTable(leaves, servers, lmc)
		if rapid.Bool().Draw(rt, "blocks") {
			in = blockTable(leaves, servers, lmc)
			drop := rapid.IntRange(0, len(in.Blocks.To)-1).Draw(rt, "drop")
			in.Blocks.To[drop] = Idle
		}
		v := mustDecode(rt, mustEncode(rt, in))
		rows := v.Table()
		other := mustDecode(rt, mustEncode(rt, rows)) // which checks that sends and receives mirror each other
		base := true
		for s := range v.Servers() {
			row, want := v.Row(s), other.Row(s)
			if !cmp.Equal(row, want) {
				rt.Fatalf("the row of server %d differs", s)
			}
			for p := range v.Phases() {
				e := v.At(s, p)
				if e != want.At(p) {
					rt.Fatalf("server %d, phase %d: %+v, want %+v", s, p, e, want.At(p))
				}
				base = base && (e.SendTo == Idle || e.DLID == v.Server(e.SendTo).LID)
			}
		}
		if in.Shift != nil {
			for p := range v.Phases() {
				for s := range v.Servers() {
					if want := (s + p + 1) % in.Shift.Places; v.At(s, p).SendTo != want && want < v.Servers() {
						rt.Fatalf("server %d sends to %d in phase %d, want %d", s, v.At(s, p).SendTo, p, want)
					}
				}
			}
		}
		if v.ToBaseLIDs() != base || other.ToBaseLIDs() != base {
			rt.Fatalf("to base LIDs: %t and %t, want %t", v.ToBaseLIDs(), other.ToBaseLIDs(), base)
		}
		again, err := v.Numbered(v.Job(), 9, strings.Repeat("ab", hashSize))
		if err != nil || again.Epoch() != 9 || again.TopologyHash() != strings.Repeat("ab", hashSize) {
			rt.Fatalf("under another number: %v", err)
		}
		if _, err := Decode(again.Bytes()); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestRulesRefused spoils tables of a rule field by field.
func TestRulesRefused(t *testing.T) {
	blocks, places := mustEncode(t, blockTable(3, 2, 1)), mustEncode(t, placesTable(3, 2, 1))
	section := func(data []byte, i int) []byte { return data[le.Uint64(data[offSections+16*i:]):] }
	for _, c := range []struct {
		name  string
		of    []byte
		spoil func(d []byte)
		want  string
	}{
		{"form", blocks, func(d []byte) { d[offForm] = 3 }, "form 3"},
		{"no group", blocks, func(d []byte) { d[offGroup] = 0 }, "blocks of 0 phases"},
		{"phases", blocks, func(d []byte) { d[offPhases]++ }, "7 phases"},
		{"huge", blocks, func(d []byte) { le.PutUint32(d[offGroups:], 1<<31) }, "groups"},
		{"blocks", blocks, func(d []byte) { d[offBlocks]++ }, "phases"},
		{"unit beyond", blocks, func(d []byte) { le.PutUint16(section(d, secUnits), 6) }, "leads to server 6"},
		{"unit elsewhere", blocks, func(d []byte) { le.PutUint16(section(d, secUnits), 1) }, "which receives from slot"},
		{"unit of another LID", blocks, func(d []byte) { le.PutUint16(section(d, secUnits)[unitSize+2:], 1) }, "is not one of the destination's"},
		{"lane", blocks, func(d []byte) { le.PutUint16(section(d, secUnits)[unitSize+4:], 9) }, "lane 9"},
		{"received from nowhere", blocks, func(d []byte) { le.PutUint16(section(d, secUnits), nobody) }, "slot 0 has no destination"},
		{"group of none", blocks, func(d []byte) { le.PutUint32(section(d, secGroups), 1) }, "group 0 has 2 members"},
		{"group too large", blocks, func(d []byte) { le.PutUint32(section(d, secGroups)[4:], 3) }, "group 0 has 3 members"},
		{"in another group", blocks, func(d []byte) { le.PutUint32(section(d, secGroupOf), 1) }, "server 0 is of group 1"},
		{"group of two leaves", blocks, func(d []byte) { section(d, secServers)[srvSize+srvLeaf] = 7 }, "on leaf"},
		{"place", places, func(d []byte) { le.PutUint32(section(d, secPlaces), 1) }, "server 0 is on place 0"},
		{"place twice", places, func(d []byte) { le.PutUint32(section(d, secOnPlace)[4*6:], 1) }, "server 1 is on place 6"},
		{"no place", places, func(d []byte) { le.PutUint32(section(d, secOnPlace), noneOf) }, "5 of 6 servers"},
		{"lane of a shift", places, func(d []byte) { le.PutUint16(section(d, secPlaces)[8:], 9) }, "lane 9"},
	} {
		data := append([]byte(nil), c.of...)
		c.spoil(data)
		if _, err := Decode(reseal(data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
	two := blockTable(3, 2, 1)
	two.To = []int32{0}
	for name, bad := range map[string]*Table{"rows besides": two, "too few units": {Servers: two.Servers, Blocks: &Blocks{Group: 2, Blocks: 1, Groups: []Members{{0, 2}}}},
		"too few places": {Servers: two.Servers, Shift: &Shift{Places: 6}}} {
		if _, err := Encode(bad); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}
