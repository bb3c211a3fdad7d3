package topology

import (
	"fmt"
)

// NotFatTree is the reason why a fabric is not a two-level fat tree: the switch or cable at
// fault.
type NotFatTree struct {
	Where string // the switch or cable
	Why   string
}

// Error prints the verdict.
func (e *NotFatTree) Error() string {
	return fmt.Sprintf("not a two-level fat tree: %s %s", e.Where, e.Why)
}

// side is a switch's level in the tree.
type side uint8

const (
	noSide side = iota // not a switch, or a switch without any cable
	leafSide
	spineSide
)

// neighbours counts what a switch's active cables lead to.
type neighbours struct {
	hosts    int     // end ports of adapters and routers, those of aggregation nodes apart
	switches []int32 // one per cable to another switch, in port order
}

func (f *Fabric) neighbours() []neighbours {
	out := make([]neighbours, len(f.Nodes))
	for i := range f.Nodes {
		if f.Nodes[i].Kind != Switch {
			continue
		}
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if !port.Up() || port.Peer == int32(i) {
				continue
			}
			switch f.Nodes[port.Peer].Role {
			case SwitchNode:
				out[i].switches = append(out[i].switches, port.Peer)
			case AggregationNode:
			default:
				out[i].hosts++
			}
		}
	}
	return out
}

// BroughtUp returns nil if the subnet manager has brought up enough of the fabric to judge
// it: half of the cables are active, and half of the hosts have LIDs.
func (f *Fabric) BroughtUp() error {
	cables, active, hosts, lids := 0, 0, 0, 0
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for p := range n.Ports {
			port := &n.Ports[p]
			if !port.Connected() {
				continue
			}
			cables++
			if port.State != Active {
				continue
			}
			active++
			if n.Kind != Switch && n.Role != AggregationNode {
				hosts++
				if port.LID != 0 {
					lids++
				}
			}
		}
	}
	switch {
	case 2*active < cables:
		return &NotYet{"the fabric", fmt.Sprintf("has %d ends of cables, and %d of them are active", cables, active)}
	case 2*lids < hosts:
		return &NotYet{"the fabric", fmt.Sprintf("has %d host ports, and %d of them have an LID", hosts, lids)}
	}
	return nil
}

// core is the two-level tree in a fabric.
type core struct {
	*Fabric
	near   []neighbours
	sides  []side
	spines []int32
	leaves []int32 // those with hosts
	bare   []int32 // leaves without hosts
}

// findCore finds the two-level tree in the fabric. It returns a *NotFatTree if there is
// none, or too many hosts are elsewhere. There are two ways to tell leaves from spines:
// spines may have hosts of their own, or no switch with hosts is a spine, as when leaves
// have more cables to one another than to spines. The second is used if only it gives a
// tree, or if it holds more additional hosts than it leaves additional cables unused.
func findCore(f *Fabric) (*core, error) {
	near := f.neighbours()
	best, err := newCore(f, near, true)
	if best == nil {
		return nil, err
	}
	if other, otherErr := newCore(f, near, false); otherErr == nil && (err != nil || other.held()-best.held() > other.unused()-best.unused()) {
		return other, nil
	}
	return best, err
}

// newCore finds the tree by one way to tell leaves from spines, together with the verdict
// on it. It is nil if no switch has a cable.
func newCore(f *Fabric, near []neighbours, hostsMove bool) (*core, error) {
	c := &core{Fabric: f, near: near}
	if err := c.split(hostsMove); err != nil {
		return nil, err
	}
	for i := range f.Nodes {
		if c.sides[i] == leafSide && c.near[i].hosts > 0 {
			c.leaves = append(c.leaves, int32(i))
		}
	}
	// Fewer leaves make fewer spines, and fewer spines fewer leaves that meet.
	for before := -1; before != len(c.leaves); {
		before = len(c.leaves)
		c.chooseSpines()
		c.dropStrangers()
	}
	c.chooseBare()
	return c, c.verdict()
}

// held counts the hosts on the core's leaves.
func (c *core) held() int {
	n := 0
	for _, i := range c.leaves {
		n += c.near[i].hosts
	}
	return n
}

// unused counts the cables between two switches of one side.
func (c *core) unused() int {
	ends := 0
	for i := range c.near {
		for _, j := range c.near[i].switches {
			if c.sides[i] == c.sides[j] {
				ends++
			}
		}
	}
	return ends / 2
}

// split tells leaves from spines. Switches with hosts start as leaves, the
// others as spines; a switch most of whose cables stay on its own side changes
// sides, the worst one first: so a spine with an adapter plugged in and a leaf
// without hosts are recognised. hostsMove lets switches with hosts do so, too.
func (c *core) split(hostsMove bool) error {
	near := c.near
	c.sides = make([]side, len(c.Nodes))
	var switches []int32
	for i := range c.Nodes {
		switch {
		case c.Nodes[i].Kind != Switch:
			continue
		case near[i].hosts > 0:
			c.sides[i] = leafSide
		case len(near[i].switches) > 0:
			c.sides[i] = spineSide
		default:
			continue
		}
		switches = append(switches, int32(i))
	}
	if len(switches) == 0 {
		return &NotFatTree{"the fabric", "has no switch with a cable"}
	}
	same := make([]int, len(c.Nodes)) // cables of a switch that stay on its side
	for _, i := range switches {
		for _, j := range near[i].switches {
			if c.sides[j] == c.sides[i] {
				same[i]++
			}
		}
	}
	// Every change of sides lowers the number of same-side cables, so this ends.
	for {
		worst, excess := None, 0
		for _, i := range switches {
			e := 2*same[i] - len(near[i].switches)
			if hostsMove || near[i].hosts == 0 {
				if e > excess || e == excess && e > 0 && near[i].hosts < near[worst].hosts {
					worst, excess = i, e
				}
			}
		}
		if worst == None {
			break
		}
		c.sides[worst] = leafSide + spineSide - c.sides[worst]
		same[worst] = len(near[worst].switches) - same[worst]
		for _, j := range near[worst].switches {
			if c.sides[j] == c.sides[worst] {
				same[j]++
			} else {
				same[j]--
			}
		}
	}
	if hostsMove {
		turn(near, c.sides)
	}
	return nil
}

// turn swaps leaves and spines if the spines have more hosts: with an adapter on every
// spine, all switches start as leaves.
func turn(near []neighbours, sides []side) {
	surplus := 0
	for i := range near {
		switch {
		case len(near[i].switches) == 0:
		case sides[i] == spineSide:
			surplus += near[i].hosts
		default:
			surplus -= near[i].hosts
		}
	}
	for i := range near {
		if surplus > 0 && len(near[i].switches) > 0 {
			sides[i] = leafSide + spineSide - sides[i]
		}
	}
}

// chooseSpines chooses the switches on the spines' side that join leaves: at least two of
// them, if there are two, and a quarter of all; a switch with hosts must join most. A
// switch that joins fewer does not carry the exchange, and a lane of it would cost every
// host an LID.
func (c *core) chooseSpines() {
	c.spines = c.spines[:0]
	leaf := make([]bool, len(c.Nodes))
	for _, i := range c.leaves {
		leaf[i] = true
	}
	seen := make([]int, len(c.Nodes)) // the last switch that counted a leaf, by number from 1
	for i := range c.Nodes {
		if c.sides[i] != spineSide {
			continue
		}
		joined := 0
		for _, j := range c.near[i].switches {
			if leaf[j] && seen[j] != i+1 {
				seen[j] = i + 1
				joined++
			}
		}
		most := 2*joined > len(c.leaves)
		if joined > 0 && joined >= min(2, len(c.leaves)) && (most || c.near[i].hosts == 0 && 4*joined >= len(c.leaves)) {
			c.spines = append(c.spines, int32(i))
		}
	}
}

// unmetShare is the share of the pairs of hosts, one in so many, that may be
// without a common spine for all that a leaf belongs to the tree.
const unmetShare = 100

// dropStrangers leaves out leaves that meet too few others at spines: behind switches
// in a row, in another pod of a tree of three levels, or on a fabric of their own. Those
// with the most unmet hosts go first, until the unmet pairs are few and every leaf meets
// half of the other hosts: a host behind two switches is few pairs in a large tree.
func (c *core) dropStrangers() {
	m := newMeetings(c.Fabric, c.leaves, c.spines)
	hosts, total := make([]int, len(c.leaves)), 0
	for a, i := range c.leaves {
		hosts[a] = c.near[i].hosts
		total += hosts[a]
	}
	unmet := make([]int, len(c.leaves)) // hosts that a leaf does not meet
	pairs := 0                          // ordered pairs of hosts whose leaves do not meet
	for a := range c.leaves {
		for b := range c.leaves {
			if a != b && !m.meet(a, b) {
				unmet[a] += hosts[b]
			}
		}
		pairs += hosts[a] * unmet[a]
	}
	gone := make([]bool, len(c.leaves))
	for {
		worst := -1
		for a := range c.leaves {
			if !gone[a] && (worst < 0 || unmet[a] > unmet[worst] || unmet[a] == unmet[worst] && hosts[a] <= hosts[worst]) {
				worst = a
			}
		}
		if unmetShare*pairs <= total*(total-1) && (worst < 0 || 2*unmet[worst] <= total-hosts[worst]) {
			break
		}
		gone[worst] = true
		total -= hosts[worst]
		pairs -= 2 * hosts[worst] * unmet[worst]
		for b := range c.leaves {
			if b != worst && !m.meet(worst, b) {
				unmet[b] -= hosts[worst]
			}
		}
	}
	kept := c.leaves[:0]
	for a, i := range c.leaves {
		if !gone[a] {
			kept = append(kept, i)
		}
	}
	c.leaves = kept
}

// chooseBare takes the switches without hosts all of whose cables lead to spines: leaves
// whose hosts are off.
func (c *core) chooseBare() {
	spine := make([]bool, len(c.Nodes))
	for _, i := range c.spines {
		spine[i] = true
	}
	for i := range c.Nodes {
		if c.sides[i] != leafSide || c.near[i].hosts > 0 {
			continue
		}
		all := true
		for _, j := range c.near[i].switches {
			all = all && spine[j]
		}
		if all {
			c.bare = append(c.bare, int32(i))
		}
	}
}

// meetings finds leaves with usable cables to a common switch above them.
type meetings struct {
	words int
	up    []uint64 // [leaf·words…] the set of switches above
}

func newMeetings(f *Fabric, leaves, uppers []int32) *meetings {
	place := make([]int, len(f.Nodes))
	for u, i := range uppers {
		place[i] = u + 1
	}
	m := &meetings{words: (len(uppers) + 63) / 64}
	m.up = make([]uint64, len(leaves)*m.words)
	for l, i := range leaves {
		if i == None {
			continue
		}
		for p := range f.Nodes[i].Ports {
			if port := &f.Nodes[i].Ports[p]; port.Up() && place[port.Peer] > 0 {
				u := place[port.Peer] - 1
				m.up[l*m.words+u/64] |= 1 << (u % 64)
			}
		}
	}
	return m
}

func (m *meetings) meet(a, b int) bool {
	for w := range m.words {
		if m.up[a*m.words+w]&m.up[b*m.words+w] != 0 {
			return true
		}
	}
	return false
}
