package podplan

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
)

// On plans on tables as they are, by all LIDs of the servers, until there are better ones. It
// verifies nothing.
func On(ctx context.Context, t *topology.PodTree, tables *lft.Tables) (*Result, error) {
	r, err := newGround(t, Shape(t)).on(ctx, tables, lids(t), false)
	if err != nil {
		return nil, err
	}
	r.warn()
	return r, nil
}

// on plans on tables as they are, over the ways that some LIDs of a server have on them: for whole
// leaves, or where leaves differ for single senders. The plan is the linear shift, in blocks or
// phases, as far as its ways live and base LIDs have them; all other units go to free places. If it
// is patient, these are sought in as few phases as the bound first, which takes long. It fails if a
// leaf has a way to a server, and none of these LIDs takes one.
func (r *Result) on(ctx context.Context, tables *lft.Tables, lids int, patient bool) (*Result, error) {
	start := time.Now()
	out := &Result{Tree: r.Tree, shape: r.shape, Tables: tables, LIDs: 1, fixed: true}
	p := out.frame()
	p.Bounds, p.Unreachable = r.Plan.Bounds, r.Plan.Unreachable
	out.Plan = p
	x := newRoads(out, lids)
	k := &fors.Pack{First: p.First, Servers: len(r.Tree.Servers), Cables: x.cables(), Work: pods.PackWork, Choices: x.choices}
	if bySingles(r) { // every server is a leaf of its own to the pack
		out.home(0)
		x.leafOf, p.Group, p.First, k.First = out.homes, 1, p.Base, nil
	}
	k.Begin((p.LowerBound+p.Group-1)/p.Group, 1)
	late, blocks, err := x.begin(k)
	if err != nil {
		return nil, err
	}
	if !patient || lids == 1 {
		k.Grow(blocks - k.Blocks)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k.Place(late)
	out.read(k)
	out.Times.Plan = time.Since(start)
	return out, ctx.Err()
}

// read sets the plan to what a pack has, and the LIDs that it uses.
func (r *Result) read(k *fors.Pack) {
	p := r.Plan
	p.Blocks, p.To, p.Way = k.Blocks, k.To, k.Way
	p.Trim()
	r.Offset = k.Picks[:len(p.To)]
	for i, d := range p.To {
		if d != pods.Idle && p.Way[i] >= 0 {
			r.LIDs = max(r.LIDs, int(k.Picks[i])+1)
		}
	}
}

// frame returns a plan for whole leaves with no units.
func (r *Result) frame() *pods.Plan {
	p := &pods.Plan{Engine: pods.Routes, First: []int32{0}, Base: []int32{0}}
	for a := range r.shape.Leaves {
		p.Group = max(p.Group, len(r.shape.Leaves[a].Slots))
	}
	for a := range r.shape.Leaves {
		p.First = append(p.First, p.First[a]+int32(p.Group))
		p.Base = append(p.Base, p.Base[a]+int32(len(r.shape.Leaves[a].Slots)))
	}
	return p
}

// singlesLimit is how many servers may have plans for single senders where leaves differ, or in
// several exchanges. Blocks would last there as long as the largest leaf needs.
const singlesLimit = 4096

// bySingles reports if plans on given tables are for single senders.
func bySingles(r *Result) bool {
	return (pods.Ragged(r.shape) || len(r.Tree.Exchanges) > 1) && len(r.Tree.Servers) <= singlesLimit
}

// roads are the ways that tables have.
type roads struct {
	*Result
	lids  int
	at    [][]uint8 // [node] its table
	first []int32   // [node] the number of its port 0
	up    []bool    // [port by number] whether plans may use its cable
	plane []int16   // [port by number] of a leaf's cable
	lane  []int16   // [port by number] of a mid's cable upwards, −1 for others
	node  []int32   // [leaf of the plan]
	ways  []fors.Choice
	// leafOf is, for each leaf of the pack, that of the tree, nil if they are the same.
	leafOf []int32
}

func newRoads(r *Result, lids int) *roads {
	t := r.Tree
	x := &roads{Result: r, lids: lids, at: r.Tables.ByNode(t.Fabric), first: make([]int32, len(t.Fabric.Nodes)+1)}
	for i := range t.Fabric.Nodes {
		x.first[i+1] = x.first[i]
		if t.Fabric.Nodes[i].Kind == topology.Switch {
			x.first[i+1] += int32(len(t.Fabric.Nodes[i].Ports))
		}
	}
	x.up, x.plane, x.lane = make([]bool, x.cables()), make([]int16, x.cables()), make([]int16, x.cables())
	for i := range x.lane {
		x.lane[i] = -1
	}
	cable := func(node int32, c topology.Cable, plane, lane int) {
		if c.State != topology.Full {
			return
		}
		i := x.first[node] + int32(c.LeafPort)
		x.up[i], x.plane[i], x.lane[i] = true, int16(plane), int16(lane)
		x.up[x.first[t.Fabric.Nodes[node].Ports[c.LeafPort].Peer]+int32(c.SpinePort)] = true
	}
	for l := range t.Leaves {
		for j, c := range t.Leaves[l].Cables {
			cable(t.Leaves[l].Node, c, j, -1)
		}
	}
	for m := range t.Mids {
		for k, c := range t.Mids[m].Cables {
			cable(t.Mids[m].Node, c, -1, k)
		}
	}
	for a := range r.shape.Leaves {
		x.node = append(x.node, t.Leaves[t.Hosts[t.Servers[r.Plan.Base[a]]].Leaf].Node)
	}
	return x
}

// cables returns how many numbers ports have.
func (x *roads) cables() int { return int(x.first[len(x.first)-1]) }

// way follows one of a server's LIDs from a leaf; it is false where that takes other cables than
// plans may.
func (x *roads) way(a, b int, to int32, lid int) (c fors.Choice, ok bool) {
	c = fors.Choice{Cables: fors.NoCables, Way: -1, Pick: uint8(lid)}
	f, node, at := x.Tree.Fabric, x.node[a], int(x.Tree.Hosts[x.Tree.Servers[to]].LID)+lid
	for n := range c.Cables {
		if node == x.node[b] {
			return c, true
		}
		if at >= len(x.at[node]) {
			return c, false
		}
		port := x.at[node][at]
		if int(port) >= len(f.Nodes[node].Ports) {
			return c, false
		}
		i := x.first[node] + int32(port)
		if !x.up[i] {
			return c, false
		}
		switch c.Cables[n] = i; n {
		case 0:
			c.Way = int16(len(x.Tree.Lanes)) + x.plane[i]
		case 1:
			if x.lane[i] >= 0 {
				c.Way = x.lane[i]
			}
		}
		node = f.Nodes[node].Ports[port].Peer
	}
	return c, node == x.node[b]
}

// leaf returns the leaf of the tree that a leaf of the pack stands for.
func (x *roads) leaf(of int) int {
	if x.leafOf != nil {
		return int(x.leafOf[of])
	}
	return of
}

// choices lists the ways from a leaf to a server, in memory that the next call uses again.
func (x *roads) choices(a int, to int32) []fors.Choice {
	a, b := x.leaf(a), int(x.home(to))
	x.ways = x.ways[:0]
	for lid := range x.lids {
		c, ok := x.way(a, b, to, lid)
		for i := 0; ok && i < len(x.ways); i++ {
			ok = x.ways[i].Cables != c.Cables
		}
		if ok {
			x.ways = append(x.ways, c)
		}
	}
	return x.ways
}

// begin puts the units of the shift into their blocks that have the ways of the whole tree,
// and lists all others. It returns as many blocks as the fullest cable carries if each unit in turn
// takes its base LID, or another LID where that cable has more units than blocks so far.
func (x *roads) begin(k *fors.Pack) (late []fors.Late, blocks int, err error) {
	p, leaves := x.Plan, len(x.shape.Leaves)
	none := map[[2]int32]bool{}
	for _, u := range p.Unreachable {
		none[[2]int32{x.home(int32(u.Src)), x.home(int32(u.Dst))}] = true
	}
	base, load := x.baseWays(), make([]int, x.cables())
	unit := func(block, of int, d int32) {
		a := x.leaf(of)
		if len(none) > 0 && none[[2]int32{int32(a), x.home(d)}] {
			return
		}
		w := base(a, d)
		if w.ok && most(load, &w.Choice) <= block {
			add(load, &w.Choice)
		} else if all := k.Choices(of, d); len(all) > 0 {
			least := slices.MinFunc(all, func(c, than fors.Choice) int { return most(load, &c) - most(load, &than) })
			add(load, &least)
		} else if err == nil {
			err = fmt.Errorf("none of %d LIDs of %s leads there from all leaves that have a way to it", x.lids, x.Tree.Hosts[x.Tree.Servers[d]].Name)
		}
		if !w.whole || block < 0 || block >= k.Blocks || !k.Fits(block, of, d, &w.Choice) {
			late = append(late, fors.Late{Leaf: of, To: d})
		}
	}
	switch p.Engine = pods.Pods; {
	case x.leafOf != nil:
		pods.Steps(x.shape, unit)
		slices.SortFunc(late, func(u, v fors.Late) int { return cmp.Or(cmp.Compare(u.Leaf, v.Leaf), cmp.Compare(u.To, v.To)) })
	case x.shape.Places == 0 && x.shape.Shifts():
		x.shape.Turns(p.Base, unit)
	default:
		p.Engine = pods.Routes
		for shift := range leaves {
			for a := range leaves {
				b := (a + shift) % leaves
				for d := p.Base[b]; d < p.Base[b+1]; d++ {
					unit(-1, a, d)
				}
			}
		}
	}
	return late, slices.Max(load), err
}

// baseWay is the way of a base LID from a leaf.
type baseWay struct {
	fors.Choice
	ok, whole bool // it lives; it is that of the whole tree
}

// baseWays tells the ways of base LIDs. For single senders, of which each asks for them, all are
// looked up once.
func (x *roads) baseWays() func(a int, d int32) baseWay {
	n, ways := len(x.Tree.Servers), x.wholeWays(0)
	look := func(a int, d int32) (w baseWay) {
		b := int(x.home(d))
		w.Choice, w.ok = x.way(a, b, d, 0)
		w.whole = w.ok && (b == a || w.Way == ways(a, int(d)))
		return w
	}
	if x.leafOf == nil {
		return look
	}
	all := make([]baseWay, len(x.shape.Leaves)*n)
	_ = parallel.All(len(x.shape.Leaves), runtime.GOMAXPROCS(0), func(int) func(int) error {
		return func(a int) error {
			for d := range n {
				all[a*n+d] = look(a, int32(d))
			}
			return nil
		}
	})
	return func(a int, d int32) baseWay { return all[a*n+int(d)] }
}

// most returns what the fullest cable of a way carries.
func most(load []int, c *fors.Choice) (n int) {
	for _, i := range c.Cables {
		if i >= 0 {
			n = max(n, load[i])
		}
	}
	return n
}

// add adds a unit to the load of the cables of a way.
func add(load []int, c *fors.Choice) {
	for _, i := range c.Cables {
		if i >= 0 {
			load[i]++
		}
	}
}
