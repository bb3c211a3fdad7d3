package topology

import (
	"fmt"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

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
}

// findPods finds the tree of three levels in a fabric. A few switches with hosts may be
// mids or tops: where the first reading finds no tree, those with few hosts are not
// leaves.
func findPods(f *Fabric) (*podCore, error) {
	near := f.neighbours()
	most := 0
	for i := range near {
		most = max(most, near[i].hosts)
	}
	c, err := newPodCore(f, near, 1)
	if err == nil || most < 4 {
		return c, err
	}
	if other, otherErr := newPodCore(f, near, most/2); otherErr == nil {
		return other, nil
	}
	return c, err
}

// newPodCore finds it if every switch with so many hosts is a leaf.
func newPodCore(f *Fabric, near []neighbours, hosts int) (*podCore, error) {
	c := &podCore{Fabric: f, near: near, level: make([]uint8, len(f.Nodes)), pod: make([]int, len(f.Nodes)), class: make([]int, len(f.Nodes))}
	c.setLevels(hosts)
	if !slices.Contains(c.level, topLevel) {
		return nil, &NotFatTree{"the fabric", "has no switch above those that join leaves: there are not three levels"}
	}
	if err := c.setPods(); err != nil {
		return nil, err
	}
	c.bareLeaves()
	if err := c.setClasses(); err != nil {
		return nil, err
	}
	return c, c.strayCables()
}

// setLevels tells leaves, mids and tops apart. A mid has cables to leaves, at least as
// many as to switches that have some too: so a top with one cable to a leaf is a top.
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

// mids lists the different mids that a switch has cables to.
func (c *podCore) mids(i int32) []int32 {
	var mids []int32
	for _, j := range c.near[i].switches {
		if c.level[j] == midLevel && !slices.Contains(mids, j) {
			mids = append(mids, j)
		}
	}
	return mids
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
			parent[int32(i)], of[int32(i)] = int32(i), c.mids(int32(i))
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
			shared := 0
			for _, m := range of[a] {
				if slices.Contains(of[b], m) {
					shared++
				}
			}
			if shared > 0 && 2*shared > min(len(of[a]), len(of[b])) {
				ra, rb := root(a), root(b)
				parent[max(ra, rb)] = min(ra, rb)
			}
		}
	}
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
	if err := c.placeMids(); err != nil {
		return err
	}
	if c.dropStranded(); c.pods < 2 {
		return &NotFatTree{"the fabric", "has leaves that all share switches: there are not three levels"}
	}
	return nil
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

// placeMids puts the mids into pods, and finds cables between pods below the tops.
func (c *podCore) placeMids() error {
	for i := range c.Nodes {
		if c.level[i] != midLevel {
			continue
		}
		votes := make([]int, c.pods)
		for _, j := range c.near[i].switches {
			if c.level[j] == leafLevel {
				votes[c.pod[j]]++
			}
		}
		for p := range votes {
			if c.pod[i] < 0 || votes[p] > votes[c.pod[i]] {
				c.pod[i] = p
			}
		}
		for p := range c.Nodes[i].Ports {
			port := &c.Nodes[i].Ports[p]
			if port.Up() && c.level[port.Peer] == leafLevel && c.pod[port.Peer] != c.pod[i] {
				return &NotFatTree{"cable " + c.CableLabel(PortRef{int32(i), uint8(p)}), "joins a leaf to a switch of another pod"}
			}
		}
	}
	for i := range c.Nodes {
		for p := range c.Nodes[i].Ports {
			port := &c.Nodes[i].Ports[p]
			if c.level[i] == topLevel && port.Up() && c.level[port.Peer] == leafLevel {
				return &NotFatTree{"cable " + c.CableLabel(PortRef{int32(i), uint8(p)}), "joins a leaf to a switch of the highest level"}
			}
		}
	}
	return nil
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

// setClasses finds which mids of the pods go together: those that tops join, and of one
// pod where a top serves several planes, those that share the most tops.
func (c *podCore) setClasses() error {
	part := make([]int32, len(c.Nodes)) // [node] of mids and tops that cables join, the lowest node
	for i := range part {
		part[i] = int32(i)
	}
	root := func(i int32) int32 {
		for part[i] != i {
			i = part[i]
		}
		return i
	}
	for i := range c.Nodes {
		if c.level[i] == midLevel {
			for _, t := range c.tops(int32(i)) {
				a, b := root(int32(i)), root(t)
				part[max(a, b)] = min(a, b)
			}
		}
	}
	var classes [][]int32 // [class] its mids, None for pods that have none
	for r := range c.Nodes {
		inPods, mids := make([][]int32, c.pods), 0
		for i := r; i < len(c.Nodes); i++ {
			if c.level[i] == midLevel && root(int32(i)) == int32(r) {
				inPods[c.pod[i]] = append(inPods[c.pod[i]], int32(i))
				mids++
			}
		}
		if mids == 0 {
			continue
		}
		found, err := c.align(inPods)
		if err != nil {
			return err
		}
		classes = append(classes, found...)
	}
	classes = c.mergeClasses(classes)
	c.classes = len(classes)
	for k, mids := range classes {
		for _, i := range mids {
			if i != None {
				c.class[i] = k
			}
		}
	}
	return nil
}

// align orders the mids of a part, given by pod, into classes with a mid of each pod:
// the pod with the most begins, and every other pod shares as many tops as it can.
func (c *podCore) align(inPods [][]int32) ([][]int32, error) {
	first := 0
	for p := range inPods {
		if len(inPods[p]) > len(inPods[first]) {
			first = p
		}
	}
	n := len(inPods[first])
	classes, seen := make([][]int32, n), make([]map[int32]int, n) // [class][pod]; [class] tops, and of how many pods
	for k := range classes {
		classes[k], seen[k] = make([]int32, c.pods), map[int32]int{}
		for p := range classes[k] {
			classes[k][p] = None
		}
	}
	put := func(k, p int, mid int32) {
		classes[k][p] = mid
		for _, t := range c.tops(mid) {
			seen[k][t]++
		}
	}
	for k, mid := range inPods[first] {
		put(k, first, mid)
	}
	var a bipartite.Assigner
	for p := range inPods {
		if p == first || len(inPods[p]) == 0 {
			continue
		}
		cost := make([]int64, n*n)
		for x, mid := range inPods[p] {
			for k := range n {
				for _, t := range c.tops(mid) {
					cost[x*n+k] -= int64(seen[k][t])
				}
			}
		}
		columns, _, err := a.Assign(n, cost)
		if err != nil {
			return nil, fmt.Errorf("match the switches of two pods: %w", err)
		}
		for x, mid := range inPods[p] {
			put(int(columns[x]), p, mid)
		}
	}
	return classes, nil
}

// mergeClasses makes one of classes that have no pod in common while there are more than
// a pod has mids: damage has taken a plane apart, and nothing tells which parts were one.
func (c *podCore) mergeClasses(classes [][]int32) [][]int32 {
	most, mids := 0, make([]int, c.pods)
	for _, of := range classes {
		for p, i := range of {
			if i != None {
				mids[p]++
				most = max(most, mids[p])
			}
		}
	}
	for a := 0; a < len(classes) && len(classes) > most; a++ {
		for b := a + 1; b < len(classes) && len(classes) > most; b++ {
			apart := true
			for p := range classes[a] {
				apart = apart && (classes[a][p] == None || classes[b][p] == None)
			}
			if apart {
				for p, i := range classes[b] {
					if i != None {
						classes[a][p] = i
					}
				}
				classes = slices.Delete(classes, b, b+1)
				b--
			}
		}
	}
	return classes
}

// strayCables finds a cable from a mid to a top that serves the mid's plane in few pods,
// and another plane in more than twice as many.
func (c *podCore) strayCables() error {
	for i := range c.Nodes {
		if c.level[i] != topLevel {
			continue
		}
		pods, most := make([]int, c.classes), 0
		for _, m := range c.mids(int32(i)) {
			pods[c.class[m]]++
			most = max(most, pods[c.class[m]])
		}
		for p := range c.Nodes[i].Ports {
			port := &c.Nodes[i].Ports[p]
			if port.Up() && c.level[port.Peer] == midLevel && 2*pods[c.class[port.Peer]] < most {
				return &NotFatTree{"cable " + c.CableLabel(PortRef{port.Peer, port.PeerPort}), "fits no plane: its switch of the highest level serves other switches of the pods"}
			}
		}
	}
	return nil
}
