package topology

import (
	"fmt"
	"slices"
)

// NotFatTree says why a fabric is no two-level fat tree: which switch or
// cable, and what is wrong with it.
type NotFatTree struct {
	Where string // the switch or cable
	Why   string
}

// Error prints the verdict.
func (e *NotFatTree) Error() string {
	return fmt.Sprintf("not a two-level fat tree: %s %s", e.Where, e.Why)
}

// side is a switch's level in the tree.
type side uint8

const (
	noSide side = iota // not a switch, or a switch without any cable
	leafSide
	spineSide
)

// neighbours counts what a switch's active cables lead to.
type neighbours struct {
	hosts    int
	switches []int32 // one per cable, in port order
}

func (f *Fabric) neighbours() []neighbours {
	out := make([]neighbours, len(f.Nodes))
	for i := range f.Nodes {
		if f.Nodes[i].Kind != Switch {
			continue
		}
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			switch {
			case !port.Up():
			case f.Nodes[port.Peer].Kind == Switch:
				out[i].switches = append(out[i].switches, port.Peer)
			default:
				out[i].hosts++
			}
		}
	}
	return out
}

// classify tells leaves from spines. Switches with hosts start as leaves, the
// others as spines; a switch most of whose cables stay on its own side changes
// sides, the worst one first: so a spine with an adapter plugged in and a leaf
// without hosts are recognised. What still joins two switches of one side is
// the reason why the fabric is no two-level fat tree.
func classify(f *Fabric) ([]side, error) {
	near := f.neighbours()
	sides := make([]side, len(f.Nodes))
	var switches []int32
	for i := range f.Nodes {
		switch {
		case f.Nodes[i].Kind != Switch:
		case near[i].hosts > 0:
			sides[i] = leafSide
			switches = append(switches, int32(i))
		case len(near[i].switches) > 0:
			sides[i] = spineSide
			switches = append(switches, int32(i))
		}
	}
	if len(switches) == 0 {
		return nil, &NotFatTree{"the fabric", "has no switch with a cable"}
	}
	same := func(i int32) int {
		n := 0
		for _, j := range near[i].switches {
			if sides[j] == sides[i] {
				n++
			}
		}
		return n
	}
	// Every change of sides lowers the number of same-side cables, so this ends.
	for {
		worst, excess := None, 0
		for _, i := range switches {
			s := same(i)
			e := 2*s - len(near[i].switches)
			if e > excess || e == excess && e > 0 && near[i].hosts < near[worst].hosts {
				worst, excess = i, e
			}
		}
		if worst == None {
			break
		}
		sides[worst] = leafSide + spineSide - sides[worst]
	}
	turn(near, sides)
	return sides, verdict(f, near, sides, switches)
}

// turn exchanges leaves and spines where the spines have more hosts: with an
// adapter on every spine, all switches start as leaves.
func turn(near []neighbours, sides []side) {
	surplus := 0
	for i := range near {
		switch {
		case len(near[i].switches) == 0:
		case sides[i] == spineSide:
			surplus += near[i].hosts
		default:
			surplus -= near[i].hosts
		}
	}
	for i := range near {
		if surplus > 0 && len(near[i].switches) > 0 {
			sides[i] = leafSide + spineSide - sides[i]
		}
	}
}

// verdict gives the first reason why the sides make no two-level fat tree.
func verdict(f *Fabric, near []neighbours, sides []side, switches []int32) error {
	names := map[side]string{leafSide: "leaves", spineSide: "spines"}
	onLeaves, onSpines, crowded := 0, 0, None
	for _, i := range switches {
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if port.Up() && sides[port.Peer] == sides[i] {
				return &NotFatTree{"cable " + f.CableLabel(PortRef{i, uint8(p)}), "joins two " + names[sides[i]]}
			}
		}
		if sides[i] == leafSide {
			onLeaves += near[i].hosts
			continue
		}
		onSpines += near[i].hosts
		if crowded == None || near[i].hosts > near[crowded].hosts {
			crowded = i
		}
	}
	if onLeaves == 0 {
		return &NotFatTree{"the fabric", "has no leaf switch with a host"}
	}
	if 4*onSpines > onLeaves {
		return &NotFatTree{"switch " + f.Nodes[crowded].String(),
			fmt.Sprintf("has %d hosts and cables to leaves: hosts belong on leaves, and %d of %d are not", near[crowded].hosts, onSpines, onSpines+onLeaves)}
	}
	return threeLevels(f, near, sides, switches)
}

// threeLevels finds a switch without hosts that sits above spines: it counts as
// a leaf without hosts while all leaves with hosts meet at spines, and as a
// third level when some do not.
func threeLevels(f *Fabric, near []neighbours, sides []side, switches []int32) error {
	core := None
	var hosting []int32
	for _, i := range switches {
		if sides[i] != leafSide {
			continue
		}
		if near[i].hosts > 0 {
			hosting = append(hosting, i)
		} else if core == None {
			core = i
		}
	}
	if core == None {
		return nil
	}
	last := make([]int, len(f.Nodes)) // the last leaf that is next to a node, by its place in hosting, from 1
	for a, i := range hosting {
		for _, spine := range near[i].switches {
			last[spine] = a + 1
		}
		for _, j := range hosting[:a] {
			if !slices.ContainsFunc(near[j].switches, func(spine int32) bool { return last[spine] == a+1 }) {
				return &NotFatTree{"switch " + f.Nodes[core].String(), fmt.Sprintf(
					"has no hosts and sits above spines, and leaves %s and %s share no spine: there are three levels or more", f.Nodes[j].Label(), f.Nodes[i].Label())}
			}
		}
	}
	return nil
}
