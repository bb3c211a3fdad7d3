package verify

import (
	"testing"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// tree generates a fabric and fits it to its own baseline, then takes cables
// out: the lanes of broken, given as (leaf, lane).
func tree(t testing.TB, spec fabgen.Spec, broken ...[2]int) *topology.FatTree {
	t.Helper()
	f := fabgen.Generate(spec)
	b, err := topology.NewBaseline(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range broken {
		f.Disconnect(topology.PortRef{Node: f.Find(b.Leaves[x[0]].GUID), Port: b.Leaves[x[0]].Uplinks[x[1]].LeafPort})
	}
	return fit(t, f, b)
}

func fit(t testing.TB, f *topology.Fabric, b *topology.Baseline) *topology.FatTree {
	t.Helper()
	ft, err := topology.Fit(f, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ft
}

// builder makes tables the slow way: every entry by looking for a cable.
type builder struct {
	*topology.FatTree
	tables *lft.Tables
}

// naiveTables routes LID base+j of a host over lane (j+α+first) mod K where that lane
// is usable at both ends, and over the next usable one otherwise.
func naiveTables(t *topology.FatTree) *lft.Tables {
	b := &builder{t, &lft.Tables{}}
	size := 0
	for _, e := range t.Fabric.EndPorts() {
		size = max(size, int(e.LID)+1<<e.LMC)
	}
	for i := range t.Fabric.Nodes {
		n := &t.Fabric.Nodes[i]
		if n.Kind != topology.Switch {
			continue
		}
		out := make([]uint8, size)
		for lid := range out {
			out[lid] = lft.NoPath
		}
		b.tables.Switches = append(b.tables.Switches, lft.Table{GUID: n.GUID, LID: n.LID(), Name: n.Name, Ports: len(n.Ports) - 1, Out: out})
		for h := range t.Hosts {
			host := &t.Hosts[h]
			for j := range 1 << host.LMC {
				out[int(host.LID)+j] = b.entry(int32(i), host.At.Node, host.At.Port, j+host.Alpha+host.First)
			}
		}
		for s := range t.Fabric.Nodes {
			if sw := &t.Fabric.Nodes[s]; sw.Kind == topology.Switch {
				out[sw.LID()] = b.entry(int32(i), int32(s), 0, s)
			}
		}
	}
	return b.tables
}

// entry is the port by which node at reaches a port of node home, by lane
// prefer if possible.
func (b *builder) entry(at, home int32, port uint8, prefer int) uint8 {
	if at == home {
		return port
	}
	a, d := b.leaf(at), b.leaf(home)
	for i := range b.Lanes {
		k := (prefer + i) % b.Lanes
		spine := b.Spines[b.LaneOf[k]].Node
		switch {
		case a >= 0 && d >= 0:
			if b.Leaves[a].Cables[k].Usable() && b.Leaves[d].Cables[k].Usable() {
				return b.Leaves[a].Cables[k].LeafPort
			}
		case a >= 0:
			if spine == home && b.Leaves[a].Cables[k].Usable() {
				return b.Leaves[a].Cables[k].LeafPort
			}
		case d >= 0:
			if spine == at && b.Leaves[d].Cables[k].Usable() {
				return b.Leaves[d].Cables[k].SpinePort
			}
		}
	}
	// Two leaves without a common lane may share a spine by parallel cables.
	for k := range b.Lanes {
		for j := range b.Lanes {
			if a >= 0 && d >= 0 && b.LaneOf[k] == b.LaneOf[j] && b.Leaves[a].Cables[k].Usable() && b.Leaves[d].Cables[j].Usable() {
				return b.Leaves[a].Cables[k].LeafPort
			}
		}
	}
	return lft.NoPath
}

func (b *builder) leaf(node int32) int {
	for l := range b.Leaves {
		if b.Leaves[l].Node == node {
			return l
		}
	}
	return -1
}

// linearShift is the healthy plan: in phase p server s sends to s+p+1, on base
// LIDs.
func linearShift(t *topology.FatTree) Rows {
	count := len(t.Servers)
	r := NewRows(count, count-1)
	for ph := range r.Phases {
		for s := range count {
			d := (s + ph + 1) % count
			src, dst := &t.Hosts[t.Servers[s]], &t.Hosts[t.Servers[d]]
			i := ph*count + s
			r.To[i], r.DLID[i] = int32(d), dst.LID
			if src.Leaf != dst.Leaf {
				r.Lane[i] = int16((dst.Alpha + dst.First) % t.Lanes)
			}
		}
	}
	return r
}

// oneByOne is a plan for any damage: one transfer a phase, over the first lane
// that is up at both leaves.
func oneByOne(t *topology.FatTree) (Rows, [][2]int32) {
	type transfer struct {
		s, d int
		lane int16
		lid  ib.LID
	}
	var all []transfer
	var unreachable [][2]int32
	for s := range t.Servers {
		for d := range t.Servers {
			src, dst := &t.Hosts[t.Servers[s]], &t.Hosts[t.Servers[d]]
			switch {
			case s == d:
			case src.Leaf == dst.Leaf:
				all = append(all, transfer{s, d, Local, dst.LID})
			default:
				found := false
				for j := 0; j < 1<<dst.LMC && !found; j++ {
					k := (j + dst.Alpha + dst.First) % t.Lanes
					if t.LaneUp(src.Leaf, k) && t.LaneUp(dst.Leaf, k) {
						all = append(all, transfer{s, d, int16(k), dst.LID + ib.LID(j)})
						found = true
					}
				}
				if !found {
					unreachable = append(unreachable, [2]int32{int32(s), int32(d)})
				}
			}
		}
	}
	r := NewRows(len(t.Servers), len(all))
	for ph, x := range all {
		i := ph*len(t.Servers) + x.s
		r.To[i], r.Lane[i], r.DLID[i] = int32(x.d), x.lane, x.lid
	}
	return r, unreachable
}
