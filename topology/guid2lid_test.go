package topology_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestReadGUID2LID reads the forms that OpenSM's own reader takes.
func TestReadGUID2LID(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[ib.GUID]topology.LIDRange
	}{
		"as written":       {"0x0000000000100001 0x0004 0x0007\n\n0x0000000000100003 0x0008 0x000b\n\n", map[ib.GUID]topology.LIDRange{0x100001: {Min: 4, Max: 7}, 0x100003: {Min: 8, Max: 11}}},
		"empty":            {"", map[ib.GUID]topology.LIDRange{}},
		"blank lines":      {"\n \n\n", map[ib.GUID]topology.LIDRange{}},
		"no last newline":  {"0x1 0x4 0x7", map[ib.GUID]topology.LIDRange{1: {Min: 4, Max: 7}}},
		"other bases":      {"17 010\t9\n", map[ib.GUID]topology.LIDRange{17: {Min: 8, Max: 9}}},
		"more words":       {"0x1 0x4 0x7 0x9\n", map[ib.GUID]topology.LIDRange{1: {Min: 4, Max: 7}}},
		"first one stands": {"0x1 0x4 0x7\n\n0x1 0x8 0xb\n\n", map[ib.GUID]topology.LIDRange{1: {Min: 4, Max: 7}}},
	} {
		got, err := topology.ReadGUID2LID([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadGUID2LIDRefuses(t *testing.T) {
	checkBad(t, "*.guid2lid", func(data []byte) error { _, err := topology.ReadGUID2LID(data); return err }, []badInput{
		{"bad-guid.guid2lid", false, "read guid2lid line 3: `0x00g` is not a GUID"},
		{"bad-lid.guid2lid", false, "read guid2lid line 3: `b` is not a unicast LID (1 to 0xbfff), for port 0x0000000000100003"},
		{"cut-in-line.guid2lid", false, "read guid2lid line 3: `0x0000000000100003 0x0008` has 2 words: a GUID, the first and the last LID were expected"},
		{"leading-space.guid2lid", false, "read guid2lid line 3: ` 0x0000000000100003 0x0008 0x000b` begins with a space: a GUID was expected"},
		{"multicast-lid.guid2lid", false, "read guid2lid line 3: `0xc000` is not a unicast LID (1 to 0xbfff), for port 0x0000000000100003"},
		{"wrong-order.guid2lid", false, `read guid2lid line 3: the LIDs 0xc to 0xb of port 0x0000000000100003 are in the wrong order`},
		{"zero-guid.guid2lid", false, "read guid2lid line 3: `0x0` is not a GUID"},
		{"zero-lid.guid2lid", false, "read guid2lid line 3: `0x0` is not a unicast LID (1 to 0xbfff), for port 0x0000000000100003"},
	})
}

// TestApplyGUID2LID gives a fabric its LMC back from the cache, which also
// knows ports that are gone.
func TestApplyGUID2LID(t *testing.T) {
	want := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 3})
	ranges, err := topology.ReadGUID2LID(fabgen.GUID2LID(want))
	if err != nil {
		t.Fatal(err)
	}
	ranges[0xdead] = topology.LIDRange{Min: 0x400, Max: 0x407}
	got := want.Clone()
	if err := got.SetLMC(0); err != nil {
		t.Fatal(err)
	}
	if err := got.ApplyGUID2LID(ranges); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestApplyGUID2LIDStale(t *testing.T) {
	const port = fabgen.HostGUID + 1 // of Hca0000, with LIDs 8 to 15
	for name, c := range map[string]struct {
		change func(map[ib.GUID]topology.LIDRange)
		want   string
	}{
		"port lacking": {func(m map[ib.GUID]topology.LIDRange) { delete(m, port) },
			"apply guid2lid: the cache is stale: it lacks port 0x0000000000100001 (Hca0000 port 1), which has LID 8"},
		"other LID": {func(m map[ib.GUID]topology.LIDRange) { m[port] = topology.LIDRange{Min: 16, Max: 23} },
			"apply guid2lid: the cache is stale: port 0x0000000000100001 (Hca0000 port 1) has LID 8, and the cache has 16 to 23"},
		"other LID of a switch": {func(m map[ib.GUID]topology.LIDRange) { m[fabgen.LeafGUID] = topology.LIDRange{Min: 9, Max: 9} },
			"apply guid2lid: the cache is stale: port 0x0000000000200000 (Leaf000) has LID 1, and the cache has 9 to 9"},
		"no power of two": {func(m map[ib.GUID]topology.LIDRange) { m[port] = topology.LIDRange{Min: 8, Max: 10} },
			"apply guid2lid: port 0x0000000000100001 (Hca0000 port 1) has 3 LIDs, 8 to 10: a power of two up to 128 was expected"},
		"too many": {func(m map[ib.GUID]topology.LIDRange) { m[port] = topology.LIDRange{Min: 8, Max: 263} },
			"apply guid2lid: port 0x0000000000100001 (Hca0000 port 1) has 256 LIDs, 8 to 263: a power of two up to 128 was expected"},
		"not aligned": {func(m map[ib.GUID]topology.LIDRange) { m[port] = topology.LIDRange{Min: 8, Max: 23} },
			"apply guid2lid: port 0x0000000000100001 (Hca0000 port 1) has 16 LIDs from 8 on, which is not a multiple of 16"},
		"overlap": {func(m map[ib.GUID]topology.LIDRange) { m[port+2] = topology.LIDRange{Min: 16, Max: 31} },
			"apply guid2lid: the cache is stale: Hca0002 port 1 has LID 24, which is in the range 16–31 of Hca0001 port 1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fabgen.Generate(fabgen.Spec{Spines: 2, Leaves: 2, LMC: 3})
			before := f.Clone()
			ranges, err := topology.ReadGUID2LID(fabgen.GUID2LID(f))
			if err != nil {
				t.Fatal(err)
			}
			c.change(ranges)
			if err := f.ApplyGUID2LID(ranges); err == nil || err.Error() != c.want {
				t.Errorf("got error\n%v\nwant\n%s", err, c.want)
			}
			if diff := cmp.Diff(before, f); diff != "" {
				t.Errorf("the fabric changed:\n%s", diff)
			}
		})
	}
}

func FuzzReadGUID2LID(f *testing.F) {
	f.Add(readFile(f, "odd.guid2lid"))
	f.Add([]byte("17 010\t9 x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ranges, err := topology.ReadGUID2LID(data)
		if err != nil {
			return
		}
		if lines := strings.Count(string(data), "\n") + 1; len(ranges) > lines {
			t.Errorf("%d ranges out of %d lines", len(ranges), lines)
		}
		for g, r := range ranges {
			if g == 0 || r.Min == 0 || r.Min > r.Max || r.Max > ib.MaxUnicastLID {
				t.Errorf("port %s has LIDs %d to %d", g, r.Min, r.Max)
			}
		}
	})
}
