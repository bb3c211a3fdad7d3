package planner

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/forsd/forsd/fors"
	"github.com/forsd/forsd/topology"
)

// Memory caches plans, and repaired wishes. A plan is cached by the shape of the damage: in a
// tree whose leaves have equally many servers, leaves are interchangeable, and so are lanes: a
// plan for one dead cable is one for any other, after renaming leaves, lanes and slots. So a
// handful of plans, made in advance, covers any cable that may die next. The zero value is ready
// for use and safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	plans   recent[*fors.Plan]    // by shape; immutable
	repairs recent[fors.Wish]     // by a digest of tree, wish and limits; immutable
	jobs    map[uint64]routedPlan // of the jobs last routed
}

// recent is values by their keys, most recently used last.
type recent[V any] []struct {
	key   string
	value V
}

// find returns the value of a key.
func (r *recent[V]) find(key string) (value V, known bool) {
	for i, x := range *r {
		if x.key == key {
			*r = append(slices.Delete(*r, i, i+1), x)
			return x.value, true
		}
	}
	return value, false
}

// keep puts a value in place of that of the same key, made concurrently, or of the least recently
// used ones if there are too many.
func (r *recent[V]) keep(key string, value V, most int) {
	if _, known := r.find(key); known {
		*r = (*r)[:len(*r)-1]
	}
	*r = append(slices.Delete(*r, 0, max(0, len(*r)+1-most)), struct {
		key   string
		value V
	}{key, value})
}

// A memory keeps the plans for the next loss after one or two, limited to the given number
// of transfers of six bytes.
const (
	rememberedPlans     = 16
	rememberedTransfers = 8 << 20
	rememberedRepairs   = 8 // one change asks for a few, several times each
)

// Holds returns how many plans of the given number of servers a memory keeps, at least one.
func (m *Memory) Holds(servers int) int {
	return max(1, min(rememberedPlans, rememberedTransfers/max(1, servers*servers)))
}

// PrepareLosses makes and caches the plans for the loss of any one more cable of a tree, as
// many as fit, if tree and settings allow it. It stops with ctx, or when wanted returns
// false. made counts the plans that were not cached already; ended is true if it was not
// stopped.
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

// remembers reports whether plans of a tree may be cached.
func (s Settings) remembers(t *topology.FatTree) bool {
	if s.Engine != "" && s.Engine != Auto || len(t.Servers) == 0 {
		return false
	}
	lids, err := s.groups(t)
	return err == nil && lids == 0
}

// prepare makes and caches the plan for a tree, unless it is cached or the tree has no
// standard names. It reports whether it has planned.
func (m *Memory) prepare(ctx context.Context, tree *fors.Tree) bool {
	n := standard(tree)
	if n == nil || m.find(n.shape) != nil {
		return false
	}
	_, err := automatic(ctx, tree, m)
	return err == nil
}

// find returns the cached plan for a shape, or nil.
func (m *Memory) find(shape string) *fors.Plan {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p, _ := m.plans.find(shape)
	return p
}

// keep caches a plan.
func (m *Memory) keep(shape string, p *fors.Plan) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plans.keep(shape, p, m.Holds(p.Servers))
}

// repaired returns the cached wish that a tree, a wish and limits have led to, or caches what
// repair returns.
func (m *Memory) repaired(tree *fors.Tree, w fors.Wish, limits [2]int, repair func() fors.Wish) fors.Wish {
	if m == nil {
		return repair()
	}
	from := fmt.Append([]byte(facts(tree)), limits, len(w.Via), len(w.Down))
	for _, k := range slices.Concat(w.Via, w.Down) {
		from = binary.LittleEndian.AppendUint16(from, uint16(k))
	}
	for _, stays := range w.Stay {
		from = strconv.AppendBool(from, stays)
	}
	sum := sha256.Sum256(from)
	m.mu.Lock()
	known, ok := m.repairs.find(string(sum[:]))
	m.mu.Unlock()
	if !ok {
		known = repair()
		m.mu.Lock()
		m.repairs.keep(string(sum[:]), known, rememberedRepairs)
		m.mu.Unlock()
	}
	return known
}

// facts describes a tree without closed lanes.
func facts(t *fors.Tree) string { return fmt.Sprintln(t.Lanes, t.Slots, t.Up, t.Exchange, t.Spine) }

// names are the standard names of leaves, lanes and slots of a tree: first the damaged
// leaves in order, then the others; first the lanes that are down at the first of these,
// then those at the second, then the others. The own lane of a slot remains that, because
// the slot's name follows from it.
type names struct {
	shape string // digest of the tree under its standard names
	tree  *fors.Tree
	leaf  []int // [standard name] the leaf; nil if the names are the tree's own
	lane  []int // [standard name] the lane
	slot  []int // [standard place among a leaf's servers] the place
}

// standard returns the standard names of a tree. It returns nil if leaves have different
// servers, lanes are closed to some servers, servers are in several exchanges, or the tree
// is undamaged.
func standard(t *fors.Tree) *names {
	if t.Closed != nil || t.Exchange != nil || len(t.Slots) == 0 {
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

// call names the slots' own lanes in order, then the other lanes, and the slots by their
// lanes. If there are more slots than lanes, slots have no lanes of their own.
func (n *names) call(t *fors.Tree, order []int) {
	slots := t.Slots[0]
	place := make([]int, t.Lanes) // [lane] of its slot among the servers, −1 if none
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

// back converts a plan from standard names to those of the tree, and copies it.
func (n *names) back(p *fors.Plan) *fors.Plan {
	out := *p
	if n.leaf == nil {
		out.To, out.Lane, out.Unreachable = slices.Clone(p.To), slices.Clone(p.Lane), slices.Clone(p.Unreachable)
		return &out
	}
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
