package main

import (
	"fmt"
	"slices"

	"github.com/forsd/forsd/topology"
)

// fault is the fault of a cable.
type fault uint8

const (
	none fault = iota
	pulled
	miswired // its ends are plugged elsewhere
	slow     // it runs at a lower width
)

// world is the fabric as it should be after the events so far.
type world struct {
	tree   *topology.FatTree // healthy
	cables [][]fault         // [leaf][lane]
	leaves []bool            // [leaf] off
	spines []bool            // [spine] off
	hosts  []bool            // [host] pulled
	cross  []place           // the two leaf ports whose cables are swapped, or nil
	drains []string          // parts that an operator has taken out, as they were ordered
	bad    []place           // cables whose errors have them isolated, by the leaf's port
	leases int               // jobs that were made so far
	keep   []int             // leaves that hold a manager: they stay
}

func newWorld(tree *topology.FatTree, keep ...int) *world {
	w := &world{tree: tree, leaves: make([]bool, len(tree.Leaves)), spines: make([]bool, len(tree.Spines)),
		hosts: make([]bool, len(tree.Hosts)), keep: keep}
	for range tree.Leaves {
		w.cables = append(w.cables, make([]fault, tree.Lanes))
	}
	return w
}

// port is a leaf's port to a lane.
func (w *world) port(leaf, lane int) place {
	l := &w.tree.Leaves[leaf]
	return place{l.Name, int(l.Cables[lane].LeafPort)}
}

// far is the spine's port of the same cable.
func (w *world) far(leaf, lane int) place {
	l := &w.tree.Leaves[leaf]
	at := w.tree.Fabric.At(topology.PortRef{Node: l.Node, Port: l.Cables[lane].LeafPort})
	return place{w.tree.Fabric.Nodes[at.Peer].Name, int(at.PeerPort)}
}

// seat is a host's port of its leaf.
func (w *world) seat(host int) place {
	h := &w.tree.Hosts[host]
	return place{w.tree.Leaves[h.Leaf].Name, int(h.At.Port)}
}

// cable finds the cable at a leaf's port.
func (w *world) cable(p place) (leaf, lane int, err error) {
	for l := range w.tree.Leaves {
		for k := range w.tree.Lanes {
			if w.port(l, k) == p {
				return l, k, nil
			}
		}
	}
	return 0, 0, fmt.Errorf("no cable at %v", p)
}

// good reports whether a lane's own cable carries data at its full rate.
func (w *world) good(leaf, lane int) bool {
	return w.cables[leaf][lane] == none && w.plugged(leaf, lane)
}

// free reports whether a lane is good and not held.
func (w *world) free(leaf, lane int) bool { return w.good(leaf, lane) && !w.held(leaf, lane) }

// held reports whether a lane is kept out of the plan by decision: it is drained, whichever
// cable it has, or its own cable is isolated.
func (w *world) held(leaf, lane int) bool {
	at := w.port(leaf, lane)
	return w.out(leaf) || slices.Contains(w.bad, at) && !w.twin(leaf, lane) || slices.Contains(w.drains, at.String()) ||
		slices.Contains(w.drains, w.tree.Spines[w.tree.LaneOf[lane]].Name)
}

// out reports whether a leaf is drained, and its hosts with it.
func (w *world) out(leaf int) bool { return slices.Contains(w.drains, w.tree.Leaves[leaf].Name) }

// joins reports whether a lane is there, at any rate: by its own cable, or by one that is
// miswired and joins the same leaf and spine, which is as good.
func (w *world) joins(leaf, lane int) bool {
	return w.plugged(leaf, lane) && w.cables[leaf][lane] != miswired || w.twin(leaf, lane)
}

// plans reports whether plans may use a lane.
func (w *world) plans(leaf, lane int) bool {
	return (w.good(leaf, lane) || w.twin(leaf, lane)) && !w.held(leaf, lane)
}

// twin reports whether a miswired cable joins the leaf to the spine of a lane and has the lane
// because its own cable is not in its ports.
func (w *world) twin(leaf, lane int) bool {
	if w.cross == nil || w.plugged(leaf, lane) && w.cables[leaf][lane] != miswired {
		return false
	}
	for i, p := range w.cross {
		l, _, err := w.cable(p)
		_, k, err2 := w.cable(w.cross[1-i])
		if err == nil && err2 == nil && l == leaf && w.tree.LaneOf[k] == w.tree.LaneOf[lane] {
			return true
		}
	}
	return false
}

// plugged reports whether a cable is in its ports, at any rate.
func (w *world) plugged(leaf, lane int) bool {
	return w.cables[leaf][lane] != pulled && !w.leaves[leaf] && !w.spines[w.tree.LaneOf[lane]]
}

// whole reports whether enough is left: every two leaves that are there share a lane, every two
// that are not drained share one that plans may use, and no such leaf has lost more than half of
// its lanes.
func (w *world) whole() bool {
	for a := range w.leaves {
		left := 0
		for k := range w.tree.Lanes {
			if w.plans(a, k) {
				left++
			}
		}
		if !w.leaves[a] && !w.out(a) && 2*left < w.tree.Lanes {
			return false
		}
		for b := range a {
			switch {
			case w.leaves[a] || w.leaves[b]:
			case !w.share(a, b, w.joins), !w.out(a) && !w.out(b) && !w.share(a, b, w.plans):
				return false
			}
		}
	}
	return true
}

func (w *world) share(a, b int, is func(leaf, lane int) bool) bool {
	for k := range w.tree.Lanes {
		if is(a, k) && is(b, k) {
			return true
		}
	}
	return false
}

// states has, for each change of a cable, the state before and the state after.
var states = map[string][2]fault{"pull": {none, pulled}, "plug": {pulled, none}, "slow": {none, slow}, "fast": {slow, none}}

// take changes the world by an event, and refuses one that does not fit it. It returns the
// ports whose cables are pulled or put back.
func (w *world) take(e event) (ports []place, err error) {
	switch e.Change {
	case "", "flap":
		return nil, nil
	case "spine-off", "spine-on", "leaf-off", "leaf-on":
		return w.turn(e)
	case "host-pull", "host-plug":
		return w.takeHost(e)
	case "miswire", "rewire":
		return nil, w.takeWires(e)
	case "drain", "drain-for", "undrain", "errors", "release", "lease":
		return nil, w.takeOrder(e)
	}
	change, known := states[e.Change]
	if !known || len(e.Where) == 0 {
		return nil, fmt.Errorf("event %q: there is no such change", e)
	}
	for _, text := range e.Where {
		p, err := parsePlace(text)
		if err != nil {
			return nil, err
		}
		leaf, lane, err := w.cable(p)
		if err != nil {
			return nil, err
		}
		if w.cables[leaf][lane] != change[0] || !w.plugged(leaf, lane) && e.Change != "plug" {
			return nil, fmt.Errorf("event %q: the cable at %v is not in the state for that", e, p)
		}
		w.cables[leaf][lane] = change[1]
		if !w.leaves[leaf] && !w.spines[w.tree.LaneOf[lane]] {
			ports = append(ports, p)
		}
	}
	return ports, nil
}

// turn switches a leaf or a spine off or on.
func (w *world) turn(e event) (ports []place, err error) {
	if len(e.Where) != 1 {
		return nil, fmt.Errorf("event %q: want one switch", e)
	}
	name := e.Where[0]
	s := slices.IndexFunc(w.tree.Spines, func(s topology.Spine) bool { return s.Name == name })
	l := slices.IndexFunc(w.tree.Leaves, func(l topology.Leaf) bool { return l.Name == name })
	off := e.Change == "spine-off" || e.Change == "leaf-off"
	if w.cross != nil {
		return nil, fmt.Errorf("event %q: cables are miswired", e)
	}
	add := func() {
		for leaf := range w.leaves {
			for lane := range w.tree.Lanes {
				if (leaf == l || w.tree.LaneOf[lane] == s) && w.plugged(leaf, lane) {
					ports = append(ports, w.port(leaf, lane))
				}
			}
		}
		for h := range w.hosts {
			if w.tree.Hosts[h].Leaf == l && !w.hosts[h] && l >= 0 && !w.leaves[l] {
				ports = append(ports, w.seat(h))
			}
		}
	}
	if off {
		add()
	}
	switch {
	case s >= 0 && w.spines[s] != off:
		w.spines[s] = off
	case l >= 0 && w.leaves[l] != off && !slices.Contains(w.keep, l):
		w.leaves[l] = off
	default:
		return nil, fmt.Errorf("event %q: the switch is not in the state for that", e)
	}
	if !off {
		add()
	}
	return ports, nil
}

// takeHost pulls a host's cable or puts it back.
func (w *world) takeHost(e event) ([]place, error) {
	off := e.Change == "host-pull"
	for h := range w.hosts {
		if p := w.seat(h); len(e.Where) == 1 && p.String() == e.Where[0] {
			if w.hosts[h] == off || w.leaves[w.tree.Hosts[h].Leaf] {
				break
			}
			w.hosts[h] = off
			return []place{p}, nil
		}
	}
	return nil, fmt.Errorf("event %q: the host is not in the state for that", e)
}

// takeWires swaps two cables, or puts them right.
func (w *world) takeWires(e event) error {
	if e.Change == "rewire" {
		if w.cross == nil {
			return fmt.Errorf("event %q: nothing is miswired", e)
		}
		for _, p := range w.cross {
			leaf, lane, err := w.cable(p)
			if err != nil {
				return err
			}
			w.cables[leaf][lane] = none
		}
		w.cross = nil
		return nil
	}
	if len(e.Where) != 2 || w.cross != nil {
		return fmt.Errorf("event %q: want two cables, and none miswired before", e)
	}
	for _, text := range e.Where {
		p, err := parsePlace(text)
		if err != nil {
			return err
		}
		leaf, lane, err := w.cable(p)
		if err != nil {
			return err
		}
		if !w.free(leaf, lane) {
			return fmt.Errorf("event %q: the cable at %v is not up", e, p)
		}
		w.cables[leaf][lane] = miswired
		w.cross = append(w.cross, p)
	}
	return nil
}
