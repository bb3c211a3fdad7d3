package phasetable

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
)

// words encodes numbers as in the format: in two bytes each, or in four if written as 4:N.
func words(text string) (out []byte) {
	for _, f := range strings.Fields(text) {
		var n uint32
		if _, err := fmt.Sscanf(f, "4:%v", &n); err == nil {
			out = le.AppendUint32(out, n)
		} else if _, err := fmt.Sscanf(f, "%v", &n); err == nil {
			out = le.AppendUint16(out, uint16(n))
		}
	}
	return out
}

// unequal is a table in blocks of two leaves, of two servers and one: the second server of
// the second group is missing.
func unequal() *Table {
	servers := shiftTable(2, 2, 1).Servers[:3]
	return &Table{Servers: servers, Lanes: 2, Blocks: &Blocks{Group: 2, Blocks: 2, Groups: []Members{{0, 2}, {2, 1}},
		To:   []int32{0, 1, 2, Idle, 2, Idle, 1, 0},
		Lane: []int16{Local, Local, Local, 7, 1, 7, 0, 1},
		DLID: []ib.LID{100, 102, 104, 9, 105, 9, 102, 101}}}
}

// pods is a shift of four servers in two pods, on places of five; the first two are on one
// leaf, the third is in their pod.
func pods() *Table {
	servers := shiftTable(4, 1, 0).Servers
	servers[1].Leaf = 0
	return &Table{Servers: servers, Lanes: 4, Shift: &Shift{Places: 5, At: []Place{{0, 8, 0, 1}, {1, 8, 1, 0}, {3, 8, 2, 3}, {4, 9, 3, 0}}}}
}

// TestRulesLayout compares what is written of rules with the format as documented.
func TestRulesLayout(t *testing.T) {
	for name, c := range map[string]struct {
		table    *Table
		header   string // from byte 224 on
		phases   uint32
		sections []string // after the names
	}{
		"blocks": {unequal(), "4:1 4:2 4:2 4:2", 4, []string{
			"0 100 0xffff  2 105 1  1 102 0xffff  0xffff 0 0xffff  2 104 0xffff  1 102 0  0xffff 0 0xffff  0 101 1",
			"4:0 4:3  4:1 4:2  4:2 4:0", "4:0 4:2  4:2 4:1", "4:0 4:0 4:1"}},
		"shift": {pods(), "4:2 4:0 4:0 4:5", 4, []string{
			"4:0 4:8 0 1  4:1 4:8 1 0  4:3 4:8 2 3  4:4 4:9 3 0",
			"4:0 4:1 4:0xffffffff 4:2 4:3", "", ""}},
	} {
		data := mustEncode(t, c.table)
		if got := le.Uint32(data[84:]); got != c.phases {
			t.Errorf("%s: %d phases, want %d", name, got, c.phases)
		}
		if d := cmp.Diff(words(c.header), data[224:240]); d != "" {
			t.Errorf("%s: header (-want +got):\n%s", name, d)
		}
		if first := le.Uint64(data[96:]); first != 256 {
			t.Errorf("%s: the first section is at %d, want 256", name, first)
		}
		for i, want := range c.sections {
			at := data[96+16*(4+i):]
			if d := cmp.Diff(words(want), slices.Clip(append([]byte(nil), data[le.Uint64(at):][:le.Uint64(at[8:])]...))); d != "" && want != "" {
				t.Errorf("%s: section %d (-want +got):\n%s", name, 4+i, d)
			} else if want == "" && le.Uint64(at[8:]) != 0 {
				t.Errorf("%s: section %d has %d bytes", name, 4+i, le.Uint64(at[8:]))
			}
		}
	}
}

// TestRulesRows works out what servers do by rules: destination, source, LID and lane.
func TestRulesRows(t *testing.T) {
	for name, c := range map[string]struct {
		table *Table
		want  []string // [server] of each phase
	}{
		"blocks": {unequal(), []string{
			"-1←-1 0/-1  1←1 102/-1  2←-1 105/1  -1←2 0/-1",
			"-1←-1 0/-1  0←0 100/-1  -1←2 0/-1  2←-1 105/1",
			"-1←-1 0/-1  -1←-1 0/-1  1←0 102/0  0←1 101/1"}},
		"shift": {pods(), []string{
			"1←3 101/-1  -1←2 0/-1  2←-1 102/3  3←1 103/3",
			"-1←0 0/-1  2←3 102/3  3←2 103/3  0←-1 100/-1",
			"3←-1 103/3  0←1 100/1  1←0 101/0  -1←3 0/-1",
			"0←2 100/0  1←-1 101/1  -1←1 0/-1  2←0 102/2"}},
	} {
		v := mustDecode(t, mustEncode(t, c.table))
		for s, want := range c.want {
			var got []string
			for p := range v.Phases() {
				e := v.At(s, p)
				got = append(got, fmt.Sprintf("%d←%d %d/%d", e.SendTo, e.RecvFrom, e.DLID, e.Lane))
			}
			if text := strings.Join(got, "  "); text != want {
				t.Errorf("%s: server %d: %s, want %s", name, s, text, want)
			}
		}
	}
}

// TestRulesNotWritten refuses rules of a wrong shape, and those whose servers do not fit.
func TestRulesNotWritten(t *testing.T) {
	for name, c := range map[string]struct {
		table func() *Table
		spoil func(t *Table)
		want  string
	}{
		"both":              {unequal, func(t *Table) { t.Shift = pods().Shift }, "one of the three"},
		"rows besides":      {unequal, func(t *Table) { t.To = []int32{0} }, "rows of 1 destinations"},
		"group of none":     {unequal, func(t *Table) { t.Blocks.Group = 0 }, "2 blocks × 2 groups of 0"},
		"less than none":    {unequal, func(t *Table) { t.Blocks.Blocks = -1 }, "-1 blocks × 2 groups of 2"},
		"too few lanes":     {unequal, func(t *Table) { t.Blocks.Lane = t.Blocks.Lane[1:] }, "7 lanes"},
		"too few LIDs":      {unequal, func(t *Table) { t.Blocks.DLID = t.Blocks.DLID[1:] }, "7 LIDs"},
		"another's LID":     {unequal, func(t *Table) { t.Blocks.DLID[4] = 106 }, "not one of the destination's"},
		"too many phases":   {pods, func(t *Table) { t.Shift.Places = maxPhases + 2 }, "phases: want 0 to"},
		"too few places":    {pods, func(t *Table) { t.Shift.At = t.Shift.At[1:] }, "3 places for 4 servers"},
		"a place beyond":    {pods, func(t *Table) { t.Shift.At[3].Place = 5 }, "3 of 4 servers are on places"},
		"a lane beyond":     {pods, func(t *Table) { t.Shift.At[3].Lane = 4 }, "lane 4: there are 4"},
		"an inner lane":     {pods, func(t *Table) { t.Shift.At[3].Inner = -1 }, "lane -1: there are 4"},
		"a server beyond":   {unequal, func(t *Table) { t.Blocks.Groups[1].Count = 2 }, "group 1 has 2 members"},
		"a server too few":  {unequal, func(t *Table) { t.Blocks.Groups[1].Count = 0 }, "2 of 3 servers are in groups"},
		"a hash":            {pods, func(t *Table) { t.TopologyHash = "x" }, "hash"},
		"a server twice":    {pods, func(t *Table) { t.Servers[1].GUID = t.Servers[0].GUID }, ""},
		"sent to by two":    {unequal, func(t *Table) { t.Blocks.To[1], t.Blocks.DLID[1] = 0, 100 }, "which receives from slot 1"},
		"a lane of a group": {unequal, func(t *Table) { t.Blocks.Lane[4] = 2 }, "lane 2"},
	} {
		x := c.table()
		c.spoil(x)
		if _, err := Encode(x); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
	x := pods() // without lanes any will do
	x.Lanes, x.Shift.At[0].Lane = 0, -7
	if v := mustDecode(t, mustEncode(t, x)); v.At(3, 0).Lane != Local {
		t.Errorf("lane %d without lanes", v.At(3, 0).Lane)
	}
	x = &Table{Shift: &Shift{Places: 0}}
	if v := mustDecode(t, mustEncode(t, x)); v.Phases() != 0 {
		t.Errorf("%d phases of no places", v.Phases())
	}
}
