package topology

import "slices"

// NewPodBaseline recognises the fat tree of three levels in f and numbers it afresh:
// pods by their first leaf, planes by their first mid, lanes plane by plane and top by
// top; leaves, mids and tops by GUID, cables and hosts by port. A fabric that is not such
// a tree gives a *NotFatTree with the switch or cable that does not fit, one that is not
// brought up yet a *NotYet.
func NewPodBaseline(f *Fabric) (*PodBaseline, error) {
	if err := f.BroughtUp(); err != nil {
		return nil, err
	}
	c, err := findPods(f)
	if err != nil {
		return nil, err
	}
	b := &PodBaseline{Version: BaselineVersion, Levels: 3, Pods: c.pods, Mids: make([]BaselineMid, c.pods*c.classes)}
	var uppers []int32
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch c.level[i] {
		case leafLevel:
			b.Leaves = append(b.Leaves, BaselineLeafInPod{Pod: c.pod[i], BaselineLeaf: BaselineLeaf{GUID: n.GUID, Name: n.Name}})
		case midLevel:
			m := &b.Mids[c.pod[i]*c.classes+c.class[i]]
			m.GUID, m.Name = n.GUID, n.Name
			uppers = append(uppers, int32(i))
		case topLevel:
			b.Tops = append(b.Tops, BaselineTop{GUID: n.GUID, Name: n.Name})
		}
	}
	slices.SortStableFunc(b.Leaves, func(x, y BaselineLeafInPod) int { return x.Pod - y.Pod })
	at := map[int32]int{}
	for _, i := range uppers {
		at[i] = 0
	}
	var leaves []int32
	for i := range f.Nodes {
		if c.level[i] == leafLevel {
			leaves = append(leaves, int32(i))
		}
	}
	b.Rate = commonRate(f, leaves, at).String()
	c.number(b)
	t := fitPods(f, b, nil)
	t.line()
	return t.Baseline, nil
}

// number gives planes and lanes their numbers: a plane for each of the cables that a
// leaf has to a mid, and for each of the cables that a mid has to a top a lane, which the
// planes of one mid take in turn.
func (c *podCore) number(b *PodBaseline) {
	topAt := map[int32]int{}
	for i := range c.Nodes {
		if c.level[i] == topLevel {
			topAt[int32(i)] = len(topAt)
		}
	}
	for k := range c.classes {
		parallel, cables := 1, make([]int, len(topAt)) // to a mid; [top]
		for i := range c.Nodes {
			if c.level[i] != midLevel || c.class[i] != k {
				continue
			}
			count := map[int32]int{}
			for _, j := range c.near[i].switches {
				count[j]++
			}
			for j, n := range count {
				if c.level[j] == leafLevel {
					parallel = max(parallel, n)
				} else if t, is := topAt[j]; is {
					cables[t] = max(cables[t], n)
				}
			}
		}
		first := len(b.MidOf)
		for range parallel {
			b.MidOf = append(b.MidOf, k)
		}
		lanes := make([][]BaselineLane, parallel)
		next := 0
		for t, n := range cables {
			for x := range n {
				j := next % parallel
				next++
				lanes[j] = append(lanes[j], BaselineLane{Plane: first + j, Top: t, Cable: x})
			}
		}
		b.Lanes = append(b.Lanes, slices.Concat(lanes...)...)
	}
	for l := range b.Leaves {
		b.Leaves[l].Uplinks = make([]Uplink, len(b.MidOf))
	}
	for m := range b.Mids {
		first, end := b.lanesOfMid(m)
		b.Mids[m].Uplinks = make([]Uplink, end-first)
	}
}
