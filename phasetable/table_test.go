package phasetable

import (
	"fmt"
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
)

// shiftTable is the linear shift on a full tree of leaves with perLeaf servers
// each, with base LIDs from 100 on. Its lanes make no conflict-free plan: the
// format does not care.
func shiftTable(leaves, perLeaf int, lmc uint8) *Table {
	n := leaves * perLeaf
	t := newTable(n, n-1, 1<<lmc)
	t.Epoch, t.TopologyHash = 42, fmt.Sprintf("%064x", 0xfeed)
	for s := range t.Servers {
		t.Servers[s] = ServerEntry{GUID: ib.GUID(0x100001 + 2*s), LID: ib.LID(100 + s<<lmc),
			LMC: lmc, Leaf: s / perLeaf, Name: fmt.Sprintf("Hca%04d mlx5_0", s)}
	}
	for p := range t.Phases {
		for s := range n {
			d := (s + p + 1) % n
			t.set(p, s, d, (s+p)%t.Lanes)
		}
	}
	return t
}

func newTable(servers, phases, lanes int) *Table {
	t := &Table{Phases: phases, Lanes: lanes, Servers: make([]ServerEntry, servers), To: make([]int32, servers*phases),
		Lane: make([]int16, servers*phases), DLID: make([]ib.LID, servers*phases)}
	for i := range t.To {
		t.To[i], t.Lane[i] = Idle, Local
	}
	return t
}

// set enters a transfer; lane counts only between leaves.
func (t *Table) set(p, s, d, lane int) {
	i, dst := p*len(t.Servers)+s, t.Servers[d]
	t.To[i], t.Lane[i], t.DLID[i] = int32(d), Local, dst.LID
	if t.Servers[s].Leaf != dst.Leaf {
		t.Lane[i] = int16(lane)
		t.DLID[i] = dst.LID + ib.LID(lane%(1<<dst.LMC))
	}
}

// anyTable draws a table: servers with mixed LMCs, gaps between LIDs, GUIDs and
// LIDs in no order, odd names, and partial permutations as phases.
func anyTable(rt *rapid.T) *Table {
	n := rapid.IntRange(0, 12).Draw(rt, "servers")
	phases := 0
	if n > 0 {
		phases = rapid.IntRange(0, 20).Draw(rt, "phases")
	}
	t := newTable(n, phases, rapid.IntRange(1, 9).Draw(rt, "lanes"))
	t.Epoch, t.Job = rapid.Uint64().Draw(rt, "epoch"), rapid.Uint64().Draw(rt, "job")
	if rapid.Bool().Draw(rt, "hashed") {
		t.TopologyHash = rapid.StringMatching("[0-9a-f]{63}1").Draw(rt, "hash")
	}
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
	lid := 1
	for k, s := range rng.Perm(n) {
		lmc := rng.IntN(4)
		lid += rng.IntN(3)
		t.Servers[s] = ServerEntry{GUID: ib.GUID(rng.Uint64()>>8<<8 + uint64(k) + 1), LID: ib.LID(lid), LMC: uint8(lmc),
			Leaf: rng.IntN(4), Name: rapid.SampledFrom([]string{"", "node", "größe/é;1", "node"}).Draw(rt, "name")}
		lid += 1 << lmc
	}
	for p := range phases {
		to := rng.Perm(n)
		for s, d := range to {
			if s != d && rng.IntN(4) > 0 {
				t.set(p, s, d, rng.IntN(t.Lanes))
			}
		}
	}
	return t
}

func mustEncode(t rapid.TB, table *Table) []byte {
	t.Helper()
	data, err := Encode(table)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustDecode(t rapid.TB, data []byte) *View {
	t.Helper()
	v, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
