package verify

import (
	"fmt"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Idle in Rows.To is a server that does not send; Local in Rows.Lane is the
// lane of a transfer that stays on its leaf.
const (
	Idle  int32 = -1
	Local int16 = -1
)

// Rows is a plan as data. Each slice has Phases rows of one element a server,
// in the order of FatTree.Servers, indexed by source.
type Rows struct {
	Phases int
	To     []int32  // [phase][source] destination, Idle where the source does not send
	Lane   []int16  // [phase][source] Local for same-leaf transfers
	DLID   []ib.LID // [phase][source] destination LID
}

// NewRows returns rows in which every server idles.
func NewRows(servers, phases int) Rows {
	r := Rows{Phases: phases, To: make([]int32, servers*phases), Lane: make([]int16, servers*phases), DLID: make([]ib.LID, servers*phases)}
	for i := range r.To {
		r.To[i], r.Lane[i] = Idle, Local
	}
	return r
}

// Put adds a transfer between servers of t. A server that already sends in the
// phase gives a *Violation, so do a phase and servers out of range.
func (r *Rows) Put(t *topology.FatTree, phase, src, dst int, lane int16, dlid ib.LID) error {
	servers := len(t.Servers)
	switch {
	case phase < 0 || phase >= r.Phases:
		return violation(BadRows, phase, "the plan has %d phases", r.Phases)
	case src < 0 || src >= servers || dst < 0 || dst >= servers:
		return violation(BadRows, phase, "a transfer from server %d to server %d: there are %d servers", src, dst, servers)
	}
	i := phase*servers + src
	if old := r.To[i]; old != Idle {
		return violation(SendsTwice, phase, "%s sends to both %s and %s", serverLabel(t, int32(src)), serverLabel(t, old), serverLabel(t, int32(dst)))
	}
	r.To[i], r.Lane[i], r.DLID[i] = int32(dst), lane, dlid
	return nil
}

// Plan checks invariant 1 of a plan on the tables and the fabric of t: every
// ordered pair of servers of one exchange occurs exactly once or is in unreachable; a server
// receives from at most one other in a phase (rows already let it send to one
// only); a transfer's DLID is one of the destination's LIDs and leads over
// ports that are up to the destination, in two hops between switches over
// exactly the two cables of its lane, or within the leaf; a spine with several cables
// to the destination's leaf may have the LID down another one of them that is Full; and no
// directed link
// carries two transfers of one phase. A pair may be unreachable only where its
// leaves share no lane that is Full at both and that the destination has a LID
// for. The error is a *Violation: the first by phase, then source; unreachable
// pairs are checked before the phases, missing pairs after. A switch without a
// table matters only to a transfer that comes to it: a spine that has just
// returned harms no plan that leaves it out.
func Plan(t *topology.FatTree, tables *lft.Tables, r Rows, unreachable [][2]int32) error {
	c := newExchange(t, newNetwork(t.Fabric, tables), r)
	if v := c.run(unreachable); v != nil {
		return v
	}
	return nil
}

// server is a server's data for the walk.
type server struct {
	at   int32 // the switch of its leaf
	leaf int32
	end  place
	lid  int32 // its base LID
	lids int32 // how many LIDs it has
	slot int32 // of its base LID in exchange.arrives
}

// hop is a channel and where it leads.
type hop struct {
	by channel
	to place
}

var noHop = hop{-1, nowhere}

// hop is that over a port of a node that is a switch.
func (n *network) hop(node int32, port uint8) hop {
	by := n.switchOf[node]<<portBits | channel(port)
	return hop{by, n.next[by]}
}

// exchange is the state of a check of a plan.
type exchange struct {
	*network
	tree     *topology.FatTree
	rows     Rows
	servers  []server
	up, down []hop   // [leaf][lane] over a Full cable up to the spine and down from it; by −1 and to nowhere otherwise
	several  bool    // a spine has several cables to a leaf
	arrives  []int16 // [slot of a destination's LID] the lane, plus one, by which it is known to arrive from the spine on
	received []int32 // [server] the last phase in which it received, plus one
	taken    []int32 // [channel] the last phase in which a transfer took it, plus one
	seen     pairs
}

func newExchange(t *topology.FatTree, n *network, r Rows) *exchange {
	count := len(t.Servers)
	c := &exchange{network: n, tree: t, rows: r, servers: make([]server, count), received: make([]int32, count),
		taken: make([]int32, len(n.next)), seen: newPairs(count)}
	slots := int32(0)
	for i, h := range t.Servers {
		host := &t.Hosts[h]
		c.servers[i] = server{at: n.switchOf[host.At.Node], leaf: int32(host.Leaf), end: n.firstEnd[host.Node] + place(host.Port),
			lid: int32(host.LID), lids: 1 << host.LMC, slot: slots}
		slots += 1 << host.LMC
	}
	c.seen.others(&t.Common)
	c.arrives, c.several = make([]int16, slots), t.Lanes > len(t.Spines)
	c.up, c.down = make([]hop, len(t.Leaves)*t.Lanes), make([]hop, len(t.Leaves)*t.Lanes)
	for l := range t.Leaves {
		for k, cable := range t.Leaves[l].Cables {
			i := l*t.Lanes + k
			c.up[i], c.down[i] = noHop, noHop
			if cable.State == topology.Full {
				c.up[i] = n.hop(t.Leaves[l].Node, cable.LeafPort)
				c.down[i] = n.hop(t.Spines[t.LaneOf[k]].Node, cable.SpinePort)
			}
		}
	}
	return c
}

func (c *exchange) run(unreachable [][2]int32) *Violation {
	if v := c.malformed(); v != nil {
		return v
	}
	for _, pair := range unreachable {
		if v := c.checkUnreachable(pair); v != nil {
			return v
		}
	}
	for ph := range c.rows.Phases {
		if s := c.phase(ph); s >= 0 {
			return c.diagnose(ph, s, unreachable)
		}
	}
	if s, d, ok := c.seen.missing(); ok {
		return violation(PairMissing, NoPhase, "%s is in no phase", c.pairLabel(s, d))
	}
	return nil
}

// phase checks one row and returns the first source whose transfer is wrong, or −1. The
// links between a server and its leaf need no mark: the server sends and receives once. It
// reads locals: through c, everything would be loaded again after every mark.
func (c *exchange) phase(ph int) int {
	count, mark := len(c.servers), int32(ph+1)
	to, lane, dlid := c.rows.To[ph*count:][:count], c.rows.Lane[ph*count:][:count], c.rows.DLID[ph*count:][:count]
	servers, received, taken, arrives, out := c.servers, c.received[:count], c.taken, c.arrives, c.out
	up, down, lanes := c.up, c.down, c.tree.Lanes
	for s, d := range to {
		if d == Idle {
			continue
		}
		if uint(d) >= uint(count) || int(d) == s {
			return s
		}
		src, dst := &servers[s], &servers[d]
		lid := int(dlid[s])
		if received[d] == mark || uint32(int32(lid)-dst.lid) >= uint32(dst.lids) {
			return s
		}
		received[d] = mark
		if !c.seen.see(int32(s), d) {
			return s
		}
		a := src.at<<portBits | channel(out[src.at][lid])
		if src.leaf == dst.leaf {
			if lane[s] != Local || int32(lid) != dst.lid || c.next[a] != dst.end {
				return s
			}
			continue
		}
		k := int(lane[s])
		if uint(k) >= uint(lanes) {
			return s
		}
		j := k
		if c.several {
			j = c.fall(int(dst.leaf), k, lid)
		}
		rise, fall := &up[int(src.leaf)*lanes+k], &down[int(dst.leaf)*lanes+j]
		if a != rise.by || *fall == noHop || rise.to != fall.by>>portBits {
			return s
		}
		if known := &arrives[dst.slot+int32(lid)-dst.lid]; *known != int16(j)+1 {
			if !c.arrivesBy(fall, lid, dst.end) {
				return s
			}
			*known = int16(j) + 1
		}
		b := fall.by
		if taken[a] == mark || taken[b] == mark {
			return s
		}
		taken[a], taken[b] = mark, mark
	}
	return -1
}

// fall returns the lane, of those of lane k's spine, by which the spine's table forwards a
// LID to a leaf over a Full cable; k itself if none.
func (c *exchange) fall(leaf, k, lid int) int {
	for j, spine := range c.tree.LaneOf {
		if h := &c.down[leaf*c.tree.Lanes+j]; spine == c.tree.LaneOf[k] && h.by >= 0 && c.through(h.by>>portBits, lid) == h.by {
			return j
		}
	}
	return k
}

// arrivesBy reports whether a spine forwards a LID by its hop down, and the leaf there to
// an end port.
func (c *exchange) arrivesBy(down *hop, lid int, end place) bool {
	return c.through(down.by>>portBits, lid) == down.by && c.isSwitch(down.to) && c.next[c.through(down.to, lid)] == end
}

// checkUnreachable checks the claim that a pair has no path, and marks the pair as seen.
func (c *exchange) checkUnreachable(pair [2]int32) *Violation {
	count := len(c.servers)
	for _, s := range pair {
		if s < 0 || int(s) >= count {
			return violation(BadRows, NoPhase, "the unreachable pair of servers %d and %d: there are %d servers", pair[0], pair[1], count)
		}
	}
	src, dst := &c.servers[pair[0]], &c.servers[pair[1]]
	if src.leaf == dst.leaf {
		return violation(NotUnreachable, NoPhase, "%s is called unreachable: both are on leaf %s", c.pairLabel(pair[0], pair[1]), c.label(src.at))
	}
	for k := range c.tree.Lanes {
		if c.open(pair[0], pair[1], k) {
			return violation(NotUnreachable, NoPhase, "%s is called unreachable: lane %d is up at both leaves, %s and %s",
				c.pairLabel(pair[0], pair[1]), k, c.label(src.at), c.label(dst.at))
		}
	}
	if !c.seen.see(pair[0], pair[1]) {
		return violation(PairTwice, NoPhase, "%s is called unreachable twice", c.pairLabel(pair[0], pair[1]))
	}
	return nil
}

// open reports whether a lane joins two servers: Full at both leaves, and the destination
// has a LID for it. LID base+j travels lane (j + α + first) mod K.
func (c *exchange) open(s, d int32, lane int) bool {
	src, dst, lanes := &c.servers[s], &c.servers[d], c.tree.Lanes
	host := &c.tree.Hosts[c.tree.Servers[d]]
	first := ((lane-host.Alpha-host.First)%lanes + lanes) % lanes
	return c.up[int(src.leaf)*lanes+lane] != noHop && c.up[int(dst.leaf)*lanes+lane] != noHop && first < int(dst.lids)
}

// serverLabel names a server by its port.
func serverLabel(t *topology.FatTree, s int32) string {
	return t.Fabric.PortLabel(t.Hosts[t.Servers[s]].PortRef)
}

func (c *exchange) pairLabel(s, d int32) string {
	return fmt.Sprintf("%s → %s", serverLabel(c.tree, s), serverLabel(c.tree, d))
}
