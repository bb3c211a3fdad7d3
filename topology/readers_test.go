package topology_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

var update = flag.Bool("update-readers", false, "rewrite the golden files of the readers")

// badInput is one reason to refuse a file.
type badInput struct {
	file       string // in testdata/bad
	incomplete bool   // whether the error must wrap ErrIncomplete
	want       string // how the message begins
}

// checkBad checks a reader with one bad file per reason, and the list of reasons with
// testdata/bad.
func checkBad(t *testing.T, pattern string, read func([]byte) error, cases []badInput) {
	t.Helper()
	tested := map[string]bool{}
	for _, c := range cases {
		name := filepath.Join("bad", c.file)
		tested[filepath.Join("testdata", name)] = true
		t.Run(c.file, func(t *testing.T) {
			err := read(readFile(t, name))
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got error\n%v\nwant\n%v", err, c.want)
			}
			if got := errors.Is(err, topology.ErrIncomplete); got != c.incomplete {
				t.Errorf("error %q: incomplete is %v, want %v", err, got, c.incomplete)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "bad", pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !tested[f] {
			t.Errorf("%s is not tested", f)
		}
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// describe prints everything that a fabric holds in a form fit for review.
func describe(f *topology.Fabric) string {
	var out strings.Builder
	for i := range f.Nodes {
		n := &f.Nodes[i]
		fmt.Fprintf(&out, "%s %s system %s %q, %d ports\n", n.Kind, n.GUID, n.System, n.Name, len(n.Ports)-1)
		for p, port := range n.Ports {
			if port == (topology.Port{Peer: topology.None}) {
				continue
			}
			fmt.Fprintf(&out, " %d: guid %s lid %d lmc %d state %d", p, port.GUID, port.LID, port.LMC, port.State)
			if port.Peer != topology.None {
				fmt.Fprintf(&out, " %s to %s port %d", port.Rate, f.Nodes[port.Peer].GUID, port.PeerPort)
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

// checkGolden compares a fabric with a golden file.
func checkGolden(t *testing.T, name string, f *topology.Fabric) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(describe(f)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(readFile(t, name)), describe(f)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// checkFabric fails unless a reader's fabric holds together.
func checkFabric(t *testing.T, f *topology.Fabric) {
	t.Helper()
	if err := f.Validate(); err != nil {
		t.Errorf("the reader let an inconsistent fabric through: %v", err)
	}
}

// anyFabric draws a fat tree with unequal leaves, parallel cables, arbitrary
// names, rates and port states.
func anyFabric(t *rapid.T) *topology.Fabric {
	f := fabgen.Generate(fabgen.Spec{
		Spines: rapid.IntRange(1, 4).Draw(t, "spines"), Leaves: rapid.IntRange(1, 4).Draw(t, "leaves"),
		Hosts:   rapid.SliceOfN(rapid.IntRange(1, 3), 1, 4).Draw(t, "hosts"),
		Cables:  rapid.IntRange(1, 2).Draw(t, "cables"),
		LMC:     uint8(rapid.IntRange(0, 3).Draw(t, "lmc")),
		Shuffle: rapid.Uint64().Draw(t, "shuffle"),
	})
	name := rapid.OneOf(rapid.StringMatching(`[ -~]{0,64}`), rapid.StringMatching(`[^\n\r]{0,16}`),
		rapid.SampledFrom([]string{`"`, `" lid 7 4xHDR`, `# "x"`, `} LID:0001 PN:01 } `, `} LID:0001 PN:01 } { SW Ports:04`, "a/b;c", ` `}))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		n.Name = name.Draw(t, "name")
		n.Vendor = rapid.SampledFrom([]uint32{0, 0x2c9, 0xFFFFFF}).Draw(t, "vendor")
		n.Device = rapid.SampledFrom([]uint32{0, 0xcf09, 0xd2f0}).Draw(t, "device")
		if n.Kind != topology.Switch && rapid.Bool().Draw(t, "router") {
			n.Kind = topology.Router
		}
		for p := range n.Ports {
			if n.Ports[p].Connected() {
				n.Ports[p].Rate = ib.Rate{Width: rapid.SampledFrom([]uint8{0, 1, 2, 4, 8, 12}).Draw(t, "width"),
					Speed: ib.Speed(rapid.IntRange(0, int(ib.XDR)).Draw(t, "speed"))}
			}
		}
	}
	f.SetRoles(topology.Roles{})
	return f
}
