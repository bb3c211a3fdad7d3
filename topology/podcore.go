package topology

import "slices"

// The levels of a tree of three.
const (
	noLevel uint8 = iota
	leafLevel
	midLevel
	topLevel
)

// podCore is the tree of three levels in a fabric.
type podCore struct {
	*Fabric
	near    []neighbours
	level   []uint8 // [node]
	pod     []int   // [node] of leaves and mids
	class   []int   // [node] of a mid: its index within its pod
	pods    int
	classes int
	stray   *NotFatTree // the first cable that is left out
	strays  int         // such cables
}

// strayShare is the share of the cables, one in so many, that may be on no way from level to
// level: they are miswired, and the fabric is a fat tree for all that.
const strayShare = 10

// leaveOut takes the cables between two switches out of near.
func (c *podCore) leaveOut(r PortRef, why string) {
	i, j := r.Node, c.At(r).Peer
	if c.stray == nil {
		c.stray = &NotFatTree{"cable " + c.CableLabel(r), why}
	}
	c.strays += len(c.near[i].switches)
	c.near[i].switches = slices.DeleteFunc(c.near[i].switches, func(k int32) bool { return k == j })
	c.near[j].switches = slices.DeleteFunc(c.near[j].switches, func(k int32) bool { return k == i })
	c.strays -= len(c.near[i].switches)
}

// findPods finds the tree of three levels in a fabric. A few switches with hosts may be
// mids or tops: where the first reading finds no tree, those with few hosts are not
// leaves.
func findPods(f *Fabric) (*podCore, error) {
	c, err := newPodCore(f, 1)
	most := 0
	for _, n := range c.near {
		most = max(most, n.hosts)
	}
	if err == nil || most < 4 {
		return c, err
	}
	if other, otherErr := newPodCore(f, most/2); otherErr == nil {
		return other, nil
	}
	return c, err
}

// newPodCore finds it if every switch with so many hosts is a leaf. Cables that are on no way
// from level to level are left out as long as they are few.
func newPodCore(f *Fabric, hosts int) (*podCore, error) {
	c := &podCore{Fabric: f, near: f.neighbours(), level: make([]uint8, len(f.Nodes)), pod: make([]int, len(f.Nodes)), class: make([]int, len(f.Nodes))}
	c.setLevels(hosts)
	if !slices.Contains(c.level, topLevel) {
		return c, &NotFatTree{"the fabric", "has no switch above those that join leaves: there are not three levels"}
	}
	cables := 0
	for i := range c.near {
		cables += len(c.near[i].switches)
	}
	if err := c.setPods(); err != nil {
		return c, err
	}
	c.bareLeaves()
	if err := c.setClasses(); err != nil {
		return c, err
	}
	c.strayCables()
	if strayShare*2*c.strays > cables {
		return c, c.stray
	}
	return c, c.fourLevels()
}

// setLevels assigns leaves, mids and tops. A mid has cables to leaves, at least as many as
// to switches that have some too: so a top with one cable to a leaf is a top.
func (c *podCore) setLevels(hosts int) {
	toLeaves := make([]int, len(c.Nodes))
	for i := range c.Nodes {
		if c.Nodes[i].Kind == Switch && c.near[i].hosts >= hosts && c.near[i].hosts > 0 {
			c.level[i] = leafLevel
			for _, j := range c.near[i].switches {
				toLeaves[j]++
			}
		}
	}
	for i := range c.Nodes {
		if c.Nodes[i].Kind != Switch || c.level[i] == leafLevel || toLeaves[i] == 0 {
			continue
		}
		others := 0
		for _, j := range c.near[i].switches {
			if c.level[j] != leafLevel && toLeaves[j] > 0 {
				others++
			}
		}
		if toLeaves[i] >= others {
			c.level[i] = midLevel
		}
	}
	for i := range c.Nodes {
		if c.Nodes[i].Kind != Switch || c.level[i] != noLevel {
			continue
		}
		for _, j := range c.near[i].switches {
			if c.level[j] == midLevel {
				c.level[i] = topLevel
			}
		}
	}
}

// toMids lists the mids that a switch has cables to, in order, one for each cable.
func (c *podCore) toMids(i int32) []int32 {
	var mids []int32
	for _, j := range c.near[i].switches {
		if c.level[j] == midLevel {
			mids = append(mids, j)
		}
	}
	slices.Sort(mids)
	return mids
}

// mids lists the different ones.
func (c *podCore) mids(i int32) []int32 { return slices.Compact(c.toMids(i)) }

// overlap counts what two lists in order have in common.
func overlap(a, b []int32) int {
	n := 0
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			n, a, b = n+1, a[1:], b[1:]
		}
	}
	return n
}

// setPods finds the pods: leaves are of one pod that share more than half of the mids of
// one of them, and a mid is where most of its cables to leaves go.
func (c *podCore) setPods() error {
	var leaves []int32
	parent := map[int32]int32{}
	of := map[int32][]int32{}
	for i := range c.Nodes {
		c.pod[i], c.class[i] = -1, -1
		if c.level[i] == leafLevel {
			leaves = append(leaves, int32(i))
			parent[int32(i)], of[int32(i)] = int32(i), c.toMids(int32(i))
		}
	}
	root := func(i int32) int32 {
		for parent[i] != i {
			i = parent[i]
		}
		return i
	}
	for x, a := range leaves {
		for _, b := range leaves[:x] {
			shared := overlap(of[a], of[b])
			if shared > 0 && 2*shared > min(len(of[a]), len(of[b])) {
				ra, rb := root(a), root(b)
				parent[max(ra, rb)] = min(ra, rb)
			}
		}
	}
	c.joinSingles(leaves, of, root, func(a, b int32) { parent[max(a, b)] = min(a, b) })
	for _, a := range leaves {
		if len(of[a]) == 0 {
			c.level[a] = noLevel // on its own
			continue
		}
		if r := root(a); r == a {
			c.pod[a] = c.pods
			c.pods++
		} else {
			c.pod[a] = c.pod[r]
		}
	}
	c.placeMids()
	if c.dropStranded(); c.pods < 2 {
		return &NotFatTree{"the fabric", "has leaves that all share switches: there are not three levels"}
	}
	return nil
}

// joinSingles puts leaves that are alone, and have half of their mids in common with a pod,
// into the pod with which they have the most, the smaller of equals: one of their cables
// is miswired.
func (c *podCore) joinSingles(leaves []int32, of map[int32][]int32, root func(int32) int32, join func(leaf, pod int32)) {
	size := map[int32]int{}
	for _, a := range leaves {
		size[root(a)]++
	}
	for _, a := range leaves {
		if size[a] != 1 || root(a) != a {
			continue
		}
		shared, mids := map[int32]int{}, map[int32][]int32{} // [pod] cables of a to its mids, and these
		for _, b := range leaves {
			if b != a {
				mids[root(b)] = append(mids[root(b)], of[b]...)
			}
		}
		for pod, its := range mids {
			for _, m := range of[a] {
				if slices.Contains(its, m) {
					shared[pod]++
				}
			}
		}
		best := None
		for _, b := range leaves {
			if r := root(b); r == b && r != a && 2*shared[r] >= len(of[a]) && shared[r] > 0 &&
				(best == None || shared[r] > shared[best] || shared[r] == shared[best] && size[r] < size[best]) {
				best = r
			}
		}
		if best != None {
			join(a, best)
			size[min(a, best)], size[max(a, best)] = size[best]+1, 0
		}
	}
}

// dropStranded leaves out pods without a cable to a top: switches in a row that hang on
// the tree somewhere.
func (c *podCore) dropStranded() {
	joined, number := make([]bool, c.pods), make([]int, c.pods)
	for i := range c.Nodes {
		if c.level[i] == midLevel && len(c.tops(int32(i))) > 0 {
			joined[c.pod[i]] = true
		}
	}
	c.pods = 0
	for p := range joined {
		number[p] = c.pods
		if joined[p] {
			c.pods++
		}
	}
	for i := range c.Nodes {
		switch p := c.pod[i]; {
		case p < 0:
		case joined[p]:
			c.pod[i] = number[p]
		default:
			c.level[i], c.pod[i] = noLevel, -1
		}
	}
}

// placeMids puts the mids into pods, and leaves out cables between pods below the tops.
func (c *podCore) placeMids() {
	mids := make([]int, c.pods)
	for _, ties := range []bool{false, true} {
		for i := range c.Nodes {
			if c.level[i] != midLevel || c.pod[i] >= 0 {
				continue
			}
			if p, sure := c.vote(int32(i), mids); sure || ties {
				c.pod[i] = p
				mids[p]++
			}
		}
	}
	for i := range c.Nodes {
		if c.level[i] != midLevel {
			continue
		}
		for p := range c.Nodes[i].Ports {
			port := &c.Nodes[i].Ports[p]
			if port.Up() && c.level[port.Peer] == leafLevel && c.pod[port.Peer] != c.pod[i] {
				c.leaveOut(PortRef{int32(i), uint8(p)}, "joins a leaf to a switch of another pod")
			}
		}
	}
	for i := range c.Nodes {
		for p := range c.Nodes[i].Ports {
			port := &c.Nodes[i].Ports[p]
			if c.level[i] == topLevel && port.Up() && c.level[port.Peer] == leafLevel {
				c.leaveOut(PortRef{int32(i), uint8(p)}, "joins a leaf to a switch of the highest level")
			}
		}
	}
}

// vote returns the pod to which most cables of a mid to leaves lead; among equals, the one
// with the fewest mids, and sure is false.
func (c *podCore) vote(i int32, mids []int) (pod int, sure bool) {
	votes := make([]int, c.pods)
	for _, j := range c.near[i].switches {
		if c.level[j] == leafLevel {
			votes[c.pod[j]]++
		}
	}
	for p := range votes {
		if votes[p] > votes[pod] || votes[p] == votes[pod] && mids[p] < mids[pod] {
			pod = p
		}
	}
	equal := 0
	for p := range votes {
		if votes[p] == votes[pod] {
			equal++
		}
	}
	return pod, equal == 1
}

// bareLeaves finds leaves without hosts: switches with cables to several mids of one pod
// and to nothing else.
func (c *podCore) bareLeaves() {
	for i := range c.Nodes {
		if c.level[i] != topLevel {
			continue
		}
		mids, pod, bare := c.mids(int32(i)), -1, true
		for _, j := range c.near[i].switches {
			bare = bare && c.level[j] == midLevel && (pod < 0 || pod == c.pod[j])
			pod = c.pod[j]
		}
		if bare && len(mids) > 1 {
			c.level[i], c.pod[i] = leafLevel, pod
		}
	}
}

// tops lists the tops that a mid has cables to, by node, each once.
func (c *podCore) tops(mid int32) []int32 {
	var tops []int32
	for _, j := range c.near[mid].switches {
		if c.level[j] == topLevel && !slices.Contains(tops, j) {
			tops = append(tops, j)
		}
	}
	slices.Sort(tops)
	return tops
}
