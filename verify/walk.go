package verify

import (
	"fmt"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Walk checks the phases of a plan one after the other, on a fabric of any shape, and
// keeps of them only which pairs it has seen: a bit for each. It follows every transfer by
// its DLID from switch to switch through the tables.
type Walk struct {
	*network
	servers []topology.EndPort
	end     []place  // [server]
	at      []int32  // [server] the switch that it is cabled to
	seen    []uint64 // set of ordered pairs, source first
	pairs   int
	phase   int
	taken   []int32 // [channel] the last phase in which a transfer took it, plus one
	busy    []int32 // [server] the last phase in which it received, plus one
	sent    []int32 // [server] the last phase in which it sent, plus one
}

// Transfer is what one server sends to another in a phase; servers are numbered as given
// to NewWalk.
type Transfer struct {
	Src, Dst int32
	DLID     topology.LID
}

// mostSwitches bounds a path.
const mostSwitches = 64

// NewWalk begins to check a plan on tables. Every server is an end port with a cable to a
// switch.
func NewWalk(f *topology.Fabric, tables *lft.Tables, servers []topology.EndPort) (*Walk, error) {
	n := newNetwork(f, tables)
	w := &Walk{network: n, servers: servers, seen: make([]uint64, (len(servers)*len(servers)+63)/64), taken: make([]int32, len(n.next)),
		busy: make([]int32, len(servers)), sent: make([]int32, len(servers))}
	for _, s := range servers {
		port := f.At(s.PortRef)
		if !port.Up() || n.switchOf[port.Peer] < 0 {
			return nil, violation(BadRows, NoPhase, "%s has no cable to a switch", f.PortLabel(s.PortRef))
		}
		w.end = append(w.end, n.firstEnd[s.Node]+place(s.Port))
		w.at = append(w.at, n.switchOf[port.Peer])
	}
	return w, nil
}

// Phase checks the next phase. The error is a *Violation.
func (w *Walk) Phase(transfers []Transfer) error {
	mark := int32(w.phase + 1)
	for _, t := range transfers {
		if v := w.follow(t, mark); v != nil {
			return v
		}
	}
	w.phase++
	return nil
}

func (w *Walk) follow(t Transfer, mark int32) *Violation {
	n := int32(len(w.servers))
	if t.Src < 0 || t.Src >= n || t.Dst < 0 || t.Dst >= n || t.Src == t.Dst {
		return violation(BadRows, w.phase, "a transfer from server %d to server %d: there are %d servers", t.Src, t.Dst, n)
	}
	if w.sent[t.Src] == mark {
		return violation(SendsTwice, w.phase, "%s sends twice", w.name(t.Src))
	}
	if w.busy[t.Dst] == mark {
		return violation(ReceivesTwice, w.phase, "%s receives twice", w.name(t.Dst))
	}
	w.sent[t.Src], w.busy[t.Dst] = mark, mark
	bit := int(t.Src)*int(n) + int(t.Dst)
	if w.seen[bit>>6]>>(bit&63)&1 != 0 {
		return violation(PairTwice, w.phase, "%s occurs again", w.pair(t.Src, t.Dst))
	}
	w.seen[bit>>6] |= 1 << (bit & 63)
	w.pairs++
	lid := int(t.DLID)
	if d := &w.servers[t.Dst]; lid < int(d.LID) || lid >= int(d.LID)+1<<d.LMC || lid >= len(w.owner) {
		return violation(WrongDLID, w.phase, "%s has DLID %d, which is none of the destination's", w.pair(t.Src, t.Dst), lid)
	}
	at, goal := w.at[t.Src], w.end[t.Dst]
	for steps := 0; ; steps++ {
		c := w.through(at, lid)
		to := w.next[c]
		switch {
		case to == goal:
			return nil
		case steps == mostSwitches:
			return violation(Loop, w.phase, "%s by LID %d goes over more than %d switches", w.pair(t.Src, t.Dst), lid, mostSwitches)
		case c&(ports-1) == channel(lft.NoPath):
			return violation(NoEntry, w.phase, "%s: %s has no entry for LID %d", w.pair(t.Src, t.Dst), w.label(at), lid)
		case to == nowhere:
			_, why := w.fault(c)
			return violation(DownPort, w.phase, "%s by LID %d: %s", w.pair(t.Src, t.Dst), lid, why)
		case !w.isSwitch(to):
			return violation(WrongDestination, w.phase, "%s by LID %d comes to %s", w.pair(t.Src, t.Dst), lid, w.placeLabel(to))
		case w.taken[c] == mark:
			return violation(LinkTwice, w.phase, "%s by LID %d takes %s, as another transfer does", w.pair(t.Src, t.Dst), lid, w.portLabel(c))
		}
		w.taken[c] = mark
		at = to
	}
}

// Done checks that every ordered pair has occurred once, or is called unreachable and has
// no way in the tree over cables that are up at full rate.
func (w *Walk) Done(t *topology.PodTree, unreachable [][2]int32) error {
	n := len(w.servers)
	for _, u := range unreachable {
		bit := int(u[0])*n + int(u[1])
		if w.seen[bit>>6]>>(bit&63)&1 != 0 {
			return violation(PairTwice, NoPhase, "%s is called unreachable, and occurs or is called so twice", w.pair(u[0], u[1]))
		}
		a, b := w.leaf(t, u[0]), w.leaf(t, u[1])
		if a == nil || b == nil || a == b || wayBetween(t, a, b) {
			return violation(NotUnreachable, NoPhase, "%s is called unreachable, and has a way", w.pair(u[0], u[1]))
		}
		w.seen[bit>>6] |= 1 << (bit & 63)
		w.pairs++
	}
	if w.pairs == n*(n-1) {
		return nil
	}
	for s := range n {
		for d := range n {
			if bit := s*n + d; s != d && w.seen[bit>>6]>>(bit&63)&1 == 0 {
				return violation(PairMissing, NoPhase, "%s is in no phase", w.pair(int32(s), int32(d)))
			}
		}
	}
	return nil
}

// leaf is the leaf of a server.
func (w *Walk) leaf(t *topology.PodTree, s int32) *topology.PodLeaf {
	for l := range t.Leaves {
		if t.Leaves[l].Node == w.nodes[w.at[s]] {
			return &t.Leaves[l]
		}
	}
	return nil
}

// wayBetween tells whether a plane joins two leaves.
func wayBetween(t *topology.PodTree, a, b *topology.PodLeaf) bool {
	for j := range t.Planes {
		if a.Cables[j].State != topology.Full || b.Cables[j].State != topology.Full {
			continue
		}
		if a.Pod == b.Pod {
			return true
		}
		for k := range t.Lanes {
			if t.Lanes[k].Plane == j && t.LaneUp(a.Pod, k) && t.LaneUp(b.Pod, k) {
				return true
			}
		}
	}
	return false
}

func (w *Walk) name(s int32) string { return w.fabric.PortLabel(w.servers[s].PortRef) }

func (w *Walk) pair(s, d int32) string { return fmt.Sprintf("%s → %s", w.name(s), w.name(d)) }
