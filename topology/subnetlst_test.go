package topology_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestReadSubnetLst reads OpenSM's dump of the fabric whose discovery odd.golden shows;
// guid2lid adds the LMC.
func TestReadSubnetLst(t *testing.T) {
	f, err := topology.ReadSubnetLst(readFile(t, "odd.lst"))
	if err != nil {
		t.Fatal(err)
	}
	ranges, err := topology.ReadGUID2LID(readFile(t, "odd.guid2lid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.ApplyGUID2LID(ranges); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "odd.golden", f)
	if want := ib.GUID(0x2c90300a00020); f.SM != want {
		t.Errorf("subnet manager %s, want %s", f.SM, want)
	}
}

func TestReadSubnetLstRefuses(t *testing.T) {
	checkBad(t, "*.lst", func(data []byte) error { _, err := topology.ReadSubnetLst(data); return err }, []badInput{
		{"bad-guid.lst", false, "read opensm-subnet.lst line 1: expected \" PortGUID:\" at column 56, before `g00000100000 PortGUID:0000000000100001 VenID:000000 DevID:00`…"},
		{"bad-kind.lst", false, "read opensm-subnet.lst line 1: expected SW, CA or Rt at column 3, before `** Ports:01 SystemGUID:0000000000100000 NodeGUID:00000000001`…"},
		{"bad-state.lst", false, "read opensm-subnet.lst line 1: expected ACT, ARM, INI or DWN at column 330, before `UP SPD=50`"},
		{"bad-width.lst", false, "read opensm-subnet.lst line 1: expected a width such as 4x at column 323, before `x LOG=ACT SPD=50`"},
		{"binary.lst", false, `read opensm-subnet.lst line 1: expected "{ " at column 159, before "\x00ÿ Ports:04 SystemGUID:0000000000200000 NodeGUID:0000000000"…`},
		{"cut-at-line-end.lst", true, `read opensm-subnet.lst: cable Leaf000 port 2 – Hca0001 port 1 is printed from its first end only`},
		{"cut-before-newline.lst", true, `read opensm-subnet.lst: the last line has no end`},
		{"cut-in-line.lst", true, `read opensm-subnet.lst: the last line has no end`},
		{"empty.lst", true, `read opensm-subnet.lst: no line yet`},
		{"ends-disagree.lst", false, `read opensm-subnet.lst line 4: Hca0001 (0x0000000000100002) port 1 leads to Leaf000 (0x0000000000200000) port 1, which leads to Hca0000 (0x0000000000100000) port 1`},
		{"lids-differ.lst", false, `read opensm-subnet.lst line 2: Hca0000 (0x0000000000100000) port 1 has port GUID 0x0000000000100001 and LID 4, which were 0x0000000000100001 and 5 on an earlier line`},
		{"lids-overlap.lst", false, `read opensm-subnet.lst: Hca0001 port 1 has LID 4, which is in the range 4–4 of Hca0000 port 1`},
		{"names-differ.lst", false, `read opensm-subnet.lst line 2: node 0x0000000000100000 is here a channel adapter called "Hca0000" with 1 ports in system 0x0000000000100000, and on an earlier line a channel adapter called "Hca0009" with 1 ports in system 0x0000000000100000`},
		{"no-far-end.lst", false, "read opensm-subnet.lst line 1: expected \"{ \" at column 159, before `( SW Ports:04 SystemGUID:0000000000200000 NodeGUID:000000000`…"},
		{"no-lid.lst", false, "read opensm-subnet.lst line 1: expected \"{ \" at column 312, before `PHY=4x LOG=ACT SPD=50`"},
		{"no-speed.lst", false, "read opensm-subnet.lst line 1: expected a speed, and nothing after it, at the end of `{ CA Ports:01 SystemGUID:0000000000100000 NodeGUID:000000000`…"},
		{"port-guids-differ.lst", false, `read opensm-subnet.lst line 2: Hca0000 (0x0000000000100000) port 1 has port GUID 0x0000000000100001 and LID 4, which were 0x0000000000100009 and 4 on an earlier line`},
		{"port-out-of-range.lst", false, `read opensm-subnet.lst line 3: port 5 is not on Leaf000 (0x0000000000200000) (4 ports)`},
		{"port-zero.lst", false, `read opensm-subnet.lst line 3: port 0 is not on Leaf000 (0x0000000000200000) (4 ports)`},
		{"ports-differ.lst", false, `read opensm-subnet.lst line 2: node 0x0000000000200000 is here a switch called "Leaf000" with 4 ports in system 0x0000000000200000, and on an earlier line a switch called "Leaf000" with 5 ports in system 0x0000000000200000`},
		{"printed-twice.lst", false, `read opensm-subnet.lst line 5: Hca0000 (0x0000000000100000) port 1 is printed twice`},
		{"speed-and-more.lst", false, "read opensm-subnet.lst line 1: expected a speed, and nothing after it, at column 338, before `50 { SW`"},
		{"zero-guid.lst", false, `read opensm-subnet.lst line 1: "Hca0000" has no node GUID`},
	})
}

func TestSubnetLstRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFabric(t)
		f.SM = rapid.SampledFrom([]ib.GUID{0, f.Nodes[0].GUID, f.Nodes[len(f.Nodes)-1].GUID}).Draw(t, "manager")
		for i := range f.Nodes {
			for p := range f.Nodes[i].Ports {
				if port := &f.Nodes[i].Ports[p]; port.Connected() {
					port.State = topology.PortState(rapid.IntRange(int(topology.Down), int(topology.Active)).Draw(t, "state"))
				}
			}
		}
		got, err := topology.ReadSubnetLst(fabgen.SubnetLst(f))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(inSubnetLst(f), got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// inSubnetLst is what the file can tell of f: no LMC, no speed beyond HDR.
func inSubnetLst(f *topology.Fabric) *topology.Fabric {
	c := f.Clone()
	for i := range c.Nodes {
		for p := range c.Nodes[i].Ports {
			port := &c.Nodes[i].Ports[p]
			port.LMC = 0
			if port.Rate.Speed > ib.HDR {
				port.Rate.Speed = ib.UnknownSpeed
			}
		}
	}
	return c
}

// TestSubnetLstSpeeds reads each word that OpenSM prints for a width or speed.
func TestSubnetLstSpeeds(t *testing.T) {
	data := string(readFile(t, "small.lst"))
	for words, want := range map[string]ib.Rate{
		"PHY=1x LOG=ACT SPD=2.5":   {Width: 1, Speed: ib.SDR},
		"PHY=2x LOG=ACT SPD=5":     {Width: 2, Speed: ib.DDR},
		"PHY=4x LOG=ACT SPD=10":    {Width: 4, Speed: ib.QDR},
		"PHY=8x LOG=ACT SPD=FDR10": {Width: 8, Speed: ib.FDR10},
		"PHY=12x LOG=ACT SPD=14":   {Width: 12, Speed: ib.FDR},
		"PHY=4x LOG=ACT SPD=25":    {Width: 4, Speed: ib.EDR},
		"PHY=4x LOG=ACT SPD=50":    {Width: 4, Speed: ib.HDR},
		"PHY=?? LOG=ACT SPD=??":    {},
	} {
		f, err := topology.ReadSubnetLst([]byte(strings.ReplaceAll(data, "PHY=4x LOG=ACT SPD=50", words)))
		if err != nil {
			t.Errorf("%s: %v", words, err)
			continue
		}
		if got := f.Nodes[0].Ports[1].Rate; got != want {
			t.Errorf("%s: got %v, want %v", words, got, want)
		}
	}
}

// TestSubnetLstTwoManagers: a mark on two nodes, as after a handover, is ignored, and so is one
// on a port without a LID.
func TestSubnetLstTwoManagers(t *testing.T) {
	data := string(readFile(t, "small.lst"))
	for what, text := range map[string]string{
		"two nodes": strings.ReplaceAll(data, "{ CA ", "{ CA-SM "),
		"no LID":    strings.ReplaceAll(strings.ReplaceAll(data, "{ SW ", "{ SW-SM "), "LID:0001", "LID:0000"),
	} {
		f, err := topology.ReadSubnetLst([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if f.SM != 0 {
			t.Errorf("%s marked: manager %s, want none", what, f.SM)
		}
	}
}

// TestSubnetLstCut cuts files everywhere. A cut inside a line is always found.
// One at a line's end is found exactly when some cable has one end only among
// the lines that are left, which this test counts by the texts of the ends.
func TestSubnetLstCut(t *testing.T) {
	tree := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 3, Hosts: []int{2, 1, 3}, LMC: 2})
	for name, data := range map[string][]byte{
		"odd names": readFile(t, "odd.lst"),
		"tree":      fabgen.SubnetLst(tree),
		"parallel":  fabgen.SubnetLst(fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, Cables: 2})),
	} {
		escaped := 0
		for n := range data {
			_, err := topology.ReadSubnetLst(data[:n])
			if err != nil && !errors.Is(err, topology.ErrIncomplete) {
				t.Errorf("%s, %d of %d bytes: %v", name, n, len(data), err)
			}
			if whole := n > 0 && data[n-1] == '\n' && bothEndsTold(data[:n]); whole != (err == nil) {
				t.Errorf("%s, %d of %d bytes: error %v, but every cable told at both ends is %v", name, n, len(data), err, whole)
			}
			if err == nil {
				escaped++
			}
		}
		if _, err := topology.ReadSubnetLst(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if lines := bytes.Count(data, []byte("\n")); escaped > lines/4 {
			t.Errorf("%s: %d of %d line ends escape", name, escaped, lines)
		}
	}
}

// TestSubnetLstEscapes checks the documented limit of undetected cuts: they only ever
// separate one leaf and its hosts from the rest.
func TestSubnetLstEscapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := fabgen.Generate(fabgen.Spec{Spines: rapid.IntRange(2, 3).Draw(t, "spines"), Leaves: rapid.IntRange(2, 4).Draw(t, "leaves"),
			Hosts: rapid.SliceOfN(rapid.IntRange(1, 3), 1, 4).Draw(t, "hosts")})
		for i := range whole.Nodes {
			permutePorts(whole, int32(i), rapid.Permutation(numbers(len(whole.Nodes[i].Ports))[1:]).Draw(t, "ports"))
		}
		data := fabgen.SubnetLst(whole)
		for n := bytes.IndexByte(data, '\n') + 1; n < len(data); n += bytes.IndexByte(data[n:], '\n') + 1 {
			cut, err := topology.ReadSubnetLst(data[:n])
			if err != nil {
				continue
			}
			leaves := map[ib.GUID]bool{}
			for i := range whole.Nodes {
				if host := &whole.Nodes[i]; host.Kind == topology.Adapter && cut.Find(host.GUID) == topology.None {
					leaves[whole.Nodes[host.Ports[1].Peer].GUID] = true
				}
			}
			if s := switches(cut); s != 1 && (s != switches(whole) || len(leaves) != 1) {
				t.Fatalf("%d of %d bytes pass with %d of %d switches, and hosts of %d leaves lacking", n, len(data), s, switches(whole), len(leaves))
			}
		}
	})
}

func switches(f *topology.Fabric) int {
	n := 0
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			n++
		}
	}
	return n
}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// permutePorts plugs what is in a switch's port p+1 into port to[p].
func permutePorts(f *topology.Fabric, node int32, to []int) {
	n := &f.Nodes[node]
	if n.Kind != topology.Switch {
		return
	}
	old := append([]topology.Port(nil), n.Ports...)
	for p, q := range to {
		n.Ports[q] = old[p+1]
		if port := &n.Ports[q]; port.Connected() {
			f.Nodes[port.Peer].Ports[port.PeerPort].PeerPort = uint8(q)
		}
	}
}

// lstEndText finds an end of a cable in a line: port GUID and port number.
var lstEndText = regexp.MustCompile(`PortGUID:(\w{16}) .*?} LID:\w{4} PN:(\w\w) }`)

// bothEndsTold reports whether every line has its counterpart.
func bothEndsTold(lines []byte) bool {
	told := map[[2]string]bool{}
	text := strings.ReplaceAll(string(lines), "{} LID:0001 PN:01 } { SW}", "{odd}")
	for line := range strings.Lines(text) {
		ends := lstEndText.FindAllStringSubmatch(line, 2)
		told[[2]string{ends[0][1] + ends[0][2], ends[1][1] + ends[1][2]}] = true
	}
	for k := range told {
		if !told[[2]string{k[1], k[0]}] {
			return false
		}
	}
	return true
}

func FuzzReadSubnetLst(f *testing.F) {
	for _, name := range []string{"odd.lst", "small.lst"} {
		f.Add(readFile(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if fabric, err := topology.ReadSubnetLst(data); err == nil {
			checkFabric(t, fabric)
		}
	})
}

func BenchmarkReadSubnetLst(b *testing.B) {
	data := fabgen.SubnetLst(fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := topology.ReadSubnetLst(data); err != nil {
			b.Fatal(err)
		}
	}
}
