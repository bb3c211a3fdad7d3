package planner

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/topology"
)

// Memory keeps plans by the shape of the damage. In a tree whose leaves have as many
// servers each, leaves are alike, and so are lanes: a plan for one dead cable is one for
// any other, once leaves, lanes and the slots whose own they are have other names. So a
// handful of plans, made ahead, answers for whatever cable dies next. The zero value is
// ready for use, also by several at a time.
type Memory struct {
	mu    sync.Mutex
	plans []remembered          // the one used last at the end
	jobs  map[uint64]routedPlan // of the jobs that were routed last
}

// remembered is a plan for a tree with standard names. It is not changed any more.
type remembered struct {
	shape string
	plan  *fors.Plan
}

// A memory keeps the plans for the next loss after one or two, and so many transfers,
// of six bytes each, in all.
const (
	rememberedPlans     = 16
	rememberedTransfers = 8 << 20
)

// Holds tells how many plans of so many servers a memory keeps, one at least.
func (m *Memory) Holds(servers int) int {
	return max(1, min(rememberedPlans, rememberedTransfers/max(1, servers*servers)))
}

// PrepareLosses makes the plans for the loss of any one more cable of a tree and keeps them,
// as many as are kept, unless the tree or the settings are not of the kind. It ends with ctx,
// or when they are not wanted any more. It counts those that were not kept already, and tells
// whether it has come to its end.
func (m *Memory) PrepareLosses(ctx context.Context, t *topology.FatTree, s Settings, wanted func() bool) (made int, ended bool) {
	if !s.remembers(t) {
		return 0, wanted()
	}
	tree := forsTree(t)
	for _, up := range tree.Up {
		for k := range up {
			if !wanted() || ctx.Err() != nil {
				return made, false
			}
			if made == m.Holds(len(t.Servers)) {
				return made, true
			}
			if up[k] {
				up[k] = false
				if m.prepare(ctx, tree) {
					made++
				}
				up[k] = true
			}
		}
	}
	return made, true
}

// remembers tells whether plans of a tree may be kept.
func (s Settings) remembers(t *topology.FatTree) bool {
	if s.Engine != "" && s.Engine != Auto || len(t.Servers) == 0 {
		return false
	}
	lids, err := s.groups(t)
	return err == nil && lids == 0
}

// prepare makes the plan for a tree and keeps it, unless it is kept or has no standard
// names. It tells whether it has planned.
func (m *Memory) prepare(ctx context.Context, tree *fors.Tree) bool {
	n := standard(tree)
	if n == nil || m.find(n.shape) != nil {
		return false
	}
	_, err := automatic(ctx, tree, m)
	return err == nil
}

// find is the plan kept for a shape, nil for none.
func (m *Memory) find(shape string) *fors.Plan {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range m.plans {
		if r.shape == shape {
			m.plans = append(slices.Delete(m.plans, i, i+1), r)
			return r.plan
		}
	}
	return nil
}

// keep keeps a plan, in place of one of the same shape that another has made
// meanwhile, and of those not used for longest where there are too many.
func (m *Memory) keep(shape string, p *fors.Plan) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plans = slices.DeleteFunc(m.plans, func(r remembered) bool { return r.shape == shape })
	if over := len(m.plans) + 1 - m.Holds(p.Servers); over > 0 {
		m.plans = slices.Delete(m.plans, 0, min(over, len(m.plans)))
	}
	m.plans = append(m.plans, remembered{shape, p})
}

// names give leaves, lanes and slots of a tree their standard names: first the damaged
// leaves in order, then the others; first the lanes that are down at the first of
// these, then those at the second, then the others. A lane that is some slot's own
// keeps being that, for what a slot is called follows from it.
type names struct {
	shape string // digest of the tree under its standard names
	tree  *fors.Tree
	leaf  []int // [standard name] the leaf
	lane  []int // [standard name] the lane
	slot  []int // [standard place among a leaf's servers] the place
}

// standard finds the standard names of a tree, nil where it has none: leaves with
// different servers, lanes that are closed to some, or no damage.
func standard(t *fors.Tree) *names {
	if t.Closed != nil || len(t.Slots) == 0 {
		return nil
	}
	n := &names{}
	var sound, order []int
	taken := make([]bool, t.Lanes)
	for l, up := range t.Up {
		if !slices.Equal(t.Slots[l], t.Slots[0]) {
			return nil
		}
		if !slices.Contains(up, false) {
			sound = append(sound, l)
			continue
		}
		n.leaf = append(n.leaf, l)
		for k := range up {
			if !up[k] && !taken[k] {
				taken[k] = true
				order = append(order, k)
			}
		}
	}
	if len(n.leaf) == 0 {
		return nil
	}
	n.leaf = append(n.leaf, sound...)
	for k := range t.Lanes {
		if !taken[k] {
			order = append(order, k)
		}
	}
	n.call(t, order)
	n.rename(t)
	return n
}

// call gives the lanes that are slots' own their names in order, and the others theirs,
// and the slots those of their lanes. Where there are more slots than lanes, no lane is
// any slot's own.
func (n *names) call(t *fors.Tree, order []int) {
	slots := t.Slots[0]
	place := make([]int, t.Lanes) // [lane] of its slot among the servers, −1 for none
	for k := range place {
		place[k] = -1
	}
	for i, α := range slots {
		if n.slot = append(n.slot, i); slots[len(slots)-1] < t.Lanes {
			place[α] = i
		}
	}
	n.lane = make([]int, t.Lanes)
	for _, owned := range []bool{true, false} {
		next := 0
		for _, k := range order {
			if (place[k] >= 0) != owned {
				continue
			}
			for (place[next] >= 0) != owned {
				next++
			}
			if n.lane[next] = k; owned {
				n.slot[place[next]] = place[k]
			}
			next++
		}
	}
}

// rename makes the tree under its standard names.
func (n *names) rename(t *fors.Tree) {
	n.tree = &fors.Tree{Lanes: t.Lanes, Slots: t.Slots, Up: make([][]bool, len(t.Up))}
	shape := binary.AppendUvarint(nil, uint64(t.Lanes))
	for _, slot := range t.Slots[0] {
		shape = binary.AppendUvarint(shape, uint64(slot)+1)
	}
	shape = append(shape, 0)
	for l, from := range n.leaf {
		up := make([]bool, t.Lanes)
		for k, lane := range n.lane {
			if up[k] = t.Up[from][lane]; !up[k] {
				shape = binary.AppendUvarint(binary.AppendUvarint(shape, uint64(l)), uint64(k))
			}
		}
		n.tree.Up[l] = up
	}
	n.shape = string(binary.AppendUvarint(shape, uint64(len(n.leaf))))
}

// back is a plan under standard names, under those of the tree.
func (n *names) back(p *fors.Plan) *fors.Plan {
	out := *p
	out.To, out.Lane = make([]fors.Server, len(p.To)), make([]fors.Lane, len(p.Lane))
	size := p.Servers / len(n.leaf)
	server := make([]fors.Server, p.Servers)
	for l, leaf := range n.leaf {
		for i := range size {
			server[l*size+i] = fors.Server(leaf*size + n.slot[i])
		}
	}
	receiver := append([]fors.Server{fors.Idle}, server...) // [standard name + 1]
	taken := []fors.Lane{fors.Local}                        // [standard name + 1]
	for _, lane := range n.lane {
		taken = append(taken, fors.Lane(lane))
	}
	for ph := range p.Phases {
		to, lane := p.Row(fors.Phase(ph))
		newTo, newLane := out.Row(fors.Phase(ph))
		for s, x := range server {
			newTo[x], newLane[x] = receiver[to[s]+1], taken[lane[s]+1]
		}
	}
	out.Unreachable = make([]fors.Pair, len(p.Unreachable))
	for i, u := range p.Unreachable {
		out.Unreachable[i] = fors.Pair{Src: server[u.Src], Dst: server[u.Dst]}
	}
	slices.SortFunc(out.Unreachable, func(a, b fors.Pair) int {
		if a.Src != b.Src {
			return int(a.Src - b.Src)
		}
		return int(a.Dst - b.Dst)
	})
	if len(out.Unreachable) == 0 {
		out.Unreachable = p.Unreachable
	}
	return &out
}
