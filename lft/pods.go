package lft

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/topology"
)

// Entry is a table entry that a plan requires.
type Entry struct {
	Node int32
	LID  ib.LID
	Port uint8
}

// BuildPods makes the tables of a fat tree of three levels for every LID in use, with the
// pinned entries; pins may be nil. The sequences are consumed concurrently and must not
// share an entry. The base LID of host α of a leaf is sent over plane α mod M and, from
// another pod, over a lane of that plane by the number of the leaf in its pod, or the next
// that is up at both ends. So undamaged trees with one LID a host have the tables of
// D-mod-K routing (Zahavi, 2010). Other LIDs of leaves and their hosts are assigned by
// leafLIDs, and mids that have lost a leaf may relay its packets (podRelay). Everything
// else goes up and down by rank, see updown. It fails if the fabric is inconsistent, or a
// pin leads to a port that is down.
func BuildPods(ctx context.Context, t *topology.PodTree, pins []iter.Seq[Entry]) (*Tables, error) {
	if err := t.Fabric.Validate(); err != nil {
		return nil, fmt.Errorf("build tables: %w", err)
	}
	tables := newTables(t.Fabric)
	at := tables.ByNode(t.Fabric)
	workers := runtime.GOMAXPROCS(0)
	u := ranked(t)
	if _, err := parallel.Each(ctx, len(u.homes), workers, func(int) func(int) error {
		part := *u
		part.down, part.dist = make([]int32, len(u.down)), make([]int32, len(u.dist))
		return func(home int) error {
			part.fillHome(int32(home), at)
			return nil
		}
	}); err != nil {
		return nil, err
	}
	b := newPodBuilder(t, at)
	if _, err := parallel.Each(ctx, len(t.Leaves), workers, func(int) func(int) error {
		part := *b
		part.ports, part.down = make([]uint8, max(t.Planes, 1)), make([]arrival, t.Planes)
		return func(l int) error {
			part.home(l)
			return nil
		}
	}); err != nil {
		return nil, err
	}
	if err := tables.Pin(ctx, t.Fabric, pins); err != nil {
		return nil, err
	}
	return tables, nil
}

// Pin sets entries. The sequences are consumed concurrently and must not share an entry. It
// fails if one leads to a port that is down.
func (t *Tables) Pin(ctx context.Context, f *topology.Fabric, pins []iter.Seq[Entry]) error {
	at := t.ByNode(f)
	_, err := parallel.Each(ctx, len(pins), runtime.GOMAXPROCS(0), func(int) func(int) error {
		return func(i int) error {
			for p := range pins[i] {
				if ports := f.Nodes[p.Node].Ports; int(p.Port) >= len(ports) || !ports[p.Port].Up() || int(p.LID) >= len(at[p.Node]) {
					return fmt.Errorf("build tables: %s port %d is pinned for LID %d, and is down", f.Nodes[p.Node].Label(), p.Port, p.LID)
				}
				at[p.Node][p.LID] = p.Port
			}
			return nil
		}
	})
	return err
}

// ByNode returns the tables by node index of a fabric. A node without a table has nil.
func (t *Tables) ByNode(f *topology.Fabric) [][]uint8 {
	at := make([][]uint8, len(f.Nodes))
	for i := range t.Switches {
		if node := f.Find(t.Switches[i].GUID); node != topology.None {
			at[node] = t.Switches[i].Out
		}
	}
	return at
}

// ranked routes a whole fabric up and down by rank.
func ranked(t *topology.PodTree) *updown {
	u := &updown{FatTree: &topology.FatTree{Common: topology.Common{Fabric: t.Fabric, Rank: t.Rank}}, alien: make([]bool, len(t.Fabric.Nodes)), slow: map[topology.PortRef]bool{},
		down: make([]int32, len(t.Fabric.Nodes)), dist: make([]int32, len(t.Fabric.Nodes))}
	for i := range t.Fabric.Nodes {
		if t.Fabric.Nodes[i].Kind == topology.Switch {
			u.alien[i] = true
			u.order = append(u.order, int32(i))
		}
	}
	mark := func(node int32, cables []topology.Cable) {
		for _, c := range cables {
			if c.State == topology.Degraded {
				u.hold(topology.PortRef{Node: node, Port: c.LeafPort})
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
	joined []bool    // [(p·pods + q)·planes + plane]
	ofTop  [][]int   // [top] its lanes
	ofMid  [][]int   // [index within a pod] its planes
	all    []int     // the planes
	hosts  [][]int   // [leaf] hosts with LIDs
	relay  int       // the index of the mids that relay, −1 if none
	lids   []turned  // of the current leaf
	turn   int       // the first turn of these
	turns  int       // and how many there are from it on
	down   []arrival // [plane] how its mids come down to the current leaf
	ports  []uint8   // by the parameter of an entry at a switch
}

func newPodBuilder(t *topology.PodTree, at [][]uint8) *podBuilder {
	b := &podBuilder{PodTree: t, at: at, joined: make([]bool, t.Pods*t.Pods*t.Planes),
		ofTop: make([][]int, len(t.Tops)), ofMid: make([][]int, t.MidsPerPod())}
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
		b.ofMid[m], b.all = append(b.ofMid[m], j), append(b.all, j)
	}
	b.hosts = make([][]int, len(t.Leaves))
	for i := range t.Hosts {
		if h := &t.Hosts[i]; h.Leaf >= 0 && h.LID != 0 {
			b.hosts[h.Leaf] = append(b.hosts[h.Leaf], i)
		}
	}
	b.relay = b.relaying()
	return b
}

// home fills in the entries of the LIDs on a leaf, and of its own.
func (b *podBuilder) home(l int) {
	home := &b.Leaves[l]
	if home.Node == topology.None {
		return
	}
	b.leafLIDs(l)
	b.arrive(l)
	for from := range b.Leaves {
		if leaf := &b.Leaves[from]; from != l && leaf.Node != topology.None {
			b.leafPorts(leaf, home)
			b.enter(leaf.Node, func(x turned) int {
				if x.ring != nil {
					return x.ring[(from+l)%len(x.ring)]
				}
				return x.plane
			})
		}
	}
	for m := range b.Mids {
		if b.Mids[m].Node != topology.None {
			planes := b.ofMid[m%b.MidsPerPod()]
			for at := range len(planes) * b.turns {
				b.port(at, b.fromMid(m, home, planes[at/b.turns], b.turn+at%b.turns))
			}
			b.enter(b.Mids[m].Node, func(x turned) int {
				return max(0, slices.Index(planes, x.plane))*b.turns + x.turn - b.turn
			})
		}
	}
	for k := range b.Tops {
		if b.Tops[k].Node == topology.None {
			continue
		}
		if len(b.ofTop[k]) == 1 {
			b.port(0, b.fromTop(k, home, 0, 0))
			b.enter(b.Tops[k].Node, func(turned) int { return 0 })
			continue
		}
		for i, x := range b.lids {
			b.port(i, b.fromTop(k, home, x.plane, x.turn))
		}
		i := -1
		b.enter(b.Tops[k].Node, func(turned) int { i++; return i })
	}
}

// port sets a port.
func (b *podBuilder) port(at int, port uint8) {
	if at >= len(b.ports) {
		b.ports = append(b.ports, make([]uint8, at)...)
	}
	b.ports[at] = port
}

// enter gives the current LIDs their entries at a switch.
func (b *podBuilder) enter(node int32, of func(turned) int) {
	out := b.at[node]
	for _, x := range b.lids {
		if port := b.ports[of(x)]; port != NoPath {
			out[x.lid] = port
		}
	}
}

// leafPorts sets the ports of a leaf towards another one, [plane]: on the plane or the next
// that joins them.
func (b *podBuilder) leafPorts(leaf, home *topology.PodLeaf) {
	port := NoPath
	b.ports[0] = port
	for i := 2*b.Planes - 1; i >= 0; i-- {
		j := i
		if j >= b.Planes {
			j -= b.Planes
		}
		if leaf.Cables[j].State == topology.Full && home.Cables[j].State == topology.Full &&
			(leaf.Pod == home.Pod || b.joined[(leaf.Pod*b.Pods+home.Pod)*b.Planes+j]) {
			port = leaf.Cables[j].LeafPort
		}
		b.ports[j] = port
	}
}

// fromMid returns the port of a mid towards a leaf: down, or up over the turn's lane of
// plane j or the next that is up at both pods.
func (b *podBuilder) fromMid(m int, home *topology.PodLeaf, j, turn int) uint8 {
	mid, planes := &b.Mids[m], b.ofMid[m%b.MidsPerPod()]
	if mid.Pod == home.Pod || b.down[j].state == topology.NoCable {
		return b.down[j].port
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
				return mid.Cables[k].LeafPort
			}
		}
	}
	return NoPath
}

// fromTop returns the port of a top towards a leaf: over the lane that mids would choose,
// if it is one of the top's, or the first that leads there.
func (b *podBuilder) fromTop(top int, home *topology.PodLeaf, j, turn int) uint8 {
	port, best := NoPath, topology.NoCable
	for _, k := range b.ofTop[top] {
		x := b.Lanes[k].Plane
		c, state := &b.Mid(home.Pod, x).Cables[k], b.down[x].state
		if c.State != topology.Full || state == topology.NoCable {
			continue
		}
		if state > best || state == best && x == j && k == b.First[x]+turn%(b.First[x+1]-b.First[x]) {
			port, best = c.SpinePort, state
		}
	}
	return port
}
