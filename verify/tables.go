package verify

import (
	"strings"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Tables checks invariant 3 of the forwarding tables on the fabric of t: every
// switch has a table; every LID in use is delivered from every switch that has
// an up-then-down path to it; an entry that exists leads to delivery and not at
// a dead port, path or no path; and the channel dependency graph of all LIDs
// and switches has no cycle. The error is a *Violation: the first one by LID,
// then by switch in order of GUID, an entry that is wrong by itself before
// those that lead to it; a deadlock comes last.
func Tables(t *topology.FatTree, tables *lft.Tables) error {
	n := newNetwork(t.Fabric, tables)
	if n.bare >= 0 {
		return violation(TableMissing, NoPhase, "switch %s has no table", &n.fabric.Nodes[n.nodes[n.bare]])
	}
	c := &delivery{network: n, must: n.upDown(t), waits: make([]uint64, n.switches()*ports*words),
		via: make([]channel, n.switches()), to: make([]place, n.switches())}
	for lid := range n.owner {
		if n.owner[lid] == nowhere || c.delivered(lid) {
			continue
		}
		if v := c.diagnose(lid); v != nil {
			return v
		}
	}
	if v := c.acyclic(); v != nil {
		return v
	}
	return nil
}

// delivery is the state of a check of tables.
type delivery struct {
	*network
	must  []bool    // [home][switch] an up-then-down path leads from the switch to the home
	waits []uint64  // [channel][words] bit q: some LID goes from the channel on to port q of the next switch
	via   []channel // [switch] of the LID at hand
	to    []place   // [switch] of the LID at hand
}

// upDown tells, as [home][switch], whether an up-then-down path over usable
// cables leads from a switch to a home. A switch is its own home.
func (n *network) upDown(t *topology.FatTree) []bool {
	count := n.switches()
	direct := make([]bool, count*count)
	var leaves []int32
	for i := range t.Leaves {
		leaf := &t.Leaves[i]
		if leaf.Node == topology.None {
			continue
		}
		l := n.switchOf[leaf.Node]
		leaves = append(leaves, l)
		for k, cable := range leaf.Cables {
			if spine := t.Spines[t.LaneOf[k]].Node; cable.Usable() && spine != topology.None {
				s := n.switchOf[spine]
				direct[int(l)*count+int(s)], direct[int(s)*count+int(l)] = true, true
			}
		}
	}
	must := append([]bool(nil), direct...)
	for i := range count {
		must[i*count+i] = true
	}
	for _, a := range leaves {
		for _, b := range leaves {
			for s := range count {
				if direct[int(a)*count+s] && direct[int(b)*count+s] {
					must[int(a)*count+int(b)] = true
					break
				}
			}
		}
	}
	return must
}

// delivered follows the LID from every switch over at most three channels, and
// records what waits for what. It is false when that does not settle the LID.
func (c *delivery) delivered(lid int) bool {
	goal, via, to := c.owner[lid], c.via, c.to
	for s := range via {
		ch := channel(s<<portBits) | channel(c.out[s][lid])
		via[s], to[s] = ch, c.next[ch]
	}
	must := c.must[int(c.home[lid])*len(to):][:len(to)]
	clean := true
	for s, n := range to {
		if n == goal {
			continue
		}
		if !c.isSwitch(n) {
			clean = clean && n == nowhere && via[s]&(ports-1) == channel(lft.NoPath) && !must[s]
			continue
		}
		m := to[n]
		if m == goal {
			continue
		}
		c.wait(via[s], via[n])
		clean = clean && c.isSwitch(m) && to[m] == goal
	}
	return clean
}

// diagnose follows a LID from every switch to its end, however long the way.
// It expects via and to as delivered left them.
func (c *delivery) diagnose(lid int) *Violation {
	goal := c.owner[lid]
	must := c.must[int(c.home[lid])*len(c.to):][:len(c.to)]
	for s, n := range c.to {
		switch {
		case c.missing(int32(s)):
			if must[s] {
				return violation(LIDMissing, NoPhase, "%s has no entry for %s: a path of usable cables exists", c.label(int32(s)), c.lidLabel(lid))
			}
		case n == nowhere:
			code, why := c.fault(c.via[s])
			return violation(code, NoPhase, "%s sends %s to a dead port: %s", c.label(int32(s)), c.lidLabel(lid), why)
		case n != goal && !c.isSwitch(n):
			return violation(Misdelivered, NoPhase, "%s delivers %s to %s by port %d", c.label(int32(s)), c.lidLabel(lid), c.placeLabel(n), c.via[s]&(ports-1))
		}
	}
	for s := range c.to {
		if c.missing(int32(s)) {
			continue
		}
		at := int32(s)
		for steps := 0; c.to[at] != goal; steps++ {
			at = c.to[at]
			switch {
			case c.missing(at):
				return violation(BlackHole, NoPhase, "%s from %s is lost: %s has no entry for it (%s)", c.lidLabel(lid), c.label(int32(s)), c.label(at), c.way(int32(s), at))
			case steps == len(c.to):
				return violation(Loop, NoPhase, "%s from %s never arrives: %s", c.lidLabel(lid), c.label(int32(s)), c.circle(int32(s)))
			}
		}
	}
	return nil
}

// missing tells whether switch s has no entry for the LID at hand.
func (c *delivery) missing(s int32) bool { return c.via[s]&(ports-1) == channel(lft.NoPath) }

// way names the ports that the LID at hand takes from a switch to another.
func (c *delivery) way(from, to int32) string {
	var b strings.Builder
	for at := from; at != to; at = c.to[at] {
		b.WriteString(c.portLabel(c.via[at]))
		b.WriteString(", ")
	}
	b.WriteString(c.label(to))
	return b.String()
}

// circle names the way of the LID at hand from a switch until it comes back to
// a switch where it has been.
func (c *delivery) circle(from int32) string {
	been := make([]bool, len(c.to))
	var b strings.Builder
	at := from
	for ; !been[at]; at = c.to[at] {
		been[at] = true
		b.WriteString(c.portLabel(c.via[at]))
		b.WriteString(", ")
	}
	b.WriteString("back at ")
	b.WriteString(c.label(at))
	return b.String()
}
