package verify

import (
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// The reference walker checks the invariants a second time, with maps and one step at a time,
// for comparison. It finds that an invariant fails, but does not describe the failure.

// owners maps every LID in use to the port that owns it.
func owners(f *topology.Fabric) map[ib.LID]topology.PortRef {
	m := map[ib.LID]topology.PortRef{}
	for _, e := range f.EndPorts() {
		onSwitch := f.Nodes[e.Node].Kind == topology.Switch
		if p := f.At(e.PortRef); e.LID == 0 || !onSwitch && (!p.Up() || f.Nodes[p.Peer].Kind != topology.Switch) {
			continue
		}
		for j := range 1 << e.LMC {
			m[e.LID+ib.LID(j)] = e.PortRef
		}
	}
	return m
}

// trace follows a LID from a switch and lists the output ports; end is the port
// where it arrives. It fails where it ends nowhere.
func trace(f *topology.Fabric, tables *lft.Tables, node int32, lid ib.LID) (way []topology.PortRef, end topology.PortRef, err error) {
	been := map[int32]bool{}
	for !been[node] {
		been[node] = true
		i := tables.Find(f.Nodes[node].GUID)
		if i < 0 {
			return way, end, fmt.Errorf("no table")
		}
		p := tables.Port(i, lid)
		if p == lft.NoPath {
			return way, end, fmt.Errorf("no entry")
		}
		if int(p) >= len(f.Nodes[node].Ports) {
			return way, end, fmt.Errorf("no port")
		}
		here := topology.PortRef{Node: node, Port: p}
		way = append(way, here)
		if p == 0 {
			return way, here, nil
		}
		port := f.At(here)
		if !port.Up() {
			return way, end, fmt.Errorf("down")
		}
		if f.Nodes[port.Peer].Kind != topology.Switch {
			return way, topology.PortRef{Node: port.Peer, Port: port.PeerPort}, nil
		}
		node = port.Peer
	}
	return way, end, fmt.Errorf("loop")
}

func slowPlan(t *topology.FatTree, tables *lft.Tables, r Rows, unreachable [][2]int32) error {
	for i := range t.Fabric.Nodes {
		if n := &t.Fabric.Nodes[i]; n.Kind == topology.Switch && tables.Find(n.GUID) < 0 {
			return fmt.Errorf("%s: no table", n)
		}
	}
	pairs := map[[2]int32]bool{}
	once := func(s, d int32) error {
		if pairs[[2]int32{s, d}] {
			return fmt.Errorf("pair %d %d twice", s, d)
		}
		pairs[[2]int32{s, d}] = true
		return nil
	}
	host := func(s int32) *topology.Host { return &t.Hosts[t.Servers[s]] }
	for _, u := range unreachable {
		src, dst := host(u[0]), host(u[1])
		for j := range 1 << dst.LMC {
			k := (dst.Alpha + dst.First + j) % t.Lanes
			if src.Leaf == dst.Leaf || t.Leaves[src.Leaf].Cables[k].State == topology.Full && t.Leaves[dst.Leaf].Cables[k].State == topology.Full {
				return fmt.Errorf("%v reachable", u)
			}
		}
		if err := once(u[0], u[1]); err != nil {
			return err
		}
	}
	for ph := range r.Phases {
		links := map[topology.PortRef]bool{}
		for s := range t.Servers {
			i := ph*len(t.Servers) + s
			d := r.To[i]
			if d == Idle {
				continue
			}
			if d < 0 || int(d) >= len(t.Servers) || int(d) == s {
				return fmt.Errorf("server %d", d)
			}
			if err := once(int32(s), d); err != nil {
				return err
			}
			if err := slowTransfer(t, tables, host(int32(s)), host(d), int(r.Lane[i]), r.DLID[i], links); err != nil {
				return err
			}
		}
	}
	if want := len(t.Servers) * (len(t.Servers) - 1); len(pairs) != want {
		return fmt.Errorf("%d pairs of %d", len(pairs), want)
	}
	return nil
}

// slowTransfer walks one transfer and marks its links, the host's own included.
func slowTransfer(t *topology.FatTree, tables *lft.Tables, src, dst *topology.Host, lane int, lid ib.LID, links map[topology.PortRef]bool) error {
	if owners(t.Fabric)[lid] != dst.PortRef {
		return fmt.Errorf("LID %d is another's", lid)
	}
	way, end, err := trace(t.Fabric, tables, src.At.Node, lid)
	if err != nil {
		return err
	}
	if end != dst.PortRef {
		return fmt.Errorf("arrives at %v", end)
	}
	var want []topology.PortRef
	if src.Leaf != dst.Leaf {
		if lane < 0 || lane >= t.Lanes {
			return fmt.Errorf("lane %d", lane)
		}
		up, down := t.Leaves[src.Leaf].Cables[lane], t.Leaves[dst.Leaf].Cables[lane]
		for k, c := range t.Leaves[dst.Leaf].Cables { // the spine may have another cable for the LID
			if t.LaneOf[k] == t.LaneOf[lane] && c.State == topology.Full && len(way) > 1 && way[1].Port == c.SpinePort {
				down = c
			}
		}
		if up.State != topology.Full || down.State != topology.Full {
			return fmt.Errorf("lane %d down", lane)
		}
		want = append(want, topology.PortRef{Node: t.Leaves[src.Leaf].Node, Port: up.LeafPort},
			topology.PortRef{Node: t.Spines[t.LaneOf[lane]].Node, Port: down.SpinePort})
	} else if lane != -1 || lid != dst.LID {
		return fmt.Errorf("not local")
	}
	want = append(want, dst.At)
	if fmt.Sprint(way) != fmt.Sprint(want) {
		return fmt.Errorf("way %v instead of %v", way, want)
	}
	for _, link := range append(way, src.PortRef) {
		if links[link] {
			return fmt.Errorf("link %v twice", link)
		}
		links[link] = true
	}
	return nil
}

func slowTables(t *topology.FatTree, tables *lft.Tables) error {
	f := t.Fabric
	var switches []int32
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			switches = append(switches, int32(i))
		}
	}
	waits := map[topology.PortRef]map[topology.PortRef]bool{}
	for lid, owner := range owners(f) {
		home := owner.Node
		if f.Nodes[home].Kind != topology.Switch {
			home = f.At(owner).Peer
		}
		for _, s := range switches {
			way, end, err := trace(f, tables, s, lid)
			if err != nil && err.Error() == "no entry" && len(way) == 0 && !joined(t, s, home) {
				continue
			}
			if err != nil || end != owner {
				return fmt.Errorf("LID %d from %s: %w, at %v", lid, f.Nodes[s].Name, err, end)
			}
			for i := range way[1:] {
				if waits[way[i]] == nil {
					waits[way[i]] = map[topology.PortRef]bool{}
				}
				waits[way[i]][way[i+1]] = true
			}
		}
	}
	// Take out channels that wait for nothing until none is left.
	for len(waits) > 0 {
		before := len(waits)
		for a, next := range waits {
			for b := range next {
				if _, ok := waits[b]; !ok {
					delete(next, b)
				}
			}
			if len(next) == 0 {
				delete(waits, a)
			}
		}
		if len(waits) == before {
			return fmt.Errorf("cycle among %d channels", before)
		}
	}
	return nil
}

// joined reports whether an up-then-down path leads from a switch to another.
func joined(t *topology.FatTree, from, to int32) bool {
	cable := func(leaf, spine int32) bool {
		for l := range t.Leaves {
			for k, c := range t.Leaves[l].Cables {
				if t.Leaves[l].Node == leaf && t.Spines[t.LaneOf[k]].Node == spine && c.State >= topology.Degraded {
					return true
				}
			}
		}
		return false
	}
	if from == to || cable(from, to) || cable(to, from) {
		return true
	}
	for s := range t.Spines {
		if n := t.Spines[s].Node; n != topology.None && cable(from, n) && cable(to, n) {
			return true
		}
	}
	return false
}
