package topology_test

import (
	"errors"
	"testing"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestReadIbnetdiscover reads the tool's output for a fabric with odd names, a router and an
// adapter with two ports, plain and grouped with full details; every form that the simulated
// fabric cannot show; and a file without comments.
func TestReadIbnetdiscover(t *testing.T) {
	for file, golden := range map[string]string{
		"odd.ibnetdiscover":              "odd.golden",
		"odd-grouped-full.ibnetdiscover": "odd.golden",
		"forms.ibnetdiscover":            "forms.golden",
		"bare.ibnetdiscover":             "bare.golden",
	} {
		t.Run(file, func(t *testing.T) {
			f, err := topology.ReadIbnetdiscover(readFile(t, file))
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, golden, f)
		})
	}
}

func TestReadIbnetdiscoverRefuses(t *testing.T) {
	checkBad(t, "*.ibnetdiscover", func(data []byte) error { _, err := topology.ReadIbnetdiscover(data); return err }, []badInput{
		{"bad-guid.ibnetdiscover", false, "read ibnetdiscover line 3: expected a GUID at column 14, before `zz`"},
		{"bad-kind.ibnetdiscover", false, "read ibnetdiscover line 7: expected S-, H- or R- at column 6, before `X-0000000000100002\"[1](100003) \t\t# \"Hca0001\" lid 8 4xHDR`"},
		{"bad-lid.ibnetdiscover", false, "read ibnetdiscover line 7: expected a LID at `70000 4xHDR` in the comment of `[2]\t\"H-0000000000100002\"[1](100003) \t\t# \"Hca0001\" lid 70000 `…"},
		{"bad-lmc.ibnetdiscover", false, "read ibnetdiscover line 21: expected an LMC from 0 to 7 at `8 ` in the comment of `[1](100003) \t\"S-0000000000200000\"[2]\t\t# lid 8 lmc 8 \"Leaf000`…"},
		{"comments-only.ibnetdiscover", true, `read ibnetdiscover: no cable is described`},
		{"cut-before-node.ibnetdiscover", true, `read ibnetdiscover line 7: Leaf000 (0x0000000000200000) port 2 leads to channel adapter 0x0000000000100002, which has no block of its own`},
		{"cut-in-line.ibnetdiscover", true, `read ibnetdiscover: the last line has no end`},
		{"cut-in-node.ibnetdiscover", true, `read ibnetdiscover line 7: cable Leaf000 port 2 – Hca0001 port 1 is printed at its first end only`},
		{"duplicate-node.ibnetdiscover", false, `read ibnetdiscover line 28: channel adapter 0x0000000000100002 is described a second time, first on line 20`},
		{"empty.ibnetdiscover", true, `read ibnetdiscover: no cable is described`},
		{"ends-disagree.ibnetdiscover", false, `read ibnetdiscover line 7: Leaf000 (0x0000000000200000) port 2 leads to Hca0001 (0x0000000000100002) port 1, which leads to Leaf000 (0x0000000000200000) port 1`},
		{"lids-disagree.ibnetdiscover", false, `read ibnetdiscover line 7: Hca0001 (0x0000000000100002) port 1 has LID 9 here and 8 in its own block`},
		{"lids-overlap.ibnetdiscover", false, `read ibnetdiscover: Hca0001 port 1 has LID 6, which is in the range 4–7 of Hca0000 port 1`},
		{"long-guid.ibnetdiscover", false, "read ibnetdiscover line 7: expected a GUID at column 8, before `00000000000100002\"[1](100003) \t\t# \"Hca0001\" lid 8 4xHDR`"},
		{"no-quotes.ibnetdiscover", false, "read ibnetdiscover line 7: expected a description in quotes at column 40, before ` Hca0001 lid 8 4xHDR`"},
		{"peer-port-out-of-range.ibnetdiscover", false, `read ibnetdiscover line 21: port 9 is not on Leaf000 (0x0000000000200000) (4 ports)`},
		{"port-256.ibnetdiscover", false, "read ibnetdiscover line 7: expected a port number at column 2, before `256]\t\"H-0000000000100002\"[1](100003) \t\t# \"Hca0001\" lid 8 4xH`…"},
		{"port-before-node.ibnetdiscover", false, "read ibnetdiscover line 5: `[1]\t\"H-0000000000100000\"[1](100001) \t\t# \"Hca0000\" lid 4 4xHD`… belongs to no node: no Switch, Ca or Rt line comes before it"},
		{"port-guids-disagree.ibnetdiscover", false, `read ibnetdiscover line 7: Hca0001 (0x0000000000100002) port 1 has port GUID 0x0000000000100005 here and 0x0000000000100003 in its own block`},
		{"port-listed-twice.ibnetdiscover", false, `read ibnetdiscover line 7: Leaf000 (0x0000000000200000) port 1 is listed twice`},
		{"port-out-of-range.ibnetdiscover", false, `read ibnetdiscover line 7: port 5 is not on Leaf000 (0x0000000000200000) (4 ports)`},
		{"trailing-text.ibnetdiscover", false, "read ibnetdiscover line 5: expected \"#\" at column 32, before `and \"Leaf000\" base port 0 lid 1 lmc 0`"},
		{"unknown-line.ibnetdiscover", false, "read ibnetdiscover line 2: `devices=0` is not a line of ibnetdiscover, and there are more of these behind it: take it out"},
		{"wrong-block.ibnetdiscover", false, "read ibnetdiscover line 20: `Ca\t1 \"H-0000000000100002\"\t\t# \"Hca0001\"` is not the node that its block began with"},
		{"wrong-kind.ibnetdiscover", false, `read ibnetdiscover line 7: Hca0001 (0x0000000000100002) is a channel adapter, not a router`},
	})
}

func TestIbnetdiscoverRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyFabric(t)
		got, err := topology.ReadIbnetdiscover(fabgen.Ibnetdiscover(want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// TestIbnetdiscoverCut cuts the tool's output everywhere: nothing but the whole
// is accepted, and every cut is known for one.
func TestIbnetdiscoverCut(t *testing.T) {
	data := readFile(t, "odd.ibnetdiscover")
	for n := range data {
		if f, err := topology.ReadIbnetdiscover(data[:n]); err == nil {
			t.Errorf("%d of %d bytes give a fabric of %d nodes", n, len(data), len(f.Nodes))
		} else if !errors.Is(err, topology.ErrIncomplete) {
			t.Errorf("%d of %d bytes: %v", n, len(data), err)
		}
	}
}

func FuzzReadIbnetdiscover(f *testing.F) {
	for _, name := range []string{"odd.ibnetdiscover", "odd-grouped-full.ibnetdiscover", "forms.ibnetdiscover", "bare.ibnetdiscover"} {
		f.Add(readFile(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if fabric, err := topology.ReadIbnetdiscover(data); err == nil {
			checkFabric(t, fabric)
		}
	})
}

func BenchmarkReadIbnetdiscover(b *testing.B) {
	data := fabgen.Ibnetdiscover(fabgen.Generate(fabgen.Spec{Spines: 20, Leaves: 18, LMC: 5}))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := topology.ReadIbnetdiscover(data); err != nil {
			b.Fatal(err)
		}
	}
}
