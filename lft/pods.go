package lft

import (
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/forsd/forsd/topology"
)

// Entry is an entry of a table that a plan asks for.
type Entry struct {
	Node int32
	LID  topology.LID
	Port uint8
}

// BuildPods makes the tables of a fat tree of three levels for every LID in use, with the
// entries that are pinned; pins may be nil. LID base+j of host α of a leaf is sent over
// plane (α+j) mod M and, from another pod, over a lane of that plane by the number of the
// leaf in its pod, or the next that lives at both ends. So undamaged trees of one LID a
// host have the tables of D-mod-K routing (Zahavi, 2010). All other LIDs go up and down by
// rank, see updown. It fails where the fabric does not hold together, or a pin leads to
// a port that is down.
func BuildPods(t *topology.PodTree, pins iter.Seq[Entry]) (*Tables, error) {
	if err := t.Fabric.Validate(); err != nil {
		return nil, fmt.Errorf("build tables: %w", err)
	}
	tables := newTables(t.Fabric)
	at := make([][]uint8, len(t.Fabric.Nodes))
	for i := range tables.Switches {
		at[t.Fabric.Find(tables.Switches[i].GUID)] = tables.Switches[i].Out
	}
	u := ranked(t)
	u.fill(at)
	b := newPodBuilder(t, at)
	var next atomic.Int32
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := int(next.Add(1) - 1); i < len(t.Hosts); i = int(next.Add(1) - 1) {
				if h := &t.Hosts[i]; h.Leaf >= 0 && h.LID != 0 {
					b.host(h)
				}
			}
		})
	}
	group.Wait()
	if pins == nil {
		return tables, nil
	}
	for p := range pins {
		if ports := t.Fabric.Nodes[p.Node].Ports; int(p.Port) >= len(ports) || !ports[p.Port].Up() || int(p.LID) >= len(at[p.Node]) {
			return nil, fmt.Errorf("build tables: %s port %d is pinned for LID %d, and is down", t.Fabric.Nodes[p.Node].Label(), p.Port, p.LID)
		}
		at[p.Node][p.LID] = p.Port
	}
	return tables, nil
}

// ranked routes a whole fabric up and down by rank.
func ranked(t *topology.PodTree) *updown {
	u := &updown{FatTree: &topology.FatTree{Fabric: t.Fabric, Rank: t.Rank}, alien: make([]bool, len(t.Fabric.Nodes)), slow: map[topology.PortRef]bool{},
		down: make([]int32, len(t.Fabric.Nodes)), dist: make([]int32, len(t.Fabric.Nodes))}
	for i := range t.Fabric.Nodes {
		if t.Fabric.Nodes[i].Kind == topology.Switch {
			u.alien[i] = true
			u.order = append(u.order, int32(i))
		}
	}
	mark := func(node int32, cables []topology.UpCable) {
		for _, c := range cables {
			if c.State == topology.Degraded {
				u.hold(topology.PortRef{Node: node, Port: c.Port})
			}
		}
	}
	for l := range t.Leaves {
		mark(t.Leaves[l].Node, t.Leaves[l].Cables)
	}
	for m := range t.Mids {
		mark(t.Mids[m].Node, t.Mids[m].Cables)
	}
	u.byRank()
	u.wire()
	return u
}

// podBuilder fills in the entries of hosts.
type podBuilder struct {
	*topology.PodTree
	at     [][]uint8 // [node]
	place  []int     // [leaf] its number in its pod
	joined []bool    // [(p·pods + q)·planes + plane]
	ofTop  [][]int   // [top] its lanes
	ofMid  [][]int   // [index within a pod] its planes
}

func newPodBuilder(t *topology.PodTree, at [][]uint8) *podBuilder {
	b := &podBuilder{PodTree: t, at: at, place: make([]int, len(t.Leaves)), joined: make([]bool, t.Pods*t.Pods*t.Planes),
		ofTop: make([][]int, len(t.Tops)), ofMid: make([][]int, t.MidsPerPod())}
	seen := make([]int, t.Pods)
	for l := range t.Leaves {
		b.place[l] = seen[t.Leaves[l].Pod]
		seen[t.Leaves[l].Pod]++
	}
	for k, lane := range t.Lanes {
		b.ofTop[lane.Top] = append(b.ofTop[lane.Top], k)
		for p := range t.Pods {
			for q := range t.Pods {
				if t.LaneUp(p, k) && t.LaneUp(q, k) {
					b.joined[(p*t.Pods+q)*t.Planes+lane.Plane] = true
				}
			}
		}
	}
	for j, m := range t.MidOf {
		b.ofMid[m] = append(b.ofMid[m], j)
	}
	return b
}

// host fills in the entries of a host's LIDs.
func (b *podBuilder) host(h *topology.Host) {
	home := &b.Leaves[h.Leaf]
	for o := range 1 << h.LMC {
		lid, j := int(h.LID)+o, 0
		turn := b.place[h.Leaf]
		if b.Planes > 0 {
			j, turn = (h.Alpha+o)%b.Planes, turn+(h.Alpha+o)/b.Planes
		}
		for l := range b.Leaves {
			if leaf := &b.Leaves[l]; l != h.Leaf && leaf.Node != topology.None {
				if port := b.fromLeaf(leaf, home, j); port != NoPath {
					b.at[leaf.Node][lid] = port
				}
			}
		}
		for m := range b.Mids {
			if mid := &b.Mids[m]; mid.Node != topology.None {
				if port := b.fromMid(m, home, j, turn); port != NoPath {
					b.at[mid.Node][lid] = port
				}
			}
		}
		for k := range b.Tops {
			if b.Tops[k].Node != topology.None {
				if port := b.fromTop(k, home, j, turn); port != NoPath {
					b.at[b.Tops[k].Node][lid] = port
				}
			}
		}
	}
}

// fromLeaf is the port of a leaf towards another one: on plane j or the next that joins
// them.
func (b *podBuilder) fromLeaf(leaf, home *topology.PodLeaf, j int) uint8 {
	for range b.Planes {
		if leaf.Cables[j].State == topology.Full && home.Cables[j].State == topology.Full &&
			(leaf.Pod == home.Pod || b.joined[(leaf.Pod*b.Pods+home.Pod)*b.Planes+j]) {
			return leaf.Cables[j].Port
		}
		if j++; j == b.Planes {
			j = 0
		}
	}
	return NoPath
}

// arrives tells whether a mid has a cable to a leaf of its pod, and its port at the mid:
// that of plane j if it is one of the mid's, or of another.
func (b *podBuilder) arrives(planes []int, home *topology.PodLeaf, j int) (port uint8, ok bool) {
	for _, x := range planes {
		if c := &home.Cables[x]; c.State == topology.Full && (!ok || x == j) {
			port, ok = c.PeerPort, true
		}
	}
	return port, ok
}

// fromMid is the port of a mid towards a leaf: down, or up over the turn's lane of plane j
// or the next that lives at both pods.
func (b *podBuilder) fromMid(m int, home *topology.PodLeaf, j, turn int) uint8 {
	mid, planes := &b.Mids[m], b.ofMid[m%b.MidsPerPod()]
	down, ok := b.arrives(planes, home, j)
	if !ok {
		return NoPath
	}
	if mid.Pod == home.Pod {
		return down
	}
	first := 0
	for i, x := range planes {
		if x == j {
			first = i
		}
	}
	for i := range planes {
		x := planes[(first+i)%len(planes)]
		lanes := b.First[x+1] - b.First[x]
		for y := range lanes {
			if k := b.First[x] + (turn+y)%lanes; mid.Cables[k].State == topology.Full && b.LaneUp(home.Pod, k) {
				return mid.Cables[k].Port
			}
		}
	}
	return NoPath
}

// fromTop is the port of a top towards a leaf: over the lane that mids would choose, if it
// is one of the top's, or the first that leads there.
func (b *podBuilder) fromTop(top int, home *topology.PodLeaf, j, turn int) uint8 {
	port := NoPath
	for _, k := range b.ofTop[top] {
		x := b.Lanes[k].Plane
		c := &b.Mid(home.Pod, x).Cables[k]
		if c.State != topology.Full {
			continue
		}
		if _, ok := b.arrives(b.ofMid[b.MidOf[x]], home, j); !ok {
			continue
		}
		lanes := b.First[x+1] - b.First[x]
		if x == j && k == b.First[x]+turn%lanes {
			return c.PeerPort
		}
		if port == NoPath {
			port = c.PeerPort
		}
	}
	return port
}
