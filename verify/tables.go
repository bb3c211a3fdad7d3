package verify

import (
	"cmp"
	"runtime"
	"slices"
	"strings"

	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// Tables checks invariant 3 of the forwarding tables on the fabric of t: every switch has a
// table; every LID in use is delivered from every switch that has an up-then-down path to
// it, by the ranks of topology.FatTree, inside and outside the tree; every entry leads to
// delivery and not to a dead port, even without such a path; and the channel dependency
// graph of all LIDs and switches has no cycle. The error is a *Violation: the first one by
// LID, then by switch in order of GUID, an entry that is wrong by itself before those that
// lead to it; a deadlock comes last.
func Tables(t *topology.FatTree, tables *lft.Tables) error {
	return TablesByRank(t.Fabric, t.Rank, tables)
}

// TablesByRank is Tables for a fabric whose switches have such ranks, [node].
func TablesByRank(f *topology.Fabric, rank []int32, tables *lft.Tables) error {
	n := newNetwork(f, tables)
	if n.bare >= 0 {
		return violation(TableMissing, NoPhase, "switch %s has no table", &n.fabric.Nodes[n.nodes[n.bare]])
	}
	must := n.upDown(rank)
	parts := make([]*delivery, runtime.GOMAXPROCS(0))
	err := parallel.All(len(n.owner)/lidChunk+1, len(parts), func(number int) func(int) error {
		c := &delivery{network: n, must: must, waits: make([]uint64, n.switches()*ports*words),
			via: make([]channel, n.switches()), to: make([]place, n.switches())}
		parts[number] = c
		return func(i int) error {
			for lid := i * lidChunk; lid < min(len(n.owner), (i+1)*lidChunk); lid++ {
				if n.owner[lid] == nowhere || c.delivered(lid) {
					continue
				}
				if v := c.diagnose(lid); v != nil {
					return v
				}
			}
			return nil
		}
	})
	if err != nil || parts[0] == nil {
		return err
	}
	for _, c := range parts[1:] {
		for i := range parts[0].waits {
			if c != nil {
				parts[0].waits[i] |= c.waits[i]
			}
		}
	}
	if v := parts[0].acyclic(); v != nil {
		return v
	}
	return nil
}

// lidChunk is how many LIDs a goroutine checks in a row.
const lidChunk = 256

// delivery is the state of a check of tables.
type delivery struct {
	*network
	must  []bool    // [home][switch] an up-then-down path leads from the switch to the home
	waits []uint64  // [channel][words] bit q: some LID goes from the channel on to port q of the next switch
	via   []channel // [switch] of the LID at hand
	to    []place   // [switch] of the LID at hand
}

// upDown returns, as [home][switch], whether a path that goes up by rank and then down,
// over cables that are up at both ends, leads from a switch to a home. A switch is its own
// home.
func (n *network) upDown(rank []int32) []bool {
	count := n.switches()
	above := make([][]int32, count)
	order := make([]int32, count) // ascending by rank
	for s, node := range n.nodes {
		order[s] = int32(s)
		for p := range n.fabric.Nodes[node].Ports {
			port := &n.fabric.Nodes[node].Ports[p]
			if !port.Up() || p == int(lft.NoPath) || port.PeerPort == lft.NoPath {
				continue
			}
			far := n.switchOf[port.Peer]
			if far >= 0 && rank[port.Peer] > rank[node] && n.fabric.Nodes[port.Peer].Ports[port.PeerPort].Up() {
				above[s] = append(above[s], far)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(rank[n.nodes[a]], rank[n.nodes[b]]) })
	must := make([]bool, count*count)
	_ = parallel.All(count, runtime.GOMAXPROCS(0), func(int) func(int) error { // no step fails
		return func(home int) error {
			row := must[home*count:][:count]
			row[home] = true
			for _, s := range order { // ways down, from their ends
				if row[s] {
					for _, u := range above[s] {
						row[u] = true
					}
				}
			}
			for i := count - 1; i >= 0; i-- { // ways up to where they begin
				for _, u := range above[order[i]] {
					row[order[i]] = row[order[i]] || row[u]
				}
			}
			return nil
		}
	})
	return must
}

// farthest is how many switches the ways of a tree pass after the first, at three levels.
const farthest = 4

// delivered follows the LID from every switch past at most so many others, and records
// which channels wait for which. It returns false if that does not decide the LID.
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
		for range farthest - 1 {
			if m == goal || !c.isSwitch(m) {
				break
			}
			m = to[m]
		}
		clean = clean && m == goal
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

// missing reports whether switch s has no entry for the LID at hand.
func (c *delivery) missing(s int32) bool { return c.via[s]&(ports-1) == channel(lft.NoPath) }

// way names the ports that the current LID takes from a switch to another.
func (c *delivery) way(from, to int32) string {
	var b strings.Builder
	for at := from; at != to; at = c.to[at] {
		b.WriteString(c.portLabel(c.via[at]))
		b.WriteString(", ")
	}
	b.WriteString(c.label(to))
	return b.String()
}

// circle names the path of the current LID from a switch until it returns to a switch on
// it.
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
