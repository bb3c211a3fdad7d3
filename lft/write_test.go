package lft

import (
	"bufio"
	"bytes"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func write(t fataler, tables *Tables, owners []Owner) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tables.Write(&b, owners); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestGolden checks the written form of a small fabric with one cable gone.
func TestGolden(t *testing.T) {
	ft := tree(t, fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 2, Hosts: []int{2}, LMC: 2}),
		func(f *topology.Fabric) { f.Disconnect(cables(f)[1]) })
	tables := build(t, ft)
	for name, owners := range map[string][]Owner{"lean": nil, "commented": OwnersOf(ft.Fabric)} {
		got, file := write(t, tables, owners), "testdata/"+name+".golden"
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s, rewrite with -update:\n%s", file, diff)
		}
	}
}

// opensmEntry is what OpenSM takes from a line.
type opensmEntry struct {
	sw   uint64
	lid  int
	port int
	guid uint64
}

// asOpenSM reads a file as strictly as OpenSM's file engine does: lines of at
// most 1022 bytes; for a switch the first " guid 0x" of the line, a number and a
// space; for an entry a number and a space, twice, a port that the switch has,
// and the first " portguid 0x", a number and a colon.
func asOpenSM(t fataler, data []byte, ports int) (entries []opensmEntry) {
	t.Helper()
	refuse := func(line, why string) { t.Fatal("OpenSM refuses " + strconv.Quote(line) + ": " + why) }
	number := func(line, s string, base int, ends string) uint64 {
		i := strings.IndexAny(s, ends)
		if i < 0 {
			refuse(line, "no number ends here: "+s)
		}
		v, err := strconv.ParseUint(s[:i], base, 64)
		if err != nil {
			refuse(line, err.Error())
		}
		return v
	}
	sw := uint64(0)
	for _, line := range strings.SplitAfter(string(data), "\n") {
		switch {
		case len(line) > 1000 || strings.Contains(line, "\x00"):
			refuse(line, "it is too long or ends early")
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "Unicast lids"):
			_, after, _ := strings.Cut(line, " guid 0x")
			sw = number(line, after, 16, " \n")
		case strings.HasPrefix(line, "0x"):
			e := opensmEntry{sw: sw, lid: int(number(line, line[2:], 16, " \n"))}
			_, after, _ := strings.Cut(line, " ")
			if e.port = int(number(line, after, 10, " \n")); e.port > ports {
				refuse(line, "the switch has no such port")
			}
			if _, after, ok := strings.Cut(line, " portguid 0x"); ok {
				e.guid = number(line, after, 16, ":")
			}
			entries = append(entries, e)
		default:
			refuse(line, "it means nothing")
		}
	}
	return entries
}

// TestOpenSMReadsIt: OpenSM takes exactly the entries of the tables from either
// form, with their owners from the commented one, whatever the names are.
func TestOpenSMReadsIt(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ft := drawTree(r)
		name := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"it's 'it'):", "a\nUnicast lids\x00", " guid 0x1 ", " portguid 0x7: #",
			strings.Repeat("long", 400)}))
		for i := range ft.Fabric.Nodes {
			ft.Fabric.Nodes[i].Name = name.Draw(r, "name")
		}
		tables := build(r, ft)
		guids := map[int]uint64{}
		for _, e := range ft.Fabric.EndPorts() {
			for lid := int(e.LID); lid < int(e.LID)+1<<e.LMC; lid++ {
				guids[lid] = uint64(e.GUID)
			}
		}
		var lean, commented []opensmEntry
		for _, s := range tables.Switches {
			for lid, port := range s.Out {
				if port != NoPath {
					lean = append(lean, opensmEntry{uint64(s.GUID), lid, int(port), 0})
					commented = append(commented, opensmEntry{uint64(s.GUID), lid, int(port), guids[lid]})
				}
			}
		}
		all := cmp.AllowUnexported(opensmEntry{})
		if diff := cmp.Diff(lean, asOpenSM(r, write(r, tables, nil), 254), all); diff != "" {
			r.Fatalf("lean:\n%s", diff)
		}
		text := write(r, tables, OwnersOf(ft.Fabric))
		if diff := cmp.Diff(commented, asOpenSM(r, text, 254), all); diff != "" {
			r.Fatalf("commented:\n%s", diff)
		}
		back, err := Read(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			r.Fatal(err)
		}
		if d := Changes(tables, back); d != (Delta{}) {
			r.Fatalf("read back, the tables differ: %+v", d)
		}
	})
}

// TestWriteRefuses: nothing is written that makes OpenSM refuse the whole file.
func TestWriteRefuses(t *testing.T) {
	row := func(n int, at map[int]uint8) []uint8 {
		out := bytes.Repeat([]byte{NoPath}, n)
		for lid, port := range at {
			out[lid] = port
		}
		return out
	}
	for want, s := range map[string]Table{
		"write tables: switch Leaf000 LID 0x0003: port 9 is not on a switch of 8 ports": {
			Name: "Leaf000", Ports: 8, Out: row(4, map[int]uint8{1: 8, 3: 9})},
		"write tables: switch 0x0000000000000007 has an entry for LID 0, which no port can have": {
			GUID: 7, Out: row(4, map[int]uint8{0: 1})},
		"write tables: the table of switch Leaf000 goes up to LID 0xc000: unicast LIDs end at 0xbfff": {
			Name: "Leaf000", Out: row(0xC001, nil)},
	} {
		var b bytes.Buffer
		err := (&Tables{Switches: []Table{s}}).Write(&b, nil)
		if err == nil || err.Error() != want || b.Len() > 0 {
			t.Errorf("error %v after %d bytes\nwant  %s", err, b.Len(), want)
		}
	}
}
