package lft

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// tree fits the fabric to its own baseline after the change, which can be nil.
func tree(t testing.TB, f *topology.Fabric, change func(*topology.Fabric)) *topology.FatTree {
	t.Helper()
	return fabgen.Fitted(t, f.Clone(), change)
}

// fataler is a test of testing or of rapid.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func build(t fataler, ft *topology.FatTree) *Tables {
	t.Helper()
	tables, err := Build(ft)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// unplug takes every switch cable of node i away.
func unplug(f *topology.Fabric, i int32) {
	for p := range f.Nodes[i].Ports {
		if port := &f.Nodes[i].Ports[p]; port.Peer != topology.None && f.Nodes[port.Peer].Kind == topology.Switch {
			f.Disconnect(topology.PortRef{Node: i, Port: uint8(p)})
		}
	}
}

// drawFabric draws a fat tree of any population with parallel cables, in any
// cabling order, with adapters and a bystander on spines.
func drawFabric(r *rapid.T) *topology.Fabric {
	spec := fabgen.Spec{
		Spines:  rapid.IntRange(1, 6).Draw(r, "spines"),
		Leaves:  rapid.IntRange(2, 6).Draw(r, "leaves"),
		Hosts:   rapid.SliceOfN(rapid.IntRange(1, 5), 1, 6).Draw(r, "hosts"),
		Cables:  rapid.IntRange(1, 3).Draw(r, "cables"),
		LMC:     uint8(rapid.IntRange(0, 4).Draw(r, "lmc")),
		Shuffle: uint64(rapid.IntRange(0, 3).Draw(r, "shuffle")),
	}
	f := fabgen.Generate(spec)
	if rapid.Bool().Draw(r, "adapter on spine") && spec.Leaves*spec.HostsOn(0) > 8 {
		addHost(f, f.Find(fabgen.SpineGUID), 0x900000)
	}
	fabgen.AssignLIDs(f, spec.LMC)
	return f
}

// addPort gives node i one more port.
func addPort(f *topology.Fabric, i int32) topology.PortRef {
	n := &f.Nodes[i]
	n.Ports = append(n.Ports, topology.Port{Peer: topology.None})
	return topology.PortRef{Node: i, Port: uint8(len(n.Ports) - 1)}
}

var hdr = ib.Rate{Width: 4, Speed: ib.HDR}

// addHost plugs a new host into a new port of switch i. Its GUID must be above
// those of all nodes.
func addHost(f *topology.Fabric, i int32, g ib.GUID) {
	f.Nodes = append(f.Nodes, topology.Node{Kind: topology.Adapter, GUID: g, Name: fmt.Sprintf("Extra%x", uint64(g)),
		Ports: []topology.Port{{Peer: topology.None}, {Peer: topology.None, GUID: g + 1}}})
	f.Connect(topology.PortRef{Node: int32(len(f.Nodes) - 1), Port: 1}, addPort(f, i), hdr)
}

// addSwitch adds a new switch with cables to the given nodes and one host. Its
// GUID must be above those of all nodes.
func addSwitch(f *topology.Fabric, g ib.GUID, to ...int32) {
	f.Nodes = append(f.Nodes, topology.Node{Kind: topology.Switch, GUID: g, Name: fmt.Sprintf("New%x", uint64(g)),
		Ports: []topology.Port{{Peer: topology.None, GUID: g, State: topology.Active}}})
	i := int32(len(f.Nodes) - 1)
	for _, node := range to {
		f.Connect(addPort(f, i), addPort(f, node), hdr)
	}
	addHost(f, i, g+0x1000)
}

// cables lists the leaf ends of all cables between leaves and spines.
func cables(f *topology.Fabric) []topology.PortRef {
	var refs []topology.PortRef
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if port.Peer == topology.None || f.Nodes[i].Kind != topology.Switch || f.Nodes[port.Peer].Kind != topology.Switch {
				continue
			}
			if f.Nodes[i].GUID < fabgen.SpineGUID {
				refs = append(refs, topology.PortRef{Node: int32(i), Port: uint8(p)})
			}
		}
	}
	return refs
}

// damage takes cables away, slows others down, adds surplus cables and new
// switches of every kind with their hosts, and removes switches.
func damage(r *rapid.T, f *topology.Fabric) {
	all := cables(f)
	for _, c := range all {
		switch rapid.SampledFrom([]string{"full", "full", "full", "gone", "slow"}).Draw(r, "cable") {
		case "gone":
			f.Disconnect(c)
		case "slow":
			port := f.At(c)
			port.Rate.Width = 1
			f.Nodes[port.Peer].Ports[port.PeerPort].Rate.Width = 1
		}
	}
	leaf, spine := f.Find(fabgen.LeafGUID), f.Find(fabgen.SpineGUID)
	if rapid.Bool().Draw(r, "whole spine gone") {
		unplug(f, spine)
	}
	if rapid.Bool().Draw(r, "surplus cable") {
		f.Connect(addPort(f, leaf), addPort(f, spine), hdr)
	}
	lmc := uint8(0)
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter {
			lmc = f.Nodes[i].Ports[1].LMC
		}
	}
	next := ib.GUID(0xA00000)
	for _, kind := range rapid.SliceOfN(rapid.SampledFrom([]string{"spine", "leaf", "leaf to leaf and spine", "chain"}), 0, 3).Draw(r, "new switches") {
		switch kind {
		case "spine":
			addSwitch(f, next, leaf, leaf+1)
		case "leaf":
			addSwitch(f, next, spine)
		case "leaf to leaf and spine":
			addSwitch(f, next, spine, leaf)
		case "chain":
			addSwitch(f, next, int32(len(f.Nodes)-2))
		}
		next += 0x10000
	}
	switch rapid.SampledFrom([]string{"none", "leaf", "spine"}).Draw(r, "switch removed") {
	case "leaf":
		remove(f, leaf+1)
	case "spine":
		remove(f, spine)
	}
	fabgen.AssignLIDs(f, lmc)
}

// remove takes node i out of the fabric.
func remove(f *topology.Fabric, i int32) {
	for p := range f.Nodes[i].Ports {
		f.Disconnect(topology.PortRef{Node: i, Port: uint8(p)})
	}
	f.Nodes = slices.Delete(f.Nodes, int(i), int(i)+1)
	for n := range f.Nodes {
		for p := range f.Nodes[n].Ports {
			if port := &f.Nodes[n].Ports[p]; port.Peer > i {
				port.Peer--
			}
		}
	}
}

// hold takes some cables out of schedules.
func hold(r *rapid.T, t *topology.FatTree) {
	for range rapid.IntRange(0, 3).Draw(r, "holds") {
		l := rapid.IntRange(0, len(t.Leaves)-1).Draw(r, "leaf")
		t.Hold(l, rapid.IntRange(0, t.Lanes-1).Draw(r, "lane"))
	}
}

// drawTree draws a damaged fabric seen through the baseline of the whole one.
func drawTree(r *rapid.T) *topology.FatTree {
	f := drawFabric(r)
	b, err := topology.NewBaseline(f)
	if err != nil {
		r.Skip(err)
	}
	damage(r, f)
	if err := f.Validate(); err != nil {
		r.Fatalf("the test damaged the model itself: %v", err)
	}
	t, err := topology.Fit(f, b, nil)
	var other *topology.NotFatTree
	if errors.As(err, &other) {
		r.Skip(err)
	}
	if err != nil {
		r.Fatal(err)
	}
	return t
}

// walker follows tables on its own, sharing nothing with Trace.
type walker struct {
	f     *topology.Fabric
	table map[ib.GUID][]uint8
}

func newWalker(f *topology.Fabric, t *Tables) *walker {
	w := &walker{f, map[ib.GUID][]uint8{}}
	for _, s := range t.Switches {
		w.table[s.GUID] = s.Out
	}
	return w
}

// walk returns the nodes passed from switch i on, the owner last, and whether the
// LID arrived there. It stops at a missing entry, and fails on everything else.
func (w *walker) walk(i int32, lid ib.LID) (path []int32, arrived bool, err error) {
	for range w.f.Nodes {
		if slices.Contains(path, i) {
			break
		}
		path = append(path, i)
		n := &w.f.Nodes[i]
		out := w.table[n.GUID][lid]
		if out == NoPath {
			return path, false, nil
		}
		if out == 0 {
			if n.LID() != lid {
				return path, false, fmt.Errorf("%s takes LID %d, which is not its own", n, lid)
			}
			return path, true, nil
		}
		if int(out) >= len(n.Ports) || n.Ports[out].Peer == topology.None || n.Ports[out].State != topology.Active {
			return path, false, fmt.Errorf("%s sends LID %d to port %d, which is down", n, lid, out)
		}
		port := &n.Ports[out]
		i = port.Peer
		if peer := &w.f.Nodes[i]; peer.Kind != topology.Switch {
			p := &peer.Ports[port.PeerPort]
			if lid < p.LID || int(lid) >= int(p.LID)+1<<p.LMC {
				return path, false, fmt.Errorf("%s gets LID %d, which is not its own", peer, lid)
			}
			return append(path, i), true, nil
		}
	}
	return path, false, fmt.Errorf("LID %d goes round in a loop: %v", lid, path)
}

// joined reports whether an active cable joins the two nodes.
func joined(f *topology.Fabric, a, b int32) bool {
	for p := range f.Nodes[a].Ports {
		if port := &f.Nodes[a].Ports[p]; port.Peer == b && port.State == topology.Active {
			return true
		}
	}
	return false
}
