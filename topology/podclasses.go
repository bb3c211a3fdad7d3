package topology

import (
	"fmt"
	"slices"

	"github.com/forsd/forsd/bipartite"
)

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

// mergeClasses merges classes that have no pod in common while there are more classes than
// mids in a pod: damage has split a plane, and which parts belong together is unknown.
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

// strayCables leaves out cables from a mid to a top that serves another plane in more pods
// than the mid's; where the tops serve several planes each, in more than twice as many.
func (c *podCore) strayCables() {
	pods := map[int32][]int{} // [top][class] in how many pods the top serves it
	single, several := 0, 0   // tops that serve one class, and more
	for i := range c.Nodes {
		if c.level[i] != topLevel {
			continue
		}
		of := make([]int, c.classes)
		for _, m := range c.mids(int32(i)) {
			of[c.class[m]]++
		}
		pods[int32(i)] = of
		served := 0
		for _, n := range of {
			served += min(n, 1)
		}
		if served > 1 {
			several++
		} else {
			single++
		}
	}
	factor := 1
	if several > single {
		factor = 2
	}
	for i := range c.Nodes {
		if c.level[i] != topLevel {
			continue
		}
		pods, most := pods[int32(i)], slices.Max(pods[int32(i)])
		for p := range c.Nodes[i].Ports {
			port := &c.Nodes[i].Ports[p]
			if port.Up() && c.level[port.Peer] == midLevel && factor*pods[c.class[port.Peer]] < most {
				c.leaveOut(PortRef{port.Peer, port.PeerPort}, "fits no plane: its switch of the highest level serves other switches of the pods")
			}
		}
	}
}
