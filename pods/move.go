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

// usage is what a block has in use.
type usage struct {
	out, in    []bool // [leaf·planes + plane]
	rise, fall []bool // [pod·lanes + lane]
	heard      []bool // [server]
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
	for b := range p.Blocks {
		m.blocks = append(m.blocks, m.unused())
		for leaf := range t.Leaves {
			for s := p.First[leaf]; s < p.First[leaf+1]; s++ {
				if at := b*m.slots + int(s); p.To[at] != Idle {
					m.use(b, leaf, p.To[at], p.Way[at])
				}
			}
		}
	}
	return m
}

// Put puts the unit that a slot had, to a server, into the first block that has a free slot
// of its group, where the server is idle and one of the ways free, its own block before all
// others, and into a new block at last. Nil ways are all that live. It returns where the
// unit is.
func (m *Mover) Put(was int, to int32, ways []int16) int {
	slot, leaf := was%m.slots, 0
	for int(m.First[leaf+1]) <= slot {
		leaf++
	}
	first := slot - (slot-int(m.First[leaf]))%m.Group
	if ways == nil {
		ways = m.all
	}
	if at := m.fitIn(was/m.slots, leaf, first, to, ways); at >= 0 {
		return at
	}
	for b := 0; ; b++ {
		if b == m.Blocks {
			m.addBlock()
		}
		if at := m.fitIn(b, leaf, first, to, ways); at >= 0 {
			return at
		}
	}
}

func (m *Mover) unused() usage {
	leaves, planes, lanes := len(m.t.Leaves), m.t.Planes(), m.t.Lanes()
	return usage{make([]bool, leaves*planes), make([]bool, leaves*planes), make([]bool, m.t.Pods*lanes), make([]bool, m.t.Pods*lanes), make([]bool, len(m.home))}
}

func (m *Mover) addBlock() {
	m.blocks = append(m.blocks, m.unused())
	m.Blocks++
	for range m.slots {
		m.To, m.Way = append(m.To, Idle), append(m.Way, -1)
	}
}

// use marks what a unit uses.
func (m *Mover) use(block, a int, to int32, way int16) {
	u := &m.blocks[block]
	u.heard[to] = true
	if way < 0 {
		return
	}
	b, lanes, planes := int(m.home[to]), m.t.Lanes(), m.t.Planes()
	j := int(way) - lanes
	if j < 0 {
		j = int(m.planeOf[way])
		u.rise[m.t.Leaves[a].Pod*lanes+int(way)], u.fall[m.t.Leaves[b].Pod*lanes+int(way)] = true, true
	}
	u.out[a*planes+j], u.in[b*planes+j] = true, true
}

// fitIn puts a unit into a block, and returns where it is, −1 where it does not fit.
func (m *Mover) fitIn(block, a, first int, to int32, ways []int16) int {
	u := &m.blocks[block]
	if u.heard[to] {
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
		m.use(block, a, to, -1)
		return slot
	}
	A, B, lanes, planes := &m.t.Leaves[a], &m.t.Leaves[b], m.t.Lanes(), m.t.Planes()
	for _, way := range ways {
		j := int(way) - lanes
		if within := j >= 0; within != (A.Pod == B.Pod) {
			continue
		} else if !within {
			rise, fall := A.Pod*lanes+int(way), B.Pod*lanes+int(way)
			if j = int(m.planeOf[way]); !m.t.Up[rise] || !m.t.Up[fall] || u.rise[rise] || u.fall[fall] {
				continue
			}
		}
		if A.Up[j] && B.Up[j] && !u.out[a*planes+j] && !u.in[b*planes+j] {
			m.To[slot], m.Way[slot] = to, way
			m.use(block, a, to, way)
			return slot
		}
	}
	return -1
}
