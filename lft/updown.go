package lft

import (
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// updown routes the parts outside the tree: up by FatTree.Rank, then down.
//
// Towards a switch, every switch with a downward path to it goes down, by the shortest such
// path; every other one goes up, by the shortest path that ends so. A packet that has gone
// down is at a switch with a downward path, and continues down: no path goes up again, and
// none loops.
type updown struct {
	*topology.FatTree
	order []int32                   // switches by descending rank
	near  [][]hop                   // [node] its cables to switches of other ranks, by port
	homes [][]owned                 // [node] the LIDs that are delivered at a switch
	alien []bool                    // [node] the switch is outside the tree
	down  []int32                   // [node] cables of the shortest downward path to the current home, unreached without one
	dist  []int32                   // [node] cables of the shortest path up and down
	slow  map[topology.PortRef]bool // ports of cables excluded from schedules
	ports [2][]uint8                // scratch memory of ways
}

// hop is a cable of a switch.
type hop struct {
	port uint8
	node int32
	slow bool // excluded from schedules
}

// owned is a range of LIDs and the port that it leaves a switch by.
type owned struct {
	lid, end ib.LID
	port     uint8
}

const (
	unreached = int32(1) << 30
	// relayed is added to the distance over switches of the tree that have an entry for the
	// home by its relay leaf: any path up and down is shorter.
	relayed = int32(1) << 20
)

// newUpDown returns nil if the tree covers all switches and all of them have a place in it.
func newUpDown(t *topology.FatTree) *updown {
	u := &updown{FatTree: t, alien: make([]bool, len(t.Fabric.Nodes))}
	leaf := int32(len(t.Fabric.Nodes)) + 1
	for i := range t.Fabric.Nodes {
		if t.Fabric.Nodes[i].Kind == topology.Switch {
			u.alien[i] = t.Rank[i] != leaf && t.Rank[i] != leaf+1
			u.order = append(u.order, int32(i))
		}
	}
	if !slices.Contains(u.alien, true) {
		return nil
	}
	u.byRank()
	u.slow = make(map[topology.PortRef]bool)
	for l := range u.Leaves {
		for _, c := range u.Leaves[l].Cables {
			if c.State == topology.Degraded {
				u.hold(topology.PortRef{Node: u.Leaves[l].Node, Port: c.LeafPort})
			}
		}
	}
	u.down, u.dist = make([]int32, len(t.Fabric.Nodes)), make([]int32, len(t.Fabric.Nodes))
	u.wire()
	return u
}

// byRank puts the switches in order.
func (u *updown) byRank() {
	slices.SortStableFunc(u.order, func(a, b int32) int { return int(u.Rank[b]) - int(u.Rank[a]) })
}

// hold marks a cable as slow, at both its ends.
func (u *updown) hold(r topology.PortRef) {
	p := u.Fabric.At(r)
	u.slow[r], u.slow[topology.PortRef{Node: p.Peer, Port: p.PeerPort}] = true, true
}

// wire fills near and homes.
func (u *updown) wire() {
	f := u.Fabric
	u.near, u.homes = make([][]hop, len(f.Nodes)), make([][]owned, len(f.Nodes))
	own := func(at int32, p *topology.Port, port uint8) {
		if p.LID != 0 {
			u.homes[at] = append(u.homes[at], owned{p.LID, p.LID + 1<<p.LMC, port})
		}
	}
	for _, i := range u.order {
		ports := f.Nodes[i].Ports
		if len(ports) > 0 {
			own(i, &ports[0], 0)
		}
		for p := range ports {
			if !ports[p].Up() || p == int(NoPath) {
				continue
			}
			j, back := ports[p].Peer, &f.Nodes[ports[p].Peer].Ports[ports[p].PeerPort]
			if f.Nodes[j].Kind != topology.Switch {
				own(i, back, uint8(p))
			} else if u.Rank[i] != u.Rank[j] && back.Up() && ports[p].PeerPort != NoPath {
				u.near[i] = append(u.near[i], hop{uint8(p), j, u.slow[topology.PortRef{Node: i, Port: uint8(p)}]})
			}
		}
	}
}

// fill fills the entries, [node][LID], of switches outside the tree, and the entries for LIDs
// on such switches. Within the tree, its rules have every way up and down.
func (u *updown) fill(at [][]uint8) {
	for home := range u.homes {
		u.fillHome(int32(home), at)
	}
}

// fillHome fills the entries for the LIDs on one switch.
func (u *updown) fillHome(home int32, at [][]uint8) {
	if len(u.homes[home]) == 0 {
		return
	}
	u.measure(home, at)
	for _, s := range u.order {
		u.enter(s, home, at[s])
	}
}

// measure finds the paths to a home: up and down first, then over the relay leaf. Switches
// of the tree follow their entries for the home, or for the gate to a home outside, which
// is the nearest switch of the tree; those outside follow their paths to the tree.
func (u *updown) measure(home int32, at [][]uint8) {
	for i := range u.down {
		u.down[i] = unreached
	}
	u.down[home] = 0
	gate := home
	if u.alien[home] {
		gate = topology.None
	}
	for i := len(u.order) - 1; i >= 0; i-- { // ascending
		s := u.order[i]
		for _, h := range u.near[s] {
			if u.Rank[h.node] < u.Rank[s] {
				u.down[s] = min(u.down[s], u.down[h.node]+1)
			}
		}
		if !u.alien[s] && u.down[s] < unreached && u.Fabric.Nodes[s].LID() != 0 && (gate == topology.None || gate != home && u.down[s] < u.down[gate]) {
			gate = s
		}
	}
	for _, s := range u.order {
		u.dist[s] = u.down[s]
		for _, h := range u.near[s] {
			if u.down[s] == unreached && u.Rank[h.node] > u.Rank[s] {
				u.dist[s] = min(u.dist[s], u.dist[h.node]+1)
			}
		}
		if u.dist[s] < relayed || u.alien[s] || gate == topology.None {
			continue
		}
		stand := u.homes[home][0].lid
		if gate != home {
			stand = u.Fabric.Nodes[gate].LID()
		}
		if at[s][stand] == NoPath {
			u.dist[s] = unreached
			continue
		}
		u.dist[s] = relayed
		if gate != home {
			u.set(at[s], home, func(int) uint8 { return at[s][stand] })
		}
	}
}

// enter fills the entries of a switch for the current home.
func (u *updown) enter(s, home int32, out []uint8) {
	if s == home {
		for _, o := range u.homes[home] {
			for lid := o.lid; lid < o.end; lid++ {
				out[lid] = o.port
			}
		}
		return
	}
	if u.dist[s] == unreached || !u.alien[s] && (u.dist[s] >= relayed || !u.alien[home]) {
		return
	}
	ports := u.ways(s)
	own := int(u.Fabric.Nodes[home].LID())
	u.set(out, home, func(lid int) uint8 {
		if lid == own {
			return steady(ports, s, home)
		}
		return ports[(lid+int(s))%len(ports)]
	})
}

// steady chooses a port by rendezvous hashing: if one is lost, only the entries that used
// it move. It is for the LIDs of switches, of which every switch has one in a block of its
// own.
func steady(ports []uint8, s, home int32) (port uint8) {
	best := uint64(0)
	for _, p := range ports {
		x := (uint64(s)<<40 | uint64(home)<<8 | uint64(p)) * 0x9E3779B97F4A7C15
		x = (x ^ x>>29) * 0xBF58476D1CE4E5B9
		if x ^= x >> 32; x >= best {
			best, port = x, p
		}
	}
	return port
}

// set gives the LIDs of a home their entries.
func (u *updown) set(out []uint8, home int32, port func(lid int) uint8) {
	for _, o := range u.homes[home] {
		for lid := int(o.lid); lid < int(o.end); lid++ {
			out[lid] = port(lid)
		}
	}
}

// ways returns the ports of a switch that begin a shortest path to the current home: those
// at full rate, if there are any.
func (u *updown) ways(s int32) []uint8 {
	full, slow := u.ports[0][:0], u.ports[1][:0]
	for _, h := range u.near[s] {
		below := u.Rank[h.node] < u.Rank[s]
		switch {
		case u.down[s] < unreached && (!below || u.down[h.node] != u.down[s]-1):
		case u.down[s] == unreached && (below || u.dist[h.node] != u.dist[s]-1):
		case h.slow:
			slow = append(slow, h.port)
		default:
			full = append(full, h.port)
		}
	}
	u.ports = [2][]uint8{full, slow}
	if len(full) > 0 {
		return full
	}
	return slow
}
