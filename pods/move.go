package pods

// Mover moves units of a plan to other ways and blocks. Units that are not moved stay as
// they are.
type Mover struct {
	*Plan
	t       *Tree
	home    []int32 // [server] its leaf
	planeOf []int32
	all     []int16
	slots   int
	blocks  []usage
}

// usage is the resources in use in a block: the slot, as block·slots + slot, or −1.
type usage struct {
	out, in    []int32 // [leaf·planes + plane]
	rise, fall []int32 // [pod·lanes + lane]
	heard      []int32 // [server]
}

// NewMover begins to move units of a plan in blocks on a tree; those of the slots given,
// each as block·slots + slot, are taken out at once.
func NewMover(p *Plan, t *Tree, out []int) *Mover {
	m := &Mover{Plan: p, t: t, planeOf: t.planeOf(), slots: int(p.First[len(p.First)-1])}
	for a := range t.Leaves {
		for range t.Leaves[a].Slots {
			m.home = append(m.home, int32(a))
		}
	}
	for k := range t.Lanes() + t.Planes() {
		m.all = append(m.all, int16(k))
	}
	for _, at := range out {
		p.To[at], p.Way[at] = Idle, -1
	}
	m.blocks = m.unused(p.Blocks)
	for b := range p.Blocks {
		for leaf := range t.Leaves {
			for s := p.First[leaf]; s < p.First[leaf+1]; s++ {
				if at := b*m.slots + int(s); p.To[at] != Idle {
					m.use(b, leaf, p.To[at], p.Way[at], int32(at))
				}
			}
		}
	}
	return m
}

// Put moves the unit of a slot, to a server, into the first block that has a free slot of
// its group, where the server is idle and one of the ways free, its own block first.
// Otherwise it may take the way of another unit of its own block that fits elsewhere; a new
// block is the last resort. Nil ways are all living ones. It returns the unit's place, and
// the other one's old and new place, −1 if none.
func (m *Mover) Put(was int, to int32, ways []int16) (at, from, now int) {
	if ways == nil {
		ways = m.all
	}
	if at, from, now = m.Try(was, to, ways); at >= 0 {
		return at, from, now
	}
	leaf, first := m.groupOf(was)
	m.addBlock()
	return m.fitIn(m.Blocks-1, leaf, first, to, ways), -1, -1
}

// Try does so without a new block: at is −1 where it does not fit.
func (m *Mover) Try(was int, to int32, ways []int16) (at, from, now int) {
	own := was / m.slots
	leaf, first := m.groupOf(was)
	if at = m.fitIn(own, leaf, first, to, ways); at < 0 {
		at = m.fitAny(leaf, first, to, ways)
	}
	if at >= 0 {
		return at, -1, -1
	}
	return m.displace(own, leaf, first, to, ways)
}

// groupOf returns the leaf of a slot, and the first slot of its group.
func (m *Mover) groupOf(at int) (leaf, first int) {
	slot := at % m.slots
	for int(m.First[leaf+1]) <= slot {
		leaf++
	}
	return leaf, slot - (slot-int(m.First[leaf]))%m.Group
}

// fitAny puts a unit into the first block where it fits, −1 if none.
func (m *Mover) fitAny(leaf, first int, to int32, ways []int16) int {
	for b := range m.Blocks {
		if at := m.fitIn(b, leaf, first, to, ways); at >= 0 {
			return at
		}
	}
	return -1
}

// displace puts a unit into a block in place of another one that fits elsewhere by the way
// that it has.
func (m *Mover) displace(block, leaf, first int, to int32, ways []int16) (at, from, now int) {
	u := &m.blocks[block]
	b, lanes, planes := int(m.home[to]), m.t.Lanes(), m.t.Planes()
	for _, way := range ways {
		if (int(way) >= lanes) != (m.t.Leaves[leaf].Pod == m.t.Leaves[b].Pod) || !m.t.Lives(leaf, b, way) {
			continue
		}
		other, j := int32(-1), int(way)-lanes
		if j < 0 {
			j = int(m.planeOf[way])
			other = max(u.rise[m.t.Leaves[leaf].Pod*lanes+int(way)], u.fall[m.t.Leaves[b].Pod*lanes+int(way)])
		}
		if other = max(other, u.in[b*planes+j], u.out[leaf*planes+j]); other < 0 || m.To[other] == to {
			continue
		}
		d, kept := m.To[other], m.Way[other]
		m.free(int(other))
		if at = m.fitIn(block, leaf, first, to, []int16{way}); at >= 0 {
			x, y := m.groupOf(int(other))
			if now = m.fitAny(x, y, d, []int16{kept}); now >= 0 && now != int(other) {
				return at, int(other), now
			}
			if now >= 0 {
				m.free(now)
			}
			m.free(at)
		}
		x, _ := m.groupOf(int(other))
		m.To[other], m.Way[other] = d, kept
		m.use(block, x, d, kept, other)
	}
	return -1, -1, -1
}

// free takes a unit out of its slot.
func (m *Mover) free(at int) {
	leaf, _ := m.groupOf(at)
	m.use(at/m.slots, leaf, m.To[at], m.Way[at], -1)
	m.To[at], m.Way[at] = Idle, -1
}

// unused is so many blocks with nothing in use.
func (m *Mover) unused(blocks int) []usage {
	cables, lanes := len(m.t.Leaves)*m.t.Planes(), m.t.Pods*m.t.Lanes()
	all := make([]int32, blocks*(2*cables+2*lanes+len(m.home)))
	for i := range all {
		all[i] = -1
	}
	take := func(n int) (part []int32) {
		part, all = all[:n:n], all[n:]
		return part
	}
	out := make([]usage, blocks)
	for b := range out {
		out[b] = usage{take(cables), take(cables), take(lanes), take(lanes), take(len(m.home))}
	}
	return out
}

func (m *Mover) addBlock() {
	m.blocks = append(m.blocks, m.unused(1)...)
	m.Blocks++
	for range m.slots {
		m.To, m.Way = append(m.To, Idle), append(m.Way, -1)
	}
}

// use marks what a unit uses with its slot, −1 to unmark it.
func (m *Mover) use(block, a int, to int32, way int16, slot int32) {
	u := &m.blocks[block]
	u.heard[to] = slot
	if way < 0 {
		return
	}
	b, lanes, planes := int(m.home[to]), m.t.Lanes(), m.t.Planes()
	j := int(way) - lanes
	if j < 0 {
		j = int(m.planeOf[way])
		u.rise[m.t.Leaves[a].Pod*lanes+int(way)], u.fall[m.t.Leaves[b].Pod*lanes+int(way)] = slot, slot
	}
	u.out[a*planes+j], u.in[b*planes+j] = slot, slot
}

// fitIn puts a unit into a block, and returns its place, −1 if it does not fit.
func (m *Mover) fitIn(block, a, first int, to int32, ways []int16) int {
	u := &m.blocks[block]
	if u.heard[to] >= 0 {
		return -1
	}
	slot := -1
	for s := first; s < first+m.Group && slot < 0; s++ {
		if m.To[block*m.slots+s] == Idle {
			slot = block*m.slots + s
		}
	}
	if slot < 0 {
		return -1
	}
	b := int(m.home[to])
	if a == b {
		m.To[slot], m.Way[slot] = to, -1
		m.use(block, a, to, -1, int32(slot))
		return slot
	}
	A, B, lanes, planes := &m.t.Leaves[a], &m.t.Leaves[b], m.t.Lanes(), m.t.Planes()
	for _, way := range ways {
		j := int(way) - lanes
		if within := j >= 0; within != (A.Pod == B.Pod) {
			continue
		} else if !within {
			rise, fall := A.Pod*lanes+int(way), B.Pod*lanes+int(way)
			if j = int(m.planeOf[way]); !m.t.Up[rise] || !m.t.Up[fall] || u.rise[rise] >= 0 || u.fall[fall] >= 0 {
				continue
			}
		}
		if A.Up[j] && B.Up[j] && u.out[a*planes+j] < 0 && u.in[b*planes+j] < 0 {
			m.To[slot], m.Way[slot] = to, way
			m.use(block, a, to, way, int32(slot))
			return slot
		}
	}
	return -1
}
