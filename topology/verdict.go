package topology

import (
	"fmt"
	"slices"
)

// enough reports whether a fabric as a whole is its tree: the tree holds most of the hosts,
// and no other part of the fabric has half as many. Halves and thirds occur when the
// largest tree-like part is a pod of a tree of three levels or a side of a torus.
func enough(held, other, all int) bool { return 2*held > all && 2*other < held }

// elsewhere counts the hosts of the largest part outside the core: those on its spines
// together, or those on other switches that are joined by cables.
func (c *core) elsewhere() int {
	in := make([]bool, len(c.Nodes))
	onSpines := 0
	for _, i := range c.spines {
		in[i] = true
		onSpines += c.near[i].hosts
	}
	for _, i := range slices.Concat(c.leaves, c.bare) {
		in[i] = true
	}
	_, most := largestPart(c.near, in)
	return max(onSpines, most)
}

// verdict returns the first reason why the fabric is not the core.
func (c *core) verdict() error {
	held, all, onLeaves := c.held(), 0, 0
	for i := range c.Nodes {
		if all += c.near[i].hosts; c.sides[i] == leafSide {
			onLeaves += c.near[i].hosts
		}
	}
	switch {
	case onLeaves == 0:
		return &NotFatTree{"the fabric", "has no leaf switch with a host"}
	case enough(held, c.elsewhere(), all):
		return nil
	}
	for _, reason := range []func(all int) error{c.sameSide, c.parts, c.crowded, c.threeLevels} {
		if err := reason(all); err != nil {
			return err
		}
	}
	return &NotFatTree{"the fabric", fmt.Sprintf("has %d of its %d hosts on leaves that share spines: too many are elsewhere", held, all)}
}

// sameSide finds a cable between two leaves or two spines.
func (c *core) sameSide(int) error {
	for i := range c.Nodes {
		for p := range c.Nodes[i].Ports {
			port := &c.Nodes[i].Ports[p]
			if c.sides[i] != noSide && port.Up() && port.Peer != int32(i) && c.sides[port.Peer] == c.sides[i] {
				names := map[side]string{leafSide: "leaves", spineSide: "spines"}
				return &NotFatTree{"cable " + c.CableLabel(PortRef{int32(i), uint8(p)}), "joins two " + names[c.sides[i]]}
			}
		}
	}
	return nil
}

// parts finds that the largest part of the fabric is joined with too little else.
func (c *core) parts(all int) error {
	count, most := largestPart(c.near, make([]bool, len(c.near)))
	if enough(most, all-most, all) {
		return nil
	}
	return &NotFatTree{"the fabric", fmt.Sprintf("falls into %d parts without a cable between them, the largest with %d of %d hosts: each is a fabric of its own", count, most, all)}
}

// largestPart counts the parts of a fabric that have a switch with a cable, and the
// hosts of the one with the most; switches that are seen already are left out.
func largestPart(near []neighbours, seen []bool) (parts, hosts int) {
	for i := range near {
		if seen[i] || near[i].hosts+len(near[i].switches) == 0 {
			continue
		}
		parts++
		here := 0
		seen[i] = true
		for queue := []int32{int32(i)}; len(queue) > 0; queue = queue[1:] {
			here += near[queue[0]].hosts
			for _, j := range near[queue[0]].switches {
				if !seen[j] {
					seen[j] = true
					queue = append(queue, j)
				}
			}
		}
		hosts = max(hosts, here)
	}
	return parts, hosts
}

// crowded finds that the spines have too many hosts.
func (c *core) crowded(all int) error {
	onSpines, worst := 0, None
	for i := range c.Nodes {
		if c.sides[i] == spineSide && c.near[i].hosts > 0 {
			onSpines += c.near[i].hosts
			if worst == None || c.near[i].hosts > c.near[worst].hosts {
				worst = int32(i)
			}
		}
	}
	if enough(all-onSpines, onSpines, all) {
		return nil
	}
	return &NotFatTree{"switch " + c.Nodes[worst].String(),
		fmt.Sprintf("has %s and cables to leaves: hosts belong on leaves, and %d of %d are not", counted(c.near[worst].hosts, "host", "hosts"), onSpines, all)}
}

// threeLevels finds a switch without hosts that sits above spines, and two leaves that
// share no spine.
func (c *core) threeLevels(int) error {
	var leaves, uppers []int32
	top := None
	for i := range c.Nodes {
		switch {
		case c.sides[i] == spineSide:
			uppers = append(uppers, int32(i))
		case c.sides[i] != leafSide:
		case c.near[i].hosts > 0:
			leaves = append(leaves, int32(i))
		case top == None:
			top = int32(i)
		}
	}
	if top == None {
		return nil
	}
	m := newMeetings(c.Fabric, leaves, uppers)
	for a := range leaves {
		for b := range a {
			if !m.meet(a, b) {
				return &NotFatTree{"switch " + c.Nodes[top].String(), fmt.Sprintf("has no hosts and sits above spines, and leaves %s and %s share no spine: there are three levels or more",
					c.Nodes[leaves[b]].Label(), c.Nodes[leaves[a]].Label())}
			}
		}
	}
	return nil
}
