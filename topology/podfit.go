package topology

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/forsd/forsd/ib"
)

// podFitter carries the work of FitPods. What leaves and hosts have in common with trees
// of two levels is done by the fitter of these, to which mids and tops are spines.
type podFitter struct {
	*PodTree
	two          *fitter
	midAt, topAt []int // [node] index, −1
}

// FitPods matches fabric f with baseline b, as Fit does: a copy of b gains new leaves,
// hosts, and cables between known switches that fit a plane. New mids and tops and surplus
// cables are not added until the baseline is accepted again. A cable that fits no plane is
// not used, and is reported. It returns *NotFatTree if the fabric has become a different
// one.
func FitPods(f *Fabric, b *PodBaseline, exclude *regexp.Regexp) (*PodTree, error) {
	if err := f.BroughtUp(); err != nil {
		return nil, err
	}
	t := fitPods(f, b, exclude)
	held, all := 0, 0
	for i := range t.two.near {
		all += t.two.near[i].hosts
		if t.two.leafAt[i] >= 0 {
			held += t.two.near[i].hosts
		}
	}
	if 2*held <= all {
		if _, err := findPods(f); err != nil {
			return nil, err
		}
		return nil, &NotFatTree{"the fabric", fmt.Sprintf("has %d of its %d hosts on leaves of the baseline: accept a new baseline if it is the right one", held, all)}
	}
	return t.PodTree, nil
}

func fitPods(f *Fabric, b *PodBaseline, exclude *regexp.Regexp) *podFitter {
	b = b.clone()
	t := &podFitter{PodTree: &PodTree{Common: Common{Fabric: f}, Baseline: b, Pods: b.Pods, Planes: len(b.MidOf), MidOf: b.MidOf},
		two: &fitter{FatTree: &FatTree{Common: Common{Fabric: f}, Baseline: &Baseline{}}, near: f.neighbours(), rate: ib.ParseRate(b.Rate)}}
	t.First = make([]int, t.Planes+1)
	for _, l := range b.Lanes {
		t.Lanes = append(t.Lanes, PodLane(l))
		t.First[l.Plane+1] = len(t.Lanes)
	}
	t.Turns = len(b.Lanes)
	for j := range t.Planes {
		t.First[j+1] = max(t.First[j+1], t.First[j])
		t.Turns = min(t.Turns, t.First[j+1]-t.First[j])
	}
	t.placeUppers()
	t.placeLeaves()
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		t.two.placeCables(leaf.Name, leaf.Node, leaf.Cables, b.Leaves[l].Uplinks, func(peer int32) (lanes []int, name string) {
			return t.planesTo(leaf.Pod, peer)
		})
	}
	for m := range t.Mids {
		mid := &t.Mids[m]
		first, end := b.lanesOfMid(m)
		t.two.placeCables(mid.Name, mid.Node, mid.Cables[first:end], b.Mids[m].Uplinks, func(peer int32) (lanes []int, name string) {
			return t.lanesTo(first, end, peer)
		})
	}
	t.down()
	t.placeHosts(exclude)
	t.rank()
	t.uncover()
	return t
}

// placeUppers finds the mids and tops of the baseline.
func (t *podFitter) placeUppers() {
	f, b := t.Fabric, t.Baseline
	t.midAt, t.topAt = make([]int, len(f.Nodes)), make([]int, len(f.Nodes))
	t.two.leafAt, t.two.spineAt, t.two.newSpine = make([]int, len(f.Nodes)), make([]int, len(f.Nodes)), make([]bool, len(f.Nodes))
	for i := range f.Nodes {
		t.midAt[i], t.topAt[i], t.two.leafAt[i], t.two.spineAt[i] = -1, -1, -1, -1
	}
	find := func(g ib.GUID, name *string) (int32, string) {
		node, label := t.two.find(g), *name
		if node != None {
			label = f.Nodes[node].Label()
			*name, t.two.spineAt[node] = f.Nodes[node].Name, int(node)
		}
		return node, label
	}
	for m := range b.Mids {
		mid := Mid{Node: None, GUID: b.Mids[m].GUID, Pod: m / (len(b.Mids) / b.Pods), Cables: make([]Cable, len(t.Lanes))}
		if mid.GUID != 0 {
			if mid.Node, mid.Name = find(mid.GUID, &b.Mids[m].Name); mid.Node != None {
				t.midAt[mid.Node] = m
			} else {
				t.two.reportAt(mid.GUID, 0, SpineDown, "switch %s (%s) of pod %d is absent", mid.Name, mid.GUID, mid.Pod)
			}
		}
		t.Mids = append(t.Mids, mid)
	}
	for k := range b.Tops {
		top := Top{GUID: b.Tops[k].GUID}
		if top.Node, top.Name = find(top.GUID, &b.Tops[k].Name); top.Node != None {
			t.topAt[top.Node] = k
		} else {
			t.two.reportAt(top.GUID, 0, SpineDown, "switch %s (%s) of the highest level is absent", top.Name, top.GUID)
		}
		t.Tops = append(t.Tops, top)
	}
}

// placeLeaves finds the leaves of the baseline, and appends new ones: switches with hosts
// whose cables to mids all lead to one pod.
func (t *podFitter) placeLeaves() {
	f, b := t.Fabric, t.Baseline
	for l := range b.Leaves {
		if node := t.two.find(b.Leaves[l].GUID); node != None {
			t.two.leafAt[node] = l
		}
	}
	for i := range f.Nodes {
		if f.Nodes[i].Kind != Switch || t.two.leafAt[i] >= 0 || t.two.spineAt[i] >= 0 {
			continue
		}
		pod, mids, others := -1, 0, 0
		for _, j := range t.two.near[i].switches {
			if m := t.midAt[j]; m >= 0 && (pod < 0 || pod == t.Mids[m].Pod) {
				pod = t.Mids[m].Pod
				mids++
			} else {
				others++
			}
		}
		switch n := &f.Nodes[i]; {
		case mids > others && t.two.near[i].hosts > 0:
			t.two.leafAt[i] = len(b.Leaves)
			b.Leaves = append(b.Leaves, BaselineLeafInPod{Pod: pod, BaselineLeaf: BaselineLeaf{GUID: n.GUID, Name: n.Name, Uplinks: make([]Uplink, t.Planes)}})
			t.two.report(LeafNew, "leaf %s is new in pod %d: it has index %d", n, pod, len(b.Leaves)-1)
		case mids+others > 0 && others == 0 || t.joinsTwo(int32(i)):
			t.two.report(SpineNew, "switch %s is new above the leaves: it is used after forsctl baseline accept", n)
		}
	}
	for l := range b.Leaves {
		leaf := PodLeaf{Node: t.two.find(b.Leaves[l].GUID), GUID: b.Leaves[l].GUID, Name: b.Leaves[l].Name, Pod: b.Leaves[l].Pod, Cables: make([]Cable, t.Planes)}
		if leaf.Node != None {
			leaf.Name, b.Leaves[l].Name = f.Nodes[leaf.Node].Label(), f.Nodes[leaf.Node].Name
		} else {
			t.two.reportAt(leaf.GUID, 0, LeafDown, "leaf %s (%s) is absent", leaf.Name, leaf.GUID)
		}
		t.Leaves = append(t.Leaves, leaf)
	}
}

// joinsTwo reports whether a switch has cables to two leaves, or to mids and tops only.
func (t *podFitter) joinsTwo(i int32) bool {
	known := 0
	for _, j := range t.two.near[i].switches {
		if t.two.leafAt[j] >= 0 || t.two.spineAt[j] >= 0 {
			known++
		}
	}
	return known > 1 && t.two.near[i].hosts == 0
}

// planesTo lists the planes by which a leaf of a pod reaches a mid.
func (t *podFitter) planesTo(pod int, peer int32) (planes []int, name string) {
	m := t.midAt[peer]
	if m < 0 || t.Mids[m].Pod != pod {
		return nil, ""
	}
	for j, k := range t.MidOf {
		if k == m%t.MidsPerPod() {
			planes = append(planes, j)
		}
	}
	return planes, t.Mids[m].Name
}

// lanesTo lists the lanes, counted from the first, up to the end, that lead to a top.
func (t *podFitter) lanesTo(first, end int, peer int32) (lanes []int, name string) {
	k := t.topAt[peer]
	if k < 0 {
		return nil, ""
	}
	for l := first; l < end; l++ {
		if t.Lanes[l].Top == k {
			lanes = append(lanes, l-first)
		}
	}
	return lanes, t.Tops[k].Name
}

// down reports the cables that are missing between switches that are there.
func (t *podFitter) down() {
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		for j, c := range leaf.Cables {
			if mid := t.Mid(leaf.Pod, j); c.State == Missing && leaf.Node != None && mid.Node != None {
				t.two.cableDown(leaf.GUID, leaf.Name, mid.Name, t.Baseline.Leaves[l].Uplinks[j])
			}
		}
	}
	for m := range t.Mids {
		mid := &t.Mids[m]
		first, _ := t.Baseline.lanesOfMid(m)
		for k, c := range mid.Cables {
			if top := &t.Tops[t.Lanes[k].Top]; c.State == Missing && mid.Node != None && top.Node != None {
				t.two.cableDown(mid.GUID, mid.Name, top.Name, t.Baseline.Mids[m].Uplinks[k-first])
			}
		}
	}
}

// placeHosts gives hosts their indices, as on two levels.
func (t *podFitter) placeHosts(exclude *regexp.Regexp) {
	two := t.two
	for l := range t.Leaves {
		two.Leaves = append(two.Leaves, Leaf{Node: t.Leaves[l].Node, Name: t.Leaves[l].Name})
		two.Baseline.Leaves = append(two.Baseline.Leaves, t.Baseline.Leaves[l].BaselineLeaf)
	}
	two.placeHosts(exclude)
	inPod := make([]int, t.Pods)
	for l := range t.Leaves {
		t.Baseline.Leaves[l].BaselineLeaf = two.Baseline.Leaves[l]
		t.InPod = append(t.InPod, inPod[t.Leaves[l].Pod])
		inPod[t.Leaves[l].Pod]++
	}
	t.Hosts, t.Servers, t.Routed = two.Hosts, two.Servers, two.Routed
	t.place()
}

// rank orders leaves, mids and tops, and below all of them the other switches.
func (t *podFitter) rank() {
	n := int32(len(t.Fabric.Nodes))
	t.two.Rank = make([]int32, n)
	for i := range t.two.Rank {
		switch {
		case t.topAt[i] >= 0:
			t.two.Rank[i] = n + 3
		case t.midAt[i] >= 0:
			t.two.Rank[i] = n + 2
		case t.two.leafAt[i] >= 0:
			t.two.Rank[i] = n + 1
		}
	}
	t.two.rankParts(n + 1)
	t.Rank = t.two.Rank
}

// uncover lists the parts outside the tree: switches, hosts, and cables that do not join
// adjacent levels.
func (t *podFitter) uncover() {
	f := t.Fabric
	u := &t.two.Uncovered
	used := map[PortRef]bool{}
	for l := range t.Leaves {
		for _, c := range t.Leaves[l].Cables {
			used[PortRef{t.Leaves[l].Node, c.LeafPort}] = used[PortRef{t.Leaves[l].Node, c.LeafPort}] || c.Usable()
		}
	}
	for m := range t.Mids {
		for _, c := range t.Mids[m].Cables {
			used[PortRef{t.Mids[m].Node, c.LeafPort}] = used[PortRef{t.Mids[m].Node, c.LeafPort}] || c.Usable()
		}
	}
	for i := range f.Nodes {
		if f.Nodes[i].Kind != Switch || len(t.two.near[i].switches)+t.two.near[i].hosts == 0 {
			continue
		}
		if t.two.level(int32(i)) == noSide {
			u.Switches = append(u.Switches, int32(i))
			continue
		}
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if port.Up() && port.Peer > int32(i) && f.Nodes[port.Peer].Kind == Switch && t.two.level(port.Peer) != noSide &&
				!used[PortRef{int32(i), uint8(p)}] && !used[PortRef{port.Peer, port.PeerPort}] {
				u.Cables = append(u.Cables, PortRef{int32(i), uint8(p)})
			}
		}
	}
	if !u.Empty() {
		var cables []string
		for _, r := range u.Cables {
			cables = append(cables, f.CableLabel(r)+" fits no plane, and no path takes it")
		}
		t.two.report(PartlyCovered, "%s", t.two.uncoveredWith(cables))
	}
	t.Uncovered, t.Findings = *u, slices.Concat(t.two.Findings, tight(loads(t.Hosts, t.Servers, len(t.Leaves), func(l int) (string, int) {
		return t.Leaves[l].Name, meant(t.Baseline.Leaves[l].Uplinks)
	})))
}
