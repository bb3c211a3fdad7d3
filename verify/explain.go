package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// diagnose finds the fault of the transfer that phase rejected.
func (c *exchange) diagnose(ph, s int, unreachable [][2]int32) *Violation {
	count := len(c.servers)
	d := c.rows.To[ph*count+s]
	if d < 0 || int(d) >= count || int(d) == s {
		return violation(BadRows, ph, "%s sends to server %d: want another one of %d, or %d", serverLabel(c.tree, int32(s)), d, count, Idle)
	}
	if v := c.receivesOnce(ph, s); v != nil {
		return v
	}
	if slices.Contains(unreachable, [2]int32{int32(s), d}) {
		return violation(NotUnreachable, ph, "%s is called unreachable and has a transfer", c.pairLabel(int32(s), d))
	}
	if !c.tree.Together(s, int(d)) {
		return violation(PairForeign, ph, "%s: the two are in different exchanges", c.pairLabel(int32(s), d))
	}
	for before := range ph {
		if c.rows.To[before*count+s] == d {
			return violation(PairTwice, ph, "%s has had its transfer in phase %d", c.pairLabel(int32(s), d), before)
		}
	}
	for _, check := range []func(ph, s int) *Violation{c.ownLID, c.arrival, c.lane, c.freeLinks} {
		if v := check(ph, s); v != nil {
			return v
		}
	}
	return violation(BadRows, ph, "%s is not as it should be", c.pairLabel(int32(s), d))
}

// transfer returns the destination, lane and LID of a source in a phase.
func (c *exchange) transfer(ph, s int) (d int32, lane, lid int) {
	i := ph*len(c.servers) + s
	return c.rows.To[i], int(c.rows.Lane[i]), int(c.rows.DLID[i])
}

// name describes a transfer: "Hca0003 port 1 → Hca0017 port 1 by LID 417".
func (c *exchange) name(ph, s int) string {
	d, _, lid := c.transfer(ph, s)
	return fmt.Sprintf("%s by LID %d", c.pairLabel(int32(s), d), lid)
}

func (c *exchange) receivesOnce(ph, s int) *Violation {
	d, _, _ := c.transfer(ph, s)
	for other := range s {
		if o, _, _ := c.transfer(ph, other); o == d {
			return violation(ReceivesTwice, ph, "%s receives from both %s and %s", serverLabel(c.tree, d), serverLabel(c.tree, int32(other)), serverLabel(c.tree, int32(s)))
		}
	}
	return nil
}

// ownLID checks that the DLID is one of the destination's.
func (c *exchange) ownLID(ph, s int) *Violation {
	d, _, lid := c.transfer(ph, s)
	first := int(c.servers[d].lid)
	last := first + int(c.servers[d].lids) - 1
	if lid < first || lid > last {
		return violation(WrongDLID, ph, "%s: the LIDs of %s are %d–%d", c.name(ph, s), serverLabel(c.tree, d), first, last)
	}
	return nil
}

// walk lists the channels of a transfer, from the source's leaf to where it
// ends or comes to a switch for the second time.
func (c *exchange) walk(at int32, lid int) (way []channel, last place) {
	been := make([]bool, c.switches())
	for last = at; c.isSwitch(last) && !been[last]; {
		been[last] = true
		way = append(way, c.through(last, lid))
		last = c.next[way[len(way)-1]]
	}
	return way, last
}

// wayLabel names the channels of a walk.
func (c *exchange) wayLabel(way []channel) string {
	names := make([]string, len(way))
	for i, ch := range way {
		names[i] = c.portLabel(ch)
	}
	return strings.Join(names, ", ")
}

// arrival checks that the transfer ends at its destination.
func (c *exchange) arrival(ph, s int) *Violation {
	d, _, lid := c.transfer(ph, s)
	way, last := c.walk(c.servers[s].at, lid)
	end := way[len(way)-1]
	switch {
	case last == c.servers[d].end:
		return nil
	case last == nowhere && end&(ports-1) == channel(lft.NoPath):
		return violation(NoEntry, ph, "%s is lost: %s has no entry for it", c.name(ph, s), c.label(end>>portBits))
	case last == nowhere:
		code, why := c.fault(end)
		return violation(code, ph, "%s is lost: %s", c.name(ph, s), why)
	case c.isSwitch(last):
		return violation(Loop, ph, "%s never arrives: %s, back at %s", c.name(ph, s), c.wayLabel(way), c.label(last))
	}
	return violation(WrongDestination, ph, "%s ends at %s (%s)", c.name(ph, s), c.placeLabel(last), c.wayLabel(way))
}

// lane checks that the transfer takes the cables of its lane.
func (c *exchange) lane(ph, s int) *Violation {
	d, lane, lid := c.transfer(ph, s)
	src, dst := &c.servers[s], &c.servers[d]
	way, _ := c.walk(src.at, lid)
	if src.leaf == dst.leaf {
		switch {
		case lane != int(Local):
			return violation(NotLocal, ph, "%s stays on leaf %s and has lane %d: want %d", c.name(ph, s), c.label(src.at), lane, Local)
		case lid != int(dst.lid):
			return violation(WrongDLID, ph, "%s stays on leaf %s: want the base LID %d", c.name(ph, s), c.label(src.at), dst.lid)
		}
		return violation(WrongLane, ph, "%s leaves the leaf that both are on: %s", c.name(ph, s), c.wayLabel(way))
	}
	lanes := c.tree.Lanes
	if lane < 0 || lane >= lanes {
		return violation(NotLocal, ph, "%s goes from leaf %s to leaf %s and has lane %d: want 0 to %d", c.name(ph, s), c.label(src.at), c.label(dst.at), lane, lanes-1)
	}
	rise, fall := c.up[int(src.leaf)*lanes+lane], c.down[int(dst.leaf)*lanes+c.fall(int(dst.leaf), lane, lid)]
	for _, end := range [...]struct {
		hop
		at int32
	}{{rise, src.at}, {fall, dst.at}} {
		if end.hop == noHop {
			return violation(LaneDown, ph, "%s has lane %d, which is not up at full rate at leaf %s", c.name(ph, s), lane, c.label(end.at))
		}
	}
	up, down := rise.by, fall.by
	if len(way) != 3 || way[0] != up || way[1] != down {
		return violation(WrongLane, ph, "%s has lane %d, which is %s, then %s: the tables lead over %s", c.name(ph, s), lane, c.portLabel(up), c.portLabel(down), c.wayLabel(way))
	}
	return nil
}

// freeLinks finds the transfer that already has one of the links.
func (c *exchange) freeLinks(ph, s int) *Violation {
	_, _, lid := c.transfer(ph, s)
	way, _ := c.walk(c.servers[s].at, lid)
	for other := range s {
		d, _, lid := c.transfer(ph, other)
		if d == Idle {
			continue
		}
		taken, _ := c.walk(c.servers[other].at, lid)
		for _, ch := range way {
			if slices.Contains(taken, ch) {
				cable := c.fabric.CableLabel(topology.PortRef{Node: c.nodes[ch>>portBits], Port: uint8(ch)})
				return violation(LinkTwice, ph, "the link %s carries both %s and %s", cable, c.name(ph, other), c.name(ph, s))
			}
		}
	}
	return nil
}
