package pods

import "slices"

// Mover moves units of a plan to other ways and blocks. Units that are not moved stay as
// they are.
type Mover struct {
	*Plan
	t      *Tree
	home   []int32 // [server] its leaf
	leaf   []int32 // [slot] its leaf
	slots  int
	cables int
	used   [][]int32 // [block][cable, and server after these] the slot, as block·slots + slot, or −1
}

// NewMover begins to move units of a plan in blocks on a tree; those of the slots given,
// each as block·slots + slot, are taken out at once.
func NewMover(p *Plan, t *Tree, out []int) *Mover {
	m := &Mover{Plan: p, t: t, slots: int(p.First[len(p.First)-1]), cables: t.cables()}
	for a := range t.Leaves {
		m.home = append(m.home, slices.Repeat([]int32{int32(a)}, len(t.Leaves[a].Slots))...)
		m.leaf = append(m.leaf, slices.Repeat([]int32{int32(a)}, int(p.First[a+1]-p.First[a]))...)
	}
	for _, at := range out {
		p.To[at], p.Way[at] = Idle, -1
	}
	for at, to := range p.To {
		if at%m.slots == 0 {
			m.used = append(m.used, slices.Repeat([]int32{-1}, m.cables+len(m.home)))
		}
		if to != Idle {
			m.use(at, int32(at))
		}
	}
	return m
}

// Put moves the unit of a slot, to a server, into the first block that has a free slot of
// its group, where the server is idle and one of the ways free, its own block first.
// Otherwise it may take the way of another unit of its own block that fits elsewhere; a new
// block is the last resort. It returns the unit's place, and the other one's old and new
// place, −1 if none.
func (m *Mover) Put(was int, to int32, ways []int16) (at, from, now int) {
	if at = m.fitIn(was/m.slots, was, to, ways); at < 0 {
		at = m.fitAny(was, to, ways)
	}
	if at >= 0 {
		return at, -1, -1
	}
	if at, from, now = m.displace(was, to, ways); at >= 0 {
		return at, from, now
	}
	m.used = append(m.used, slices.Repeat([]int32{-1}, m.cables+len(m.home)))
	for range m.slots {
		m.To, m.Way = append(m.To, Idle), append(m.Way, -1)
	}
	m.Blocks++
	return m.fitIn(m.Blocks-1, was, to, ways), -1, -1
}

// groupOf returns the leaf of a slot, and the first slot of its group.
func (m *Mover) groupOf(at int) (leaf int32, first int) {
	slot := at % m.slots
	leaf = m.leaf[slot]
	return leaf, slot - (slot-int(m.First[leaf]))%m.Group
}

// fitAny puts the unit of a slot into the first block where it fits, −1 if none.
func (m *Mover) fitAny(was int, to int32, ways []int16) int {
	for b := range m.Blocks {
		if at := m.fitIn(b, was, to, ways); at >= 0 {
			return at
		}
	}
	return -1
}

// displace puts the unit of a slot into its block in place of another one that fits elsewhere by the
// way that it has.
func (m *Mover) displace(was int, to int32, ways []int16) (at, from, now int) {
	leaf, _ := m.groupOf(was)
	for _, way := range ways {
		other := int32(-1)
		for _, i := range m.t.passes(leaf, m.home[to], way) {
			if i >= 0 {
				other = max(other, m.used[was/m.slots][i])
			}
		}
		if other < 0 || m.To[other] == to {
			continue
		}
		from = int(other)
		d, kept := m.To[from], m.Way[from]
		m.free(from)
		if at = m.fitIn(was/m.slots, was, to, []int16{way}); at >= 0 {
			if now = m.fitAny(from, d, []int16{kept}); now >= 0 && now != from {
				return at, from, now
			}
			if now >= 0 {
				m.free(now)
			}
			m.free(at)
		}
		m.To[from], m.Way[from] = d, kept
		m.use(from, other)
	}
	return -1, -1, -1
}

// free takes a unit out of its slot.
func (m *Mover) free(at int) {
	m.use(at, -1)
	m.To[at], m.Way[at] = Idle, -1
}

// use marks what the unit of a slot uses with the slot, or with −1 as free.
func (m *Mover) use(at int, by int32) {
	used, to := m.used[at/m.slots], m.To[at]
	leaf, _ := m.groupOf(at)
	used[m.cables+int(to)] = by
	for _, i := range m.t.passes(leaf, m.home[to], m.Way[at]) {
		if i >= 0 {
			used[i] = by
		}
	}
}

// fitIn puts the unit of a slot into a block, and returns its place, −1 if it does not fit.
func (m *Mover) fitIn(block, was int, to int32, ways []int16) int {
	used := m.used[block]
	leaf, first := m.groupOf(was)
	slot := slices.Index(m.To[block*m.slots+first:][:m.Group], Idle)
	if slot < 0 || used[m.cables+int(to)] >= 0 {
		return -1
	}
	slot += block*m.slots + first
	for _, way := range ways {
		of := m.t.passes(leaf, m.home[to], way)
		if !slices.ContainsFunc(of[:], func(i int32) bool { return i >= 0 && used[i] >= 0 }) {
			m.To[slot], m.Way[slot] = to, way
			m.use(slot, int32(slot))
			return slot
		}
	}
	return -1
}
