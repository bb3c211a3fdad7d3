package topology_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"

	"github.com/google/go-cmp/cmp"
)

// TestRead recognises both kinds of files by their contents.
func TestRead(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2})
	for _, c := range []struct {
		data []byte
		want topology.Source
		name string
	}{
		{fabgen.SubnetLst(f), topology.SourceSubnetLst, "opensm-subnet.lst"},
		{fabgen.Ibnetdiscover(f), topology.SourceIbnetdiscover, "ibnetdiscover"},
		{append([]byte("# copied by hand\n\n"), fabgen.Ibnetdiscover(f)...), topology.SourceIbnetdiscover, "ibnetdiscover"},
		{readFile(t, "bare.ibnetdiscover"), topology.SourceIbnetdiscover, "ibnetdiscover"},
	} {
		got, source, err := topology.Read(c.data)
		if err != nil || source != c.want || source.String() != c.name {
			t.Errorf("%.20q: source %v, error %v; want %s", c.data, source, err, c.name)
			continue
		}
		if len(got.Nodes) != len(f.Nodes) && len(got.Nodes) != 3 {
			t.Errorf("%.20q: %d nodes", c.data, len(got.Nodes))
		}
	}
}

// TestReadersAgree reads one fabric from both kinds of files, with lines ended
// as on other systems as well.
func TestReadersAgree(t *testing.T) {
	want := fabgen.Generate(fabgen.Spec{Spines: 3, Leaves: 2, Cables: 2})
	for _, data := range [][]byte{fabgen.SubnetLst(want), fabgen.Ibnetdiscover(want)} {
		for _, end := range []string{"\n", "\r\n"} {
			got, _, err := topology.Read(bytes.ReplaceAll(data, []byte("\n"), []byte(end)))
			if err != nil {
				t.Error(err)
				continue
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
}

// TestPrintedAlike prints what was read from the real tools' files again, as the
// tests' generator does, and finds the files' own lines.
func TestPrintedAlike(t *testing.T) {
	lines := func(data []byte) []string {
		text := madeBy.ReplaceAllString(string(data), "")
		list := strings.Split(text, "\n")
		slices.Sort(list) // ibnetdiscover prints in order of discovery
		return list
	}
	for name, print := range map[string]func(*topology.Fabric) []byte{"odd.lst": fabgen.SubnetLst, "odd.ibnetdiscover": fabgen.Ibnetdiscover} {
		data := readFile(t, name)
		f, _, err := topology.Read(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(lines(data), lines(print(f))); diff != "" {
			t.Errorf("%s (-printed by the tool +printed by us):\n%s", name, diff)
		}
	}
}

// madeBy matches what a fabric does not hold: vendors, devices and comments.
var madeBy = regexp.MustCompile(`(?m)VenID:\w+ DevID:\w+ |vendid=\w+\n|devid=\w+\n|^#.*\n`)

func TestReadRefuses(t *testing.T) {
	checkBad(t, "*.txt", func(data []byte) error { _, _, err := topology.Read(data); return err }, []badInput{
		{"comment.txt", false, `read topology: no line but comments: expected the output of ibnetdiscover or an opensm-subnet.lst, ibdiagnet2.lst, ibdiagnet2.db_csv or .topo file`},
		{"neither.txt", false, "read topology line 3: expected the output of ibnetdiscover or an opensm-subnet.lst, ibdiagnet2.lst, ibdiagnet2.db_csv or .topo file, not `Unicast lids [0x1-0x2fff] of switch Lid 64 guid 0x0000000000`…"},
		{"nothing.txt", true, `read topology: the file is empty`},
	})
}
