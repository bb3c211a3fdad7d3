package topology

import "fmt"

// enough tells whether a tree that holds some of a fabric's servers is what the fabric
// is: more than two thirds. Halves and thirds are what the pods of a tree of three
// levels, and the sides of a torus, leave to the largest part that looks like a tree.
func enough(held, all int) bool { return 3*held > 2*all }

// verdict gives the first reason why the core is not what the fabric is.
func (c *core) verdict() error {
	held, all := 0, 0
	for i := range c.Nodes {
		all += c.near[i].hosts
	}
	for _, i := range c.leaves {
		held += c.near[i].hosts
	}
	onLeaves := 0
	for i := range c.Nodes {
		if c.sides[i] == leafSide {
			onLeaves += c.near[i].hosts
		}
	}
	switch {
	case onLeaves == 0:
		return &NotFatTree{"the fabric", "has no leaf switch with a host"}
	case enough(held, all):
		return nil
	}
	for _, reason := range []func(held, all int) error{c.sameSide, c.parts, c.crowded, c.threeLevels} {
		if err := reason(held, all); err != nil {
			return err
		}
	}
	return &NotFatTree{"the fabric", fmt.Sprintf("has %d of its %d hosts on leaves that share spines: most hosts are elsewhere", held, all)}
}

// sameSide finds a cable between two leaves or two spines.
func (c *core) sameSide(int, int) error {
	for i := range c.Nodes {
		for p := range c.Nodes[i].Ports {
			port := &c.Nodes[i].Ports[p]
			if c.sides[i] != noSide && port.Up() && c.sides[port.Peer] == c.sides[i] {
				names := map[side]string{leafSide: "leaves", spineSide: "spines"}
				return &NotFatTree{"cable " + c.CableLabel(PortRef{int32(i), uint8(p)}), "joins two " + names[c.sides[i]]}
			}
		}
	}
	return nil
}

// parts finds that the largest part of the fabric is joined with too little else.
func (c *core) parts(_, all int) error {
	count, most := largestPart(c.near)
	if enough(most, all) {
		return nil
	}
	return &NotFatTree{"the fabric", fmt.Sprintf("falls into %d parts without a cable between them, the largest with %d of %d hosts: each is a fabric of its own", count, most, all)}
}

// largestPart counts the parts of a fabric that have a switch with a cable, and the
// hosts of the one with the most.
func largestPart(near []neighbours) (parts, hosts int) {
	seen := make([]bool, len(near))
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
func (c *core) crowded(_, all int) error {
	onSpines, worst := 0, None
	for i := range c.Nodes {
		if c.sides[i] == spineSide && c.near[i].hosts > 0 {
			onSpines += c.near[i].hosts
			if worst == None || c.near[i].hosts > c.near[worst].hosts {
				worst = int32(i)
			}
		}
	}
	if enough(all-onSpines, all) {
		return nil
	}
	return &NotFatTree{"switch " + c.Nodes[worst].String(),
		fmt.Sprintf("has %d hosts and cables to leaves: hosts belong on leaves, and %d of %d are not", c.near[worst].hosts, onSpines, all)}
}

// threeLevels finds a switch without hosts that sits above spines, and two leaves that
// share no spine.
func (c *core) threeLevels(int, int) error {
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
