package lft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestLines reads each line once as it is and once after a blank, which means nothing: both
// ways to read lines agree on every line, good or bad.
func TestLines(t *testing.T) {
	lines := []string{"0x0005 007", "0x0006 001", "0x0000 001", "0x0001 000", "0xbfff 254", "0xBFFF 099", "0xc000 001", "0x0006 255", "0x0006 254", "0x0006 999", "0x00ffff 001",
		"0x0006  01", "0x0006 01", "0x6 1", "0x0006 0010", "0x0006\t001", "0x0006 001 : (Channel Adapter portguid 0x1: 'x')", "0x0006 001\t", "0x0006 001 \r"}
	for at := range len("0x0006 001") {
		for _, c := range "0159:/afgAFG@`x X\t;'" {
			line := []byte("0x0006 001")
			line[at] = byte(c)
			lines = append(lines, string(line), string(line)+" # x")
		}
	}
	for n := 980; n < 995; n++ {
		lines = append(lines, "0x0006 001 "+strings.Repeat("x", n))
	}
	for _, line := range lines {
		for _, after := range []string{"", entry[:len(entry)-1] + " again\n"} { // the last line, and not
			plain, err := ReadBytes([]byte(head + "0x0004 009\n" + line + "\n" + after))
			blank, err2 := ReadBytes([]byte(head + "0x0004 009\n " + line + "\n" + after))
			if len(line) == maxLine { // the blank is what is too long
				if err != nil || err2 == nil {
					t.Errorf("%d bytes: %v, and %d: %v", maxLine, err, maxLine+1, err2)
				}
				continue
			}
			said := func(err error) string {
				text, _, long := strings.Cut(fmt.Sprint(err), "the line has ")
				if long {
					text += "the line is too long"
				}
				return text
			}
			if said(err) != said(err2) || err == nil && !slices.EqualFunc(plain.Switches, blank.Switches, sameTable) {
				t.Errorf("%.40q: %v, %v; after a blank %v, %v", line, plain, err, blank, err2)
			}
		}
	}
	got, err := ReadBytes([]byte(head + "0x0a5F 123\n0x0001 000\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte{NoPath}, 0xa60)
	want[0xa5f], want[1] = 123, 0
	if !bytes.Equal(got.Switches[0].Out, want) {
		t.Errorf("0xa5f by port 123: %v", got.Switches[0].Out)
	}
}

// TestForms checks the requirements of each form: correct counts, trailers in every section or
// in none, captions only above entries, and complete numbers.
func TestForms(t *testing.T) {
	other := strings.Replace(head, "200000", "100000", 1)
	dumped := strings.Replace(head, "[0x1-0x9]", "[1-9]", 1)
	for text, want := range map[string]string{
		"": "",
		"# forsd tables: 0 switches, 0 entries\n":                                 "",
		"# forsd tables: -1 switches, 0 entries\n":                                "line 1: -1 switches and 0 entries are no counts",
		"# forsd tables: 0 switches, -1 entries\n":                                "line 1: 0 switches and -1 entries are no counts",
		"# forsd tables: 0 switches, 0 entries\n" + head:                          "line 2: the text ends after 1 switches and 0 entries, and its first line counts 0 and 0: it was cut off",
		"# forsd tables: 1 switches, 1 entries\n" + head + entry:                  "",
		head + entry + "1 lids dumped\n" + other + entry:                          `line 5: only 1 of 2 switches end in a line "… lids dumped": the text was cut off`,
		head + entry + "1 lids dumped\n" + other + entry + "9 lids dumped\n":      "",
		head + entry + "1 lids dumped\n" + entry:                                  "line 4: an entry without a switch above it",
		dumped + entry:                                                            `line 2: the table of switch Leaf000 (line 1) has no line "… lids dumped": the text was cut off`,
		dumped + entry + other:                                                    `line 3: the table of switch Leaf000 (line 1) has no line "… lids dumped": the text was cut off`,
		dumped + entry + "1 lids dumped\n" + other:                                `line 4: only 1 of 2 switches end in a line "… lids dumped": the text was cut off`,
		"Lid Out Destination\n":                                                   `line 1: "Lid Out Destination" is not a part of a table dump: want what dump_fts -n prints, or a table file of forsd`,
		head + entry + "Lid Out Destination\n":                                    `line 3: "Lid Out Destination" is not a part of a table dump: want what dump_fts -n prints, or a table file of forsd`,
		head + "Port Info\n" + entry + "1 lids dumped\n":                          "",
		head + "0x0000 005\n" + entry + "2 valid lids dumped\n":                   "",
		"# forsd tables: 1 switches, 1 entries\n" + head + "0x0000 005\n" + entry: "",
		head + entry + "0":                                                        "line 3: the text ends within a line: it was cut off",
		head + "0xbfff 254\n":                                                     "",
		strings.Replace(head, "Lid 3 ", "Lid 49151 ", 1):                          "",
		strings.Replace(head, "Lid 3 ", "Lid 49152 ", 1):                          `line 1: "49152" is not the LID of a switch`,
		strings.Replace(head, "Lid 3 ", "Lid 3x ", 1):                             `line 1: "3x" is not the LID of a switch`,
		"Unicast lids of switch Lid 3 guid 0x2":                                   "line 1: the text ends within a line: it was cut off",
		"Unicast lids of switch Lid 3 guid 0x2\n":                                 `line 1: "2" is not the guid of a switch`,
		"Unicast lids of switch Lid 3 guid 0x2x ()\n":                             `line 1: "2x ()" is not the guid of a switch`,
		"Unicast lids of switch Lid 3 guid 0x00112233445566778 ()\n":              "",
		"Unicast lids of switch Lid 3 guid 0x123456789abcdef01 ()\n":              `line 1: "123456789abcdef01 ()" is not the guid of a switch`,
	} {
		if strings.Contains(text, "0x00112233445566778") {
			want = "" // leading zeros are of no account
		}
		_, err := ReadBytes([]byte(text))
		if (err == nil) != (want == "") || err != nil && err.Error() != "read tables: "+want {
			t.Errorf("%s\ngives %v\nwant  read tables: %s", text, err, want)
		}
	}
	for _, line := range []string{"Xid Out Destination", "Lid Xut Destination", "Lid Out Xestination", "Lid Out", "Lid Out Destination x", "Port Xnfo", "Xort Info", "Port Info x"} {
		if _, err := ReadBytes([]byte(head + line + "\n" + entry + "1 lids dumped\n")); err == nil || !strings.Contains(err.Error(), "line 2: ") {
			t.Errorf("%q is taken for a caption: %v", line, err)
		}
	}
	for text, want := range map[string]string{"('a'):": "a", "(a):": "a", "('):": "'", "():": "", "(:": "", "a'):": "", "(''):": "", "('a):": "'a", "(a'):": "a'"} {
		got, err := ReadBytes([]byte("Unicast lids of switch Lid 3 guid 0x2 " + text + "\n"))
		if err != nil || got.Switches[0].Name != want {
			t.Errorf("%s: %q, %v, want %q", text, got.Switches[0].Name, err, want)
		}
	}
	if _, err := Read(iotest.ErrReader(errors.New("the disk fails"))); err == nil || err.Error() != "read tables: the disk fails" {
		t.Error(err)
	}
	both, err := ReadBytes([]byte(head + entry + other + "0x0009 001\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(both.Switches) != 2 || both.Switches[0].GUID != 0x100000 || len(both.Switches[0].Out) != 10 || cap(both.Switches[0].Out) != 10 || len(both.Switches[1].Out) != 10 ||
		both.Switches[1].Out[5] != 7 || both.Switches[1].Out[9] != NoPath || both.Switches[0].Out[5] != NoPath {
		t.Errorf("tables of one length, by GUID: %+v", both.Switches)
	}
}

// TestPodPins checks that pinned entries are in the tables of three levels, that pins that lead
// nowhere are refused, and that BuildPods fails for an inconsistent fabric and for a caller that
// has gone.
func TestPodPins(t *testing.T) {
	f := fabgen.GenerateTree(fabgen.KAry(4))
	base, err := topology.NewPodBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := topology.FitPods(f, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, lid := tree.Leaves[0].Node, tree.Hosts[tree.Servers[len(tree.Servers)-1]].LID
	plain, err := BuildPods(t.Context(), tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := plain.Find(f.Nodes[leaf].GUID)
	was := plain.Port(at, lid)
	other := tree.Leaves[0].Cables[0].LeafPort
	if other == was {
		other = tree.Leaves[0].Cables[1].LeafPort
	}
	one := func(e Entry) []iter.Seq[Entry] {
		return []iter.Seq[Entry]{func(func(Entry) bool) {}, func(yield func(Entry) bool) { yield(e) }}
	}
	pinned, err := BuildPods(t.Context(), tree, one(Entry{leaf, lid, other}))
	if err != nil {
		t.Fatal(err)
	}
	if d := Changes(plain, pinned); pinned.Port(at, lid) != other || d.Entries != 1 {
		t.Errorf("pinned to port %d, the entry is port %d; %+v", other, pinned.Port(at, lid), d)
	}
	ports := uint8(len(f.Nodes[leaf].Ports))
	length := ib.LID(len(plain.Switches[0].Out))
	hurt := f.Clone()
	hurt.Disconnect(topology.PortRef{Node: leaf, Port: other})
	for name, c := range map[string]struct {
		f *topology.Fabric
		e Entry
	}{"no such port": {f, Entry{leaf, lid, ports}}, "port far off": {f, Entry{leaf, lid, 200}}, "no such LID": {f, Entry{leaf, length, other}}, "dead port": {hurt, Entry{leaf, lid, other}}} {
		tree, err := topology.FitPods(c.f, base, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := BuildPods(t.Context(), tree, one(c.e)); err == nil || !strings.Contains(err.Error(), "is pinned") {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := BuildPods(gone, tree, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("its caller has gone: %v", err)
	}
	spoilt := *tree
	spoilt.Fabric = f.Clone()
	spoilt.Fabric.At(tree.Hosts[0].At).Peer = leaf // a cable with one end
	spoilt.Fabric.Nodes[tree.Hosts[0].Node].Ports[1].LID = tree.Hosts[1].LID
	if _, err := BuildPods(t.Context(), &spoilt, nil); err == nil {
		t.Error("tables of a fabric with an LID given twice")
	}
}

// TestPinnedWhole pins every LID of every server from every other leaf, to the next lane than
// by the rule, with Pins and with a Pin each.
func TestPinnedWhole(t *testing.T) {
	ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 3, LMC: 1}), nil)
	pins, more := &Pins{LIDs: 2}, []Pin(nil)
	for l := range ft.Leaves {
		for _, i := range ft.Servers {
			for j := range pins.LIDs {
				h := &ft.Hosts[i]
				lane := -1
				if h.Leaf != l {
					lane = (ft.LIDLane(h, j) + 1) % ft.Lanes
					more = append(more, Pin{l, i, j, lane})
				}
				pins.Lane = append(pins.Lane, int16(lane))
			}
		}
	}
	a, err := BuildPinned(ft, pins)
	if err != nil {
		t.Fatal(err)
	}
	b, err := BuildPinned(ft, nil, more...)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(a, b); d != "" {
		t.Errorf("Pins (-) and single ones (+):\n%s", d)
	}
	for _, p := range more {
		want := ft.Leaves[p.Leaf].Cables[p.Lane].LeafPort
		if got := a.Port(a.Find(ft.Leaves[p.Leaf].GUID), ft.Hosts[p.Host].LID+ib.LID(p.LID)); got != want {
			t.Errorf("%+v: port %d, want %d", p, got, want)
		}
	}
}

// full is a writer that fails after some bytes.
type full int

func (n *full) Write(p []byte) (int, error) {
	if *n -= full(len(p)); *n < 0 {
		return 0, errors.New("the disk is full")
	}
	return len(p), nil
}

// TestWriteLines checks the text for owners in any order, for LIDs without an owner, for names
// with characters that would end a line, for no switches, and for a full disk.
func TestWriteLines(t *testing.T) {
	out := bytes.Repeat([]byte{NoPath}, 8)
	for lid := 1; lid < len(out); lid++ {
		out[lid] = uint8(lid * 36)
	}
	tables := &Tables{Switches: []Table{{GUID: 0x20, LID: 3, Name: "a\x1fb c\x7f", Out: out}}}
	owners := []Owner{{LID: 4, LMC: 1, GUID: 4, Kind: topology.Adapter, Name: "four"}, {LID: 3, GUID: 3, Kind: topology.Switch, Name: "three"},
		{LID: 1, GUID: 1, Kind: topology.Router, Name: "one"}, {LID: 7, LMC: 2, GUID: 7, Kind: 99, Name: "seven"}}
	const counts = "# forsd tables: 1 switches, 7 entries\nUnicast lids [0x1-0x7] of switch Lid 3 guid 0x0000000000000020 ('a b c '):\n"
	for _, c := range []struct {
		owners []Owner
		want   string
	}{
		{nil, counts + "0x0001 036\n0x0002 072\n0x0003 108\n0x0004 144\n0x0005 180\n0x0006 216\n0x0007 252\n"},
		{owners, counts + "0x0001 036 # Router portguid 0x0000000000000001: 'one'\n0x0002 072 # unknown node and type\n0x0003 108 # Switch portguid 0x0000000000000003: 'three'\n" +
			"0x0004 144 # Channel Adapter portguid 0x0000000000000004: 'four'\n0x0005 180 # Channel Adapter portguid 0x0000000000000004: 'four'\n0x0006 216 # unknown node and type\n" +
			"0x0007 252 # unknown portguid 0x0000000000000007: 'seven'\n"},
	} {
		if d := cmp.Diff(c.want, string(write(t, tables, c.owners))); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		for n := range len(c.want) {
			if room := full(n); tables.Write(&room, c.owners) == nil {
				t.Errorf("written where %d bytes of %d have room", n, len(c.want))
			}
		}
	}
	none := &Tables{}
	if got := string(write(t, none, nil)); got != "# forsd tables: 0 switches, 0 entries\n" {
		t.Errorf("no switch: %q", got)
	}
	if room := full(3); none.Write(&room, nil) == nil {
		t.Error("written where 3 bytes have room")
	}
	empty := &Tables{Switches: []Table{{GUID: 0x20, Name: "x"}, {GUID: 0x21, Name: "y", Ports: 1, Out: []uint8{NoPath, 1}}}}
	if got, want := string(write(t, empty, nil)), "# forsd tables: 2 switches, 1 entries\n"+
		"Unicast lids [0x1-0x1] of switch Lid 0 guid 0x0000000000000020 ('x'):\nUnicast lids [0x1-0x1] of switch Lid 0 guid 0x0000000000000021 ('y'):\n0x0001 001\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 1})
	for n := range f.Nodes { // the highest first
		for p := range f.Nodes[n].Ports {
			if port := &f.Nodes[n].Ports[p]; port.LID != 0 {
				port.LID = 1000 - port.LID - ib.LID(1<<port.LMC)
			}
		}
	}
	last := ib.LID(0)
	for _, o := range OwnersOf(f) {
		if o.LID <= last {
			t.Errorf("LID %d comes after %d", o.LID, last)
		}
		last = o.LID
	}
	if last == 0 {
		t.Error("no owner")
	}
}
