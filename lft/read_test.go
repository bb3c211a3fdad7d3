package lft

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

func readSample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// samples are dumps of one fabric, taken from a running OpenSM 3.3.23 and with
// infiniband-diags 44: FT(2;3,2) with two hosts on a leaf and LMC 2.
var samples = []string{"opensm-lfts.dump", "dump_fts.txt", "dump_fts-n.txt"}

// TestSamples: what OpenSM and dump_fts print of the same switches is the same.
func TestSamples(t *testing.T) {
	var first *Tables
	for _, name := range samples {
		got, err := ReadBytes(readSample(t, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if first == nil {
			first = got
		}
		if d := Changes(first, got); d != (Delta{}) || len(got.Switches) != 5 {
			t.Errorf("%s: %d switches, difference to %s: %+v", name, len(got.Switches), samples[0], d)
		}
	}
	leaf := &first.Switches[first.Find(0x200000)]
	if leaf.Name != "Leaf000" || leaf.LID != 8 || leaf.Out[0x0c] != 1 || leaf.Out[0x1a] != 3 || leaf.Out[8] != 0 || leaf.Out[9] != NoPath {
		t.Errorf("Leaf000 was read as %+v", leaf)
	}
}

// TestReadNames: names hold anything, in each of the headers.
func TestReadNames(t *testing.T) {
	for text, want := range map[string]string{
		"Unicast lids [0x1-0x9] of switch Lid 3 guid 0x0000000000200000 ('Leaf000'):\n":                        "Leaf000",
		"Unicast lids [0x1-0x9] of switch Lid 3 guid 0x200000 ('a guid 0x7 ('b'):'):\n":                        "a guid 0x7 ('b'):",
		"Unicast lids [0x0-0x9] of switch Lid 3 guid 0x0000000000200000 (MF0;sw/1:X/U1):\n0 lids dumped \n":    "MF0;sw/1:X/U1",
		"Unicast lids [0x0-0x9] of switch DR path slid 0; dlid 0; 0,1 guid 0x200000 ():\n0 lids dumped \n":     "",
		"Unicast lids [0x1-0x9] of switch Lid 3 guid 0x0000000000200000 (''):\n":                               "",
		"Unicast lids [0x1-0x9] of switch Lid 3 guid 0x0000000000200000 and no name\n":                         "",
		"# a comment\n\n  Unicast lids [0x1-0x9] of switch Lid 3 guid 0x0000000000200000 (' spaces  '):  \r\n": " spaces  ",
	} {
		got, err := ReadBytes([]byte(text))
		if err != nil {
			t.Errorf("%s%v", text, err)
			continue
		}
		if s := got.Switches[0]; s.GUID != 0x200000 || s.Name != want {
			t.Errorf("%sgives switch %s, name %q; want %q", text, s.GUID, s.Name, want)
		}
	}
}

const (
	head  = "Unicast lids [0x1-0x9] of switch Lid 3 guid 0x0000000000200000 ('Leaf000'):\n"
	entry = "0x0005 007\n"
)

// TestReadErrors: every fault is refused with its line and what to do about it.
func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		head + entry + "0x0006 255\n":                     "line 3: port 255 is not a port: leave the line out to say unreachable",
		head + entry + "0x0006 300 # x\n":                 "line 3: port 300 is not a port: leave the line out to say unreachable",
		head + entry + "0x0005 008\n":                     "line 3: LID 0x0005 appears again under switch Leaf000",
		head + entry + "0xc000 001\n":                     "line 3: 0xc000 is not a unicast LID: they end at 0xbfff",
		head + entry + "0x00g0 001\n":                     "line 3: 0x00g0 is not a unicast LID: they end at 0xbfff",
		head + entry + "0x0006\n":                         `line 3: "" is not a port`,
		head + entry + "0x0006 0x1\n":                     `line 3: "0x1" is not a port`,
		head + entry + "0x0006 70000\n":                   `line 3: "70000" is not a port`,
		head + entry + "0x0006 001":                       "line 3: the text ends within a line: it was cut off",
		head + entry + "gibberish\n":                      `line 3: "gibberish" is not a part of a table dump: want what dump_fts -n prints, or a table file of forsd`,
		head + entry + head:                               "line 3: switch 0x0000000000200000 appears again: its table begins on line 1",
		head + entry + "2 valid lids dumped\n":            `line 3: 1 entries since line 1, and "2 valid lids dumped" announces 2: the text is not whole`,
		entry:                                             "line 1: an entry without a switch above it",
		"1 valid lids dumped\n":                           "line 1: the end of a table without its beginning",
		"Unicast lids [0x1-0x9] of switch\n":              "line 1: a switch without its guid",
		"Unicast lids of switch Lid 3 guid 0xyz ('a'):\n": `line 1: "yz ('a'):" is not the guid of a switch`,
		"Unicast lids of switch Lid 70000 guid 0x1 ():\n": `line 1: "70000" is not the LID of a switch`,
		"Multicast mlids [0xc000-0xc3ff] of switch\n":     "line 1: this is a dump of multicast tables: unicast tables are wanted",
		"# forsd tables: 1 switches, 2 entries\n" + head + entry: "line 3: the text ends after 1 switches and 1 entries, " +
			"and its first line counts 1 and 2: it was cut off",
		head + "# forsd tables: 1 switches, 2 entries\n": "line 2: a second file begins here: tables are read from one",
		head + strings.Repeat("x", 1001) + "\n":          "line 2: the line has 1001 bytes: OpenSM reads 1000",
		head + "  Lid  Out   Destination\n" + entry:      `line 3: the table of switch Leaf000 (line 1) has no line "… lids dumped": the text was cut off`,
	} {
		_, err := ReadBytes([]byte(text))
		if err == nil || err.Error() != "read tables: "+want {
			t.Errorf("%s\ngives %v\nwant  read tables: %s", text, err, want)
		}
	}
}

// TestTruncated checks that a text that ends early is refused if its form shows it.
// Otherwise whole switches are missing, and the other switches have all their entries.
func TestTruncated(t *testing.T) {
	for _, name := range append([]string{"lean.golden", "commented.golden"}, samples...) {
		data := readSample(t, name)
		whole, err := ReadBytes(data)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(data); n += 7 { // lines are of many lengths
			got, err := ReadBytes(data[:n])
			if err != nil {
				continue
			}
			if n > 0 && strings.HasSuffix(name, "golden") {
				t.Errorf("%s cut off after byte %d was accepted", name, n)
			}
			for i := range got.Switches {
				w := &whole.Switches[whole.Find(got.Switches[i].GUID)]
				for lid := range w.Out {
					if p := got.Port(i, ib.LID(lid)); p != w.Out[lid] {
						t.Fatalf("%s cut off after byte %d: LID %d of %s was read as port %d", name, n, lid, w.Name, p)
					}
				}
			}
		}
	}
}

func sameTable(a, b Table) bool {
	return a.GUID == b.GUID && a.LID == b.LID && a.Name == b.Name && a.Ports == b.Ports && bytes.Equal(a.Out, b.Out)
}

// FuzzRead: what is read, written and read again is the same, in both forms.
func FuzzRead(f *testing.F) {
	for _, name := range append([]string{"lean.golden", "commented.golden"}, samples...) {
		f.Add(readSample(f, name))
	}
	f.Add([]byte(head + entry + "0x0000 001\n0x6 8 : (x)\n2 lids dumped\n"))
	f.Add([]byte(strings.Replace(head, "Leaf000", "a'):\x01é", 1) + entry))
	f.Add([]byte("Unicast lids [0-9] of switch Lid 3 guid 0x1 ((''''):\r\n0xBFFF 254 \r\n49151 lids dumped\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := ReadBytes(data)
		if err != nil {
			return
		}
		for _, owners := range [][]Owner{nil, {{LID: 4, LMC: 2, GUID: 1, Kind: topology.Adapter, Name: "a\nb"}}} {
			var text bytes.Buffer
			if err := first.Write(&text, owners); err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			second, err := ReadBytes(text.Bytes())
			if err != nil {
				t.Fatalf("what was written cannot be read: %v\n%s", err, text.Bytes())
			}
			if !slices.EqualFunc(first.Switches, second.Switches, sameTable) {
				t.Fatalf("read, written and read again:\n%s", cmp.Diff(first, second))
			}
		}
	})
}
