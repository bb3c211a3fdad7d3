package phasetable

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/forsd/forsd/ib"
)

// TestFindServer looks servers up by all that names them.
func TestFindServer(t *testing.T) {
	table := shiftTable(2, 2, 1)
	for i, name := range []string{"node1.site mlx5_0", "node2 mlx5_0", "NODE2 mlx5_1", "0x7 mlx5_0"} {
		table.Servers[i].Name = name
	}
	v := mustDecode(t, mustEncode(t, table))
	for key, want := range map[string]string{
		"node1.site mlx5_0": "0",
		"node1.site":        "0",
		"NODE1":             "0",
		"node2":             "1",
		"NODE2":             "2",
		"Node2":             "0 2 servers are called \"Node2\": ask by port GUID, one of 0x0000000000100003, 0x0000000000100005",
		"0x100003":          "1",
		"0x7":               "3",
		"0x8":               "0 no server of the plan has the name, port GUID or LID \"0x8\": did you mean \"0x7\"?",
		"104":               "2",
		"105":               "2",
		"108":               "0 no server of the plan has the name, port GUID or LID \"108\"",
		"65640":             "0 no server of the plan has the name, port GUID or LID \"65640\"",
		"":                  "0 no server of the plan has the name, port GUID or LID \"\"",
		"node3.site":        "0 no server of the plan has the name, port GUID or LID \"node3.site\": did you mean \"node1.site\"?",
	} {
		i, err := v.Find(key)
		got := fmt.Sprint(i)
		if err != nil {
			got += " " + err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", key, got, want)
		}
		if errors.Is(err, ErrAmbiguous) != strings.Contains(want, "are called") {
			t.Errorf("%q: %v is ambiguous", key, err)
		}
	}
	if i, ok := v.FindGUID(0x100009); i != 0 || ok {
		t.Errorf("a GUID beyond all: %d %t", i, ok)
	}
	if i, ok := v.FindLID(110); i != 0 || ok {
		t.Errorf("a LID beyond all: %d %t", i, ok)
	}
}

// TestFindPair finds the transfers between two servers, in the first phase of each.
func TestFindPair(t *testing.T) {
	table := newTable(3, 3, 2)
	for s := range table.Servers {
		table.Servers[s] = ServerEntry{GUID: ib.GUID(s + 1), LID: ib.LID(10 + 2*s), LMC: 1, Leaf: s}
	}
	table.set(1, 0, 1, 1) // by LID 13
	table.set(2, 0, 1, 0)
	table.set(2, 1, 0, 1) // by LID 11
	table.set(0, 2, 0, 0)
	table.Job = 5
	v := mustDecode(t, mustEncode(t, table))
	for _, c := range []struct {
		s, peer int
		want    Pair
		ok      bool
	}{{0, 1, Pair{1, 1, 13, 1}, true}, {1, 0, Pair{2, 1, 11, 1}, true}, {2, 0, Pair{0, 0, 10, 0}, true}, {0, 2, Pair{}, false}} {
		if p, ok := v.FindPair(c.s, c.peer); p != c.want || ok != c.ok {
			t.Errorf("%d to %d: %+v %t, want %+v %t", c.s, c.peer, p, ok, c.want, c.ok)
		}
	}
	if v.Job() != 5 || v.Lanes() != 2 || v.LMC() != 1 {
		t.Errorf("job %d, %d lanes, LMC %d", v.Job(), v.Lanes(), v.LMC())
	}
	if _, err := v.Numbered(0, 1, "ab"); err == nil {
		t.Error("a hash of two digits passes")
	}
}

// TestBounds checks values just within the limits of the format, and just beyond them.
func TestBounds(t *testing.T) {
	servers := shiftTable(1, 1, 0).Servers
	for name, c := range map[string]struct {
		spoil func(t *Table)
		want  string
	}{
		"lanes":          {func(t *Table) { t.Lanes = math.MaxInt16 }, ""},
		"no servers":     {func(t *Table) { t.Servers, t.Phases = nil, 1 }, "1 phases without a server"},
		"less than none": {func(t *Table) { t.Phases = -1 }, "-1 phases: want 0 to 2147483647"},
		"phases":         {func(t *Table) { t.Phases = math.MaxInt32 + 1 }, "2147483648 phases: want 0 to 2147483647"},
		"LMC":            {func(t *Table) { t.Servers[0].LMC = 7 }, ""},
		"more LMC":       {func(t *Table) { t.Servers[0].LMC = 8 }, "LMC 8"},
		"last LID":       {func(t *Table) { t.Servers[0].LID = ib.MaxUnicastLID }, ""},
		"LIDs beyond":    {func(t *Table) { t.Servers[0].LID, t.Servers[0].LMC = ib.MaxUnicastLID, 1 }, "LID"},
		"leaf":           {func(t *Table) { t.Servers[0].Leaf = 65535 }, ""},
		"leaf beyond":    {func(t *Table) { t.Servers[0].Leaf = 65536 }, "65536"},
		"more servers":   {func(t *Table) { t.Servers = make([]ServerEntry, MaxServers+1) }, "49152 servers: at most 49151 have a unicast LID"},
	} {
		table := &Table{Servers: append([]ServerEntry(nil), servers...)}
		c.spoil(table)
		_, err := Encode(table)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if s := Summarize("exact", 9, 7); s != (Summary{Length{"exact", 9, 7}, 2}) {
		t.Errorf("%+v", s)
	}
}
