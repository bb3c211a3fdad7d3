package planner

import (
	"context"
	"slices"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/topology"
)

// This file plans exchanges that share leaves for base LIDs.

// baseOfShared plans for base LIDs if leaves are in several exchanges. The servers that are in
// the exchange of most servers of their leaf are planned as if there were no others. The
// others get lanes that carry little, and their transfers go into the earliest phases with
// room. If that is too long, or too many servers are of this kind, all servers are treated
// like these.
func (s Settings) baseOfShared(ctx context.Context, t *topology.FatTree) (*Schedule, error) {
	var first *Schedule
	var l *shared
	if core := coreOf(t); core != nil {
		var err error
		if first, err = s.planBase(ctx, core, nil); err != nil {
			return nil, err
		}
		l = newShared(t, core, first.pins)
	} else {
		pins, err := s.unplanned(t)
		if err != nil {
			return nil, err
		}
		l = newShared(t, t, pins)
	}
	l.place()
	var best *Schedule
	if first != nil {
		l.relieve()
		var err error
		if best, err = l.plan(ctx, first); err != nil || best.Plan.Phases <= best.least {
			return best, err
		}
	}
	l.fixed = nil
	l.relieve()
	base, err := l.plan(ctx, nil)
	if err == nil && best != nil && best.Plan.Phases <= base.Plan.Phases {
		base = best
	}
	return base, err
}

// plan plans on the tables with the lanes chosen, beginning with the transfers of a schedule.
func (l *shared) plan(ctx context.Context, first *Schedule) (*Schedule, error) {
	pins := *l.pins
	pins.Lane, pins.Down = slices.Clone(pins.Lane), slices.Clone(pins.Down)
	tables, _, err := route(ctx, l.tree, &pins)
	if err != nil {
		return nil, err
	}
	base, err := fitted(ctx, l.tree, 1, []*lft.Tables{tables}, first)
	if err == nil {
		base.pins = &pins
	}
	return base, err
}

// shared chooses lanes for base LIDs. A unit is what the servers of one leaf send to one of
// another leaf.
type shared struct {
	tree      *topology.FatTree
	exchanges int
	senders   []int // [leaf·exchanges + exchange] servers
	pins      *lft.Pins
	fixed     []bool // [leaf·servers + server] the lane is given
	up, down  []int  // [leaf·lanes + lane] transfers
}

// newShared takes the lanes of given pins, which are for some of the servers.
func newShared(t, core *topology.FatTree, given *lft.Pins) *shared {
	n, m := len(t.Servers), len(core.Servers)
	l := &shared{tree: t, exchanges: len(t.Exchanges), senders: make([]int, len(t.Leaves)*len(t.Exchanges)),
		pins:  &lft.Pins{LIDs: 1, Lane: slices.Repeat([]int16{int16(fors.Local)}, len(t.Leaves)*n)},
		fixed: make([]bool, len(t.Leaves)*n), up: make([]int, len(t.Leaves)*t.Lanes), down: make([]int, len(t.Leaves)*t.Lanes)}
	if given.Down != nil {
		l.pins.Down = slices.Repeat([]int16{int16(fors.Local)}, n*t.Lanes)
	}
	for _, i := range t.Servers {
		l.senders[t.Hosts[i].Leaf*l.exchanges+t.Hosts[i].Exchange]++
	}
	for c, i := range core.Servers {
		d, _ := slices.BinarySearch(t.Servers, i)
		if given.Down != nil {
			copy(l.pins.Down[d*t.Lanes:], given.Down[c*t.Lanes:][:t.Lanes])
		}
		for leaf := range t.Leaves {
			if k := given.Lane[leaf*m+c]; k >= 0 && l.size(leaf, d) > 0 {
				l.put(leaf, d, int(k), 1)
				l.fixed[leaf*n+d] = true
			}
		}
	}
	return l
}

func (l *shared) host(d int) *topology.Host { return &l.tree.Hosts[l.tree.Servers[d]] }

// size returns the transfers of a unit.
func (l *shared) size(leaf, d int) int {
	h := l.host(d)
	if leaf == h.Leaf {
		return 0
	}
	return l.senders[leaf*l.exchanges+h.Exchange]
}

// falls returns the lane by which traffic up by a lane comes down to a server.
func (l *shared) falls(d, lane int) int {
	if l.pins.Down != nil {
		if k := l.pins.Down[d*l.tree.Lanes+lane]; k >= 0 {
			return int(k)
		}
	}
	return lane
}

// put puts a unit on a lane, or takes it off if by is −1.
func (l *shared) put(leaf, d, lane, by int) {
	t, fall := l.tree, l.falls(d, lane)
	l.up[leaf*t.Lanes+lane] += by * l.size(leaf, d)
	l.down[l.host(d).Leaf*t.Lanes+fall] += by * l.size(leaf, d)
	l.pins.Lane[leaf*len(t.Servers)+d] = int16(lane)
	if l.pins.Down != nil {
		s := &t.Spines[t.LaneOf[lane]]
		for k := s.First; k < s.First+s.Cables; k++ {
			l.pins.Down[d*t.Lanes+k] = int16(fall)
		}
	}
}

// best returns the lane on which a unit finds the least load, −1 if none joins its ends.
func (l *shared) best(leaf, d int) (lane, load int) {
	t, to, lane := l.tree, l.host(d).Leaf, -1
	for k := range t.Lanes {
		fall := l.falls(d, k)
		if x := max(l.up[leaf*t.Lanes+k], l.down[to*t.Lanes+fall]); t.LaneUp(leaf, k) && t.LaneUp(to, fall) && (lane < 0 || x < load) {
			lane, load = k, x
		}
	}
	return lane, load
}

// eachFree calls do for each unit whose lane is free to choose: pinned plans may use the lane
// of a base LID by its number.
func (l *shared) eachFree(do func(leaf, d, lane int)) {
	t := l.tree
	for d := range t.Servers {
		h := l.host(d)
		for leaf := range t.Leaves {
			if l.size(leaf, d) == 0 {
				continue
			}
			lane := int(l.pins.Lane[leaf*len(t.Servers)+d])
			if own := t.LIDLane(h, 0); !h.Moved && t.LaneUp(leaf, own) && t.LaneUp(h.Leaf, own) {
				if lane < 0 {
					l.put(leaf, d, own, 1)
				}
				continue
			}
			do(leaf, d, lane)
		}
	}
}

// place gives lanes to the units that have none.
func (l *shared) place() {
	l.eachFree(func(leaf, d, lane int) {
		if lane < 0 {
			if k, _ := l.best(leaf, d); k >= 0 {
				l.put(leaf, d, k, 1)
			}
		}
	})
}

// relieve moves units off the fullest cables while that lowers their load.
func (l *shared) relieve() {
	for moved, most := true, 0; moved; {
		moved, most = false, max(slices.Max(l.up), slices.Max(l.down))
		l.eachFree(func(leaf, d, lane int) {
			t := l.tree
			if lane < 0 || l.fixed != nil && l.fixed[leaf*len(t.Servers)+d] || max(l.up[leaf*t.Lanes+lane], l.down[l.host(d).Leaf*t.Lanes+l.falls(d, lane)]) < most {
				return
			}
			l.put(leaf, d, lane, -1)
			k, load := l.best(leaf, d)
			if load+l.size(leaf, d) >= most {
				k = lane
			}
			l.put(leaf, d, k, 1)
			moved = moved || k != lane
		})
	}
}
