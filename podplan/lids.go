package podplan

import (
	"context"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/pods"
	"github.com/forsd/forsd/topology"
)

// waysTo returns the lane that the tables give an LID of a host, by its offset, from another pod
// while nothing has failed, and the way within its pod.
func (r *Result) waysTo(h *topology.Host, o int) (lane, inner int16) {
	t := r.Tree
	j, turn := t.Turn(h)
	j, turn = (j+o)%t.Planes, turn+o/t.Planes
	return int16(t.First[j] + turn%max(1, t.First[j+1]-t.First[j])), int16(len(t.Lanes) + j)
}

// pin gives every transfer of a plan for single senders the LID that has its lane on any
// tables. It is false where a lane has none: the planes differ in lanes.
func (r *Result) pin() bool {
	p, offset := r.Plan, r.offsets()
	r.Offset = make([]uint8, len(p.To))
	for i, way := range p.Way {
		if p.To[i] == pods.Idle || way < 0 {
			continue
		}
		o := offset(p.To[i], way)
		if o < 0 {
			r.Offset = nil
			return false
		}
		r.Offset[i], r.LIDs = uint8(o), max(r.LIDs, o+1)
	}
	return true
}

// offsets finds the first LID of a server that has a way on any tables, −1 if none has.
func (r *Result) offsets() func(to int32, way int16) int {
	have := lids(r.Tree)
	return func(to int32, way int16) int {
		h := &r.Tree.Hosts[r.Tree.Servers[to]]
		for o := range have {
			if lane, inner := r.waysTo(h, o); way == lane || way == inner {
				return o
			}
		}
		return -1
	}
}

// addresses is the switches' routing of the LIDs of servers: −1 if open.
type addresses struct {
	*Result
	n    int     // LIDs of all servers
	have int     // LIDs of a server
	leaf []int8  // [leaf of the plan·n + LID] plane
	mid  []int16 // [mid·n + LID] lane upwards
	top  []int16 // [top·n + LID] lane downwards, where the top has several to a mid
	down []int8  // [index of a mid in its pod·n + LID] plane downwards, in the pod of the server
	many []bool  // [top] whether it has several
	lids int
}

func (r *Result) newAddresses() *addresses {
	t := r.Tree
	x := &addresses{Result: r, have: lids(r.Tree), many: severalLanes(t), lids: 1}
	x.n = len(t.Servers) * x.have
	x.leaf, x.mid = open[int8](len(r.shape.Leaves)*x.n), open[int16](len(t.Mids)*x.n)
	x.top, x.down = open[int16](len(t.Tops)*x.n), open[int8](t.MidsPerPod()*x.n)
	return x
}

func open[T int8 | int16](n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = -1
	}
	return s
}

// fits reports whether LID o of server d may have a way from a leaf of the plan.
func (x *addresses) fits(a int, d int32, way int16, o int) bool {
	t := x.Tree
	lid, lanes := int(d)*x.have+o, len(t.Lanes)
	j := int(way) - lanes
	if j < 0 {
		j = t.Lanes[way].Plane
		if at := x.mid[x.midOf(a, j)*x.n+lid]; at >= 0 && at != way {
			return false
		}
		if top := t.Lanes[way].Top; x.many[top] {
			if at := x.top[top*x.n+lid]; at >= 0 && at != way {
				return false
			}
		}
	}
	if at := x.leaf[a*x.n+lid]; at >= 0 && int(at) != j {
		return false
	}
	at := x.down[t.MidOf[j]*x.n+lid]
	return at < 0 || int(at) == j
}

// take gives LID o of server d a way from a leaf.
func (x *addresses) take(a int, d int32, way int16, o int) {
	t := x.Tree
	lid, lanes := int(d)*x.have+o, len(t.Lanes)
	j := int(way) - lanes
	if j < 0 {
		j = t.Lanes[way].Plane
		x.mid[x.midOf(a, j)*x.n+lid] = way
		if top := t.Lanes[way].Top; x.many[top] {
			x.top[top*x.n+lid] = way
		}
	}
	x.leaf[a*x.n+lid], x.down[t.MidOf[j]*x.n+lid] = int8(j), int8(j)
	x.lids = max(x.lids, o+1)
}

// offset finds the first LID that may have a way, −1 if none may.
func (x *addresses) offset(a int, d int32, way int16) int {
	for o := range x.have {
		if x.fits(a, d, way, o) {
			return o
		}
	}
	return -1
}

// addressParts is how many parts of the servers get their LIDs side by side: what LIDs of
// different servers do does not depend on each other.
const addressParts = 16

// address gives every transfer an LID whose entries may lead over its way. What finds none
// is moved to a way that its LIDs allow, and where that is taken to another block. Base
// LIDs keep the ways of the plan for them, if one is given.
func (r *Result) address(ctx context.Context, base *Result) error {
	p := r.Plan
	x := r.newAddresses()
	if base != nil {
		base.crossing(func(at, a int, d int32) { x.take(a, d, base.Plan.Way[at], 0) })
	}
	r.Offset = make([]uint8, len(p.To))
	var late [addressParts][]int
	var most [addressParts]int
	n := len(r.Tree.Servers)
	if _, err := parallel.Each(ctx, addressParts, runtime.GOMAXPROCS(0), func(int) func(int) error {
		return func(i int) error {
			part := *x
			late[i] = part.addressPart(int32(n*i/addressParts), int32(n*(i+1)/addressParts))
			most[i] = part.lids
			return nil
		}
	}); err != nil {
		return err
	}
	x.lids = slices.Max(most[:])
	all := slices.Concat(late[:]...)
	slices.Sort(all)
	err := r.place(x, all)
	r.LIDs = x.lids
	return err
}

// addressPart does so for the transfers to some servers, and returns the slots of those that
// find none.
func (x *addresses) addressPart(first, end int32) (late []int) {
	x.crossing(func(at, a int, d int32) {
		if d < first || d >= end {
			return
		}
		if o := x.offset(a, d, x.Plan.Way[at]); o >= 0 {
			x.take(a, d, x.Plan.Way[at], o)
			x.Offset[at] = uint8(o)
		} else {
			late = append(late, at)
		}
	})
	return late
}

// place puts units elsewhere that are in slots without a way that their LIDs allow. All others keep
// their ways, and may go to other blocks for them.
func (r *Result) place(x *addresses, late []int) error {
	if len(late) == 0 {
		return nil
	}
	p := r.Plan
	k, leafOf := r.shape.Packing(p)
	way, offset := open[int16](len(leafOf)*k.Servers), make([]uint8, len(leafOf)*k.Servers) // [group·servers + server]
	var ways []fors.Choice
	k.Choices = func(group int, to int32) []fors.Choice {
		a, at := int(leafOf[group]), group*k.Servers+int(to)
		ways = r.shape.Choices(int32(a), r.home(to), ways[:0])
		for i := range ways {
			if c := &ways[i]; way[at] >= 0 {
				c.Pick = offset[at]
			} else if c.Way >= 0 {
				c.Pick = uint8(x.offset(a, to, c.Way))
			}
		}
		ways = slices.DeleteFunc(ways, func(c fors.Choice) bool { return way[at] >= 0 && c.Way != way[at] || c.Pick == noLID })
		return ways
	}
	slots, units := len(p.To)/p.Blocks, make([]fors.Late, len(late))
	for i, at := range late {
		units[i] = fors.Late{Leaf: at % slots / p.Group, To: p.To[at]}
		p.To[at] = pods.Idle
	}
	k.Begin(p.Blocks, 1)
	for at, to := range p.To {
		if group := at % slots / p.Group; to != pods.Idle {
			way[group*k.Servers+int(to)], offset[group*k.Servers+int(to)] = p.Way[at], r.Offset[at]
			k.Fits(at/slots, group, to, &k.Choices(group, to)[0])
		}
	}
	for len(units) > 0 { // the entries that some take may stand in the way of others
		for _, u := range units {
			if len(k.Choices(u.Leaf, u.To)) == 0 {
				h := &r.Tree.Hosts[r.Tree.Servers[u.To]]
				return fmt.Errorf("the LMC gives %d LIDs to a host, too few to reach %s from all leaves over the cables that are left", x.have, h.Name)
			}
		}
		k.Place(slices.Clone(units))
		units = slices.DeleteFunc(units, func(u fors.Late) bool {
			a, at, is := int(leafOf[u.Leaf]), k.At(u), u.Leaf*k.Servers+int(u.To)
			o := x.offset(a, u.To, k.Way[at])
			if o < 0 {
				k.Remove(at)
				return false
			}
			way[is], offset[is], k.Picks[at] = k.Way[at], uint8(o), uint8(o)
			x.take(a, u.To, way[is], o)
			return true
		})
	}
	p.Blocks, p.To, p.Way, r.Offset = k.Blocks, k.To, k.Way, k.Picks
	return nil
}

// noLID is the offset of a way that no LID may have.
const noLID = math.MaxUint8

// crossing calls for each unit that crosses cables, with its slot as block·slots + slot, its
// leaf and its server.
func (r *Result) crossing(unit func(at, a int, d int32)) {
	at := 0
	for range r.Plan.Blocks {
		for a := range r.shape.Leaves {
			for end := at + int(r.Plan.First[a+1]-r.Plan.First[a]); at < end; at++ {
				if r.Plan.To[at] != pods.Idle && r.Plan.Way[at] >= 0 {
					unit(at, a, r.Plan.To[at])
				}
			}
		}
	}
}

// home returns the leaf of a server, as the plan numbers leaves.
func (r *Result) home(d int32) int32 {
	if r.homes == nil {
		for a := range r.shape.Leaves {
			r.homes = append(r.homes, slices.Repeat([]int32{int32(a)}, len(r.shape.Leaves[a].Slots))...)
		}
	}
	return r.homes[d]
}

// entries lists the table entries that the plan needs and that may differ from those of
// trees without a plan: a sequence for each pod that sends, and one for tops and receiving
// pods.
func (r *Result) entries() []iter.Seq[lft.Entry] { return r.byPod(r.units) }

// senders calls for each unit that some leaves send over cables, until that says no.
type senders func(first, end int, unit func(from, to *topology.PodLeaf, way int16, lid ib.LID) bool)

// byPod lists the entries of units.
func (r *Result) byPod(units senders) []iter.Seq[lft.Entry] {
	x := r.newCrossings()
	all := []iter.Seq[lft.Entry]{func(yield func(lft.Entry) bool) { units(0, len(r.shape.Leaves), x.down(yield)) }}
	for first := 0; first < len(r.shape.Leaves); {
		end := first
		for end < len(r.shape.Leaves) && r.shape.Leaves[end].Pod == r.shape.Leaves[first].Pod {
			end++
		}
		from, to := first, end
		all = append(all, func(yield func(lft.Entry) bool) { units(from, to, x.up(yield)) })
		first = end
	}
	return all
}

// units calls for each unit that some leaves send over cables, until that says no.
func (r *Result) units(first, end int, unit func(from, to *topology.PodLeaf, way int16, lid ib.LID) bool) {
	t, p := r.Tree, r.Plan
	slots := int(p.First[len(p.First)-1])
	for b := range p.Blocks {
		for a := first; a < end; a++ {
			from := &t.Leaves[t.Hosts[t.Servers[p.Base[a]]].Leaf]
			for s := int(p.First[a]); s < int(p.First[a+1]); s++ {
				at := b*slots + s
				if p.To[at] == pods.Idle || p.Way[at] < 0 {
					continue
				}
				h := &t.Hosts[t.Servers[p.To[at]]]
				if !unit(from, &t.Leaves[h.Leaf], p.Way[at], h.LID+ib.LID(r.Offset[at])) {
					return
				}
			}
		}
	}
}

// crossings knows where LIDs have a choice on their way down.
type crossings struct {
	t    *topology.PodTree
	many []bool // [top] whether it has several lanes
	wide []bool // [index of a mid in its pod] whether it has several planes
}

func (r *Result) newCrossings() *crossings {
	t := r.Tree
	x := &crossings{t, severalLanes(t), make([]bool, t.MidsPerPod())}
	seen := make([]bool, t.MidsPerPod())
	for _, m := range t.MidOf {
		x.wide[m], seen[m] = x.wide[m] || seen[m], true
	}
	return x
}

// severalLanes returns, by top, whether it has several lanes.
func severalLanes(t *topology.PodTree) []bool {
	many, seen := make([]bool, len(t.Tops)), make([]bool, len(t.Tops))
	for _, l := range t.Lanes {
		many[l.Top], seen[l.Top] = many[l.Top] || seen[l.Top], true
	}
	return many
}

// up lists the entries by which an LID leaves a leaf, and its pod.
func (x *crossings) up(yield func(lft.Entry) bool) func(from, to *topology.PodLeaf, way int16, lid ib.LID) bool {
	t := x.t
	return func(from, _ *topology.PodLeaf, way int16, lid ib.LID) bool {
		j := int(way) - len(t.Lanes)
		if j >= 0 {
			return yield(lft.Entry{Node: from.Node, LID: lid, Port: from.Cables[j].LeafPort})
		}
		j = t.Lanes[way].Plane
		mid := t.Mid(from.Pod, j)
		return yield(lft.Entry{Node: from.Node, LID: lid, Port: from.Cables[j].LeafPort}) && yield(lft.Entry{Node: mid.Node, LID: lid, Port: mid.Cables[way].LeafPort})
	}
}

// down lists those by which it comes to a pod, and to a leaf.
func (x *crossings) down(yield func(lft.Entry) bool) func(from, to *topology.PodLeaf, way int16, lid ib.LID) bool {
	t := x.t
	return func(_, to *topology.PodLeaf, way int16, lid ib.LID) bool {
		j := int(way) - len(t.Lanes)
		if j < 0 {
			j = t.Lanes[way].Plane
			if top := t.Lanes[way].Top; x.many[top] && !yield(lft.Entry{Node: t.Tops[top].Node, LID: lid, Port: t.Mid(to.Pod, j).Cables[way].SpinePort}) {
				return false
			}
		}
		return !x.wide[t.MidOf[j]] || yield(lft.Entry{Node: t.Mid(to.Pod, j).Node, LID: lid, Port: to.Cables[j].SpinePort})
	}
}
