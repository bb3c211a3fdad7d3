package verify

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// drawTree draws a small tree of any population with up to four dead cables and
// one degraded cable.
func drawTree(rt *rapid.T, t testing.TB) *topology.FatTree {
	spec := fabgen.Spec{
		Spines: rapid.IntRange(1, 4).Draw(rt, "spines"), Leaves: rapid.IntRange(2, 4).Draw(rt, "leaves"),
		Hosts:  rapid.SliceOfN(rapid.IntRange(1, 3), 1, 4).Draw(rt, "hosts"),
		Cables: rapid.IntRange(1, 2).Draw(rt, "cables"), LMC: uint8(rapid.IntRange(0, 3).Draw(rt, "lmc")),
		Shuffle: rapid.Uint64Range(0, 9).Draw(rt, "shuffle"),
	}
	var broken [][2]int
	cable := func() [2]int {
		return [2]int{rapid.IntRange(0, spec.Leaves-1).Draw(rt, "leaf"), rapid.IntRange(0, spec.Spines*spec.Cables-1).Draw(rt, "lane")}
	}
	for range rapid.IntRange(0, 4).Draw(rt, "dead") {
		broken = append(broken, cable())
	}
	ft := tree(t, spec, broken...)
	if rapid.Bool().Draw(rt, "held") {
		c := cable()
		ft.Hold(c[0], c[1])
	}
	return ft
}

// mutateTable changes one entry of one table, or takes one cable out.
func mutateTable(rt *rapid.T, t testing.TB, ft *topology.FatTree, tables *lft.Tables) *topology.FatTree {
	i := rapid.IntRange(0, len(tables.Switches)-1).Draw(rt, "switch")
	table := &tables.Switches[i]
	if rapid.IntRange(0, 9).Draw(rt, "cable instead") == 0 {
		at := topology.PortRef{Node: ft.Fabric.Find(table.GUID), Port: uint8(rapid.IntRange(1, table.Ports).Draw(rt, "port"))}
		f := ft.Fabric.Clone()
		f.Disconnect(at)
		return fit(t, f, ft.Baseline)
	}
	var used []int
	for lid := range owners(ft.Fabric) {
		used = append(used, int(lid))
	}
	slices.Sort(used)
	port := uint8(rapid.IntRange(0, table.Ports+2).Draw(rt, "port"))
	if int(port) == table.Ports+2 {
		port = lft.NoPath
	}
	table.Out[rapid.SampledFrom(used).Draw(rt, "lid")] = port
	return ft
}

func TestTablesMutation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ft := drawTree(rt, t)
		tables := naiveTables(ft)
		if err := Tables(ft, tables); err != nil {
			rt.Fatalf("valid tables: %v", err)
		}
		for range rapid.IntRange(1, 3).Draw(rt, "mutations") {
			ft = mutateTable(rt, t, ft, tables)
		}
		got, want := Tables(ft, tables), slowTables(ft, tables)
		if (got == nil) != (want == nil) {
			rt.Fatalf("verdict %v, the reference walker says %v", got, want)
		}
	})
}

func TestPlanMutation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ft := drawTree(rt, t)
		tables := naiveTables(ft)
		rows, unreachable := oneByOne(ft)
		rows = squeeze(ft, tables, rows)
		if err := Plan(ft, tables, rows, unreachable); err != nil {
			rt.Fatalf("valid plan: %v", err)
		}
		switch kind := rapid.IntRange(0, 4).Draw(rt, "kind"); {
		case kind == 0:
			// A server that is gone leaves the numbering of the rows: not this test.
			if now := mutateTable(rt, t, ft, tables); len(now.Servers) == len(ft.Servers) {
				ft = now
			}
		case kind == 1 && len(unreachable) > 0:
			i := rapid.IntRange(0, len(unreachable)-1).Draw(rt, "pair")
			unreachable = slices.Delete(unreachable, i, i+1)
		case kind == 2:
			s, d := rapid.IntRange(0, len(ft.Servers)-1).Draw(rt, "source"), rapid.IntRange(0, len(ft.Servers)-1).Draw(rt, "destination")
			unreachable = append(unreachable, [2]int32{int32(s), int32(d)})
		default:
			mutateRows(rt, ft, rows)
		}
		got, want := Plan(ft, tables, rows, unreachable), slowPlan(ft, tables, rows, unreachable)
		if (got == nil) != (want == nil) {
			rt.Fatalf("verdict %v, the reference walker says %v", got, want)
		}
	})
}

// squeeze packs a plan of one transfer a phase: each transfer goes to the first
// phase where the reference walker lets it in. So mutations meet other
// transfers.
func squeeze(t *topology.FatTree, tables *lft.Tables, r Rows) Rows {
	count := len(t.Servers)
	packed, used := NewRows(count, r.Phases), 0
	links := make([]map[topology.PortRef]bool, r.Phases)
	for i, d := range r.To {
		if d == Idle {
			continue
		}
		s := i % count
		src, dst := &t.Hosts[t.Servers[s]], &t.Hosts[t.Servers[d]]
		for ph := range links {
			if links[ph] == nil {
				links[ph] = map[topology.PortRef]bool{}
			}
			trial := map[topology.PortRef]bool{}
			for l := range links[ph] {
				trial[l] = true
			}
			if slowTransfer(t, tables, src, dst, int(r.Lane[i]), r.DLID[i], trial) == nil {
				links[ph] = trial
				j := ph*count + s
				packed.To[j], packed.Lane[j], packed.DLID[j] = d, r.Lane[i], r.DLID[i]
				used = max(used, ph+1)
				break
			}
		}
	}
	return Rows{used, packed.To[:used*count], packed.Lane[:used*count], packed.DLID[:used*count]}
}

// mutateRows changes one element, moves a transfer, or swaps two destinations.
func mutateRows(rt *rapid.T, ft *topology.FatTree, r Rows) {
	if len(r.To) == 0 {
		return
	}
	count := len(ft.Servers)
	var busy []int
	for i, d := range r.To {
		if d != Idle {
			busy = append(busy, i)
		}
	}
	i := rapid.SampledFrom(busy).Draw(rt, "transfer")
	switch rapid.IntRange(0, 4).Draw(rt, "what") {
	case 0:
		r.To[i] = int32(rapid.IntRange(-2, count).Draw(rt, "to"))
	case 1:
		r.Lane[i] = int16(rapid.IntRange(-2, ft.Lanes).Draw(rt, "lane"))
	case 2:
		dst := &ft.Hosts[ft.Servers[r.To[i]]]
		r.DLID[i] = ib.LID(rapid.IntRange(int(dst.LID)-2, int(dst.LID)+1<<dst.LMC+1).Draw(rt, "dlid"))
	case 3: // to another phase, onto whatever is there
		j := rapid.IntRange(0, r.Phases-1).Draw(rt, "phase")*count + i%count
		r.To[i], r.To[j] = r.To[j], r.To[i]
		r.Lane[i], r.Lane[j] = r.Lane[j], r.Lane[i]
		r.DLID[i], r.DLID[j] = r.DLID[j], r.DLID[i]
	case 4: // another lane with its LID
		dst := &ft.Hosts[ft.Servers[r.To[i]]]
		j := rapid.IntRange(0, 1<<dst.LMC-1).Draw(rt, "offset")
		r.DLID[i], r.Lane[i] = dst.LID+ib.LID(j), int16((j+dst.Alpha+dst.First)%ft.Lanes)
	}
}
