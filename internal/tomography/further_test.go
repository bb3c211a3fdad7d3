package tomography

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// by returns the transfers of exchanges by a table, and checks its phases hop by hop on the
// forwarding tables: no link twice, no host twice.
func (b *bench) by(t *testing.T, f *topology.Fabric, tables *lft.Tables, x *Further) (out []Transfer) {
	t.Helper()
	data, err := phasetable.Encode(x.Table)
	if err != nil {
		t.Fatal(err)
	}
	view, err := phasetable.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	at := map[ib.GUID]topology.PortRef{}
	for _, h := range f.ConnectedHosts() {
		at[h.GUID] = h.PortRef
	}
	pairs := map[[2]int]bool{}
	for p := range view.Phases() {
		used := map[topology.PortRef]bool{}
		for s := range view.Servers() {
			e := view.At(s, p)
			if e.SendTo == phasetable.Idle {
				continue
			}
			if pairs[[2]int{s, e.SendTo}] {
				t.Fatalf("servers %d and %d have two phases", s, e.SendTo)
			}
			pairs[[2]int{s, e.SendTo}] = true
			hops, err := tables.Trace(f, at[view.Server(s).GUID], e.DLID)
			if err != nil {
				t.Fatal(err)
			}
			way := []int32{}
			for _, h := range hops[:len(hops)-1] {
				out := topology.PortRef{Node: h.Node, Port: h.Out}
				if used[out] {
					t.Fatalf("phase %d has two transfers on %s", p, f.PortLabel(out))
				}
				used[out] = true
				way = append(way, b.links.Number(out))
			}
			for k := range x.Exchanges {
				out = append(out, Transfer{Phase: int32(1e6 + p + k*view.Phases()), Src: view.Server(s).GUID, Dst: view.Server(e.SendTo).GUID, Links: way})
			}
		}
	}
	return out
}

// TestFurther slows parts in exchanges by base LIDs, some of them of one host on each leaf, where a cable
// to a leaf and that of a host have the same transfers. Where others explain the same, phases
// are planned; the times of these and of the first exchange together name the right part alone.
func TestFurther(t *testing.T) {
	for _, c := range []struct {
		name   string
		lmc    uint8
		anyLID bool
		of     int     // hosts of a leaf in the first exchange
		by     float64 // slowdown

	}{
		{"base LIDs", 0, false, 4, .06},
		{"a host of each leaf", 0, false, 1, .3},
		{"a host of each leaf, any LID", 2, true, 1, .3},
	} {
		f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 6, Hosts: []int{4}, LMC: c.lmc})
		tables, err := lft.Build(fabgen.Fitted(t, f))
		if err != nil {
			t.Fatal(err)
		}
		b := newBench(t, f, tables, 2)
		first := f.ConnectedHosts()
		b.transfers = slices.DeleteFunc(b.transfers, func(x Transfer) bool {
			n := func(g ib.GUID) int {
				return slices.IndexFunc(first, func(h topology.EndPort) bool { return h.GUID == g })
			}
			return n(x.Src)%4 >= c.of || n(x.Dst)%4 >= c.of
		})
		alone := b.transfers
		rng := rand.New(rand.NewPCG(8, 1))
		doubts, apart, alike := 0, 0, 0
		for range 60 {
			part := &b.parts[rng.IntN(len(b.parts))]
			slow := make([]float64, b.all+1)
			for _, l := range part.Links {
				if l < b.all {
					slow[l] = c.by
				}
			}
			b.transfers = slices.Clone(alone)
			b.measure(rng, slow, .05)
			m, err := b.links.Find(b.transfers, true)
			if err != nil {
				t.Fatal(err)
			}
			x := b.links.Further(tables, m, c.anyLID)
			if len(m.Slow) != 1 || m.Slow[0].Or == nil {
				if (x != nil) != slices.ContainsFunc(m.Slow, func(s api.SlowPart) bool { return s.Or != nil }) {
					t.Errorf("%s: %v, and further phases are planned: %v", c.name, describe(m), x != nil)
				}
				continue
			}
			doubts++
			first := b.transfers
			b.transfers = b.by(t, f, tables, x)
			b.measure(rng, slow, .05)
			both, err := b.links.Find(append(slices.Clone(first), b.transfers...), true)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case x.Alike != nil:
				alike++
			case len(both.Slow) == 1 && both.Slow[0].Name == part.Name && both.Slow[0].Or == nil:
				apart++
			default:
				t.Logf("%s: %s is slow; first %v, %d phases, %d exchanges, then %v", c.name, part.Name, describe(m), x.Table.Phases, x.Exchanges, describe(both))
			}
		}
		t.Logf("%s: of 60 slow parts %d were not told apart at first; further phases name %d of them alone, and cannot for %d", c.name, doubts, apart, alike)
		if doubts < 3 || 10*apart < 9*(doubts-alike) {
			t.Errorf("%s: too few are told apart", c.name)
		}
	}
}
