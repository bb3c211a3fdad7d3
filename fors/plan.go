// Package fors plans the phases of an all-to-all exchange on a two-level fat
// tree whose cables and switches may be damaged: which server sends to which in
// each phase, and over which lane, so that no link carries two transfers of one
// phase. It knows leaves, lanes and servers by index, nothing of LIDs or files.
//
// Paper: FORS, "Fault-adaptive Optimized Routing and Scheduling for DAQ
// Networks"; sections and equations are cited where code follows them.
package fors

import "errors"

// ErrNotApplicable is returned by an engine that does not apply to the tree.
var ErrNotApplicable = errors.New("the engine does not apply to the tree")

// Server is the index of a server in a Tree: leaf by leaf, by slot within a leaf.
type Server int32

// Lane is the index of a path through the top of the tree.
type Lane int16

// Phase is the index of a time step.
type Phase int32

// Idle stands for "no server" in a plan's rows; Local is the lane of a transfer
// that stays on its leaf.
const (
	Idle  Server = -1
	Local Lane   = -1
)

// Tree is the part of a fat tree that planning needs.
type Tree struct {
	Lanes int // K
	// Slots is, per leaf, the indices α of the servers present, strictly ascending. A leaf
	// with M0 places and an absent server has a gap.
	Slots [][]int
	// Up is [leaf][lane] whether the lane is usable at the leaf.
	Up [][]bool
	// Closed, if not nil, reports whether lane k cannot be addressed at server d (its LMC
	// gives too few LIDs).
	Closed func(d Server, k Lane) bool
	// Spine, if not nil, is [lane] the spine of each lane, for trees with parallel cables.
	// Only plans for one LID a server use it: traffic up to a spine by one cable goes down
	// by any, the same for all traffic at the spine for a server.
	Spine []int
	// Exchange, if not nil, is [server] the exchange in which the server takes part:
	// servers send to those of the same exchange only. Nil is one exchange of all.
	Exchange []int
}

// sameExchange reports whether two servers are in the same exchange.
func (t *Tree) sameExchange(s, d Server) bool {
	return t.Exchange == nil || t.Exchange[s] == t.Exchange[d]
}

// Peers returns the most servers that one server exchanges data with.
func (t *Tree) Peers() int {
	most, count := t.Servers(), map[int]int{}
	if t.Exchange != nil {
		most = 0
		for _, x := range t.Exchange {
			count[x]++
			most = max(most, count[x])
		}
	}
	return most - 1
}

// Mixed reports whether servers of one leaf are in different exchanges.
func (t *Tree) Mixed() bool {
	s := 0
	for _, slots := range t.Slots {
		for i := range slots {
			if !t.sameExchange(Server(s), Server(s+i)) {
				return true
			}
		}
		s += len(slots)
	}
	return false
}

// Demand returns the ordered pairs of servers that exchange data.
func (t *Tree) Demand() *PairSet {
	servers := t.Servers()
	x := NewPairSet(servers)
	for s := range Server(servers) {
		for d := range Server(servers) {
			if t.sameExchange(s, d) {
				x.Add(s, d)
			}
		}
	}
	return x
}

// Engine names how a plan was made.
type Engine string

// The engines. Shift is the undamaged linear shift, Rotation keeps its lanes when some are
// dead, Algorithm is section 4's schedule with Algorithm 2's routing, Exact reaches the
// lower bound under any damage, and Conservative is the fallback, always conflict-free and
// longer than necessary.
const (
	Shift        Engine = "shift"
	Rotation     Engine = "rotation"
	Algorithm    Engine = "algorithm"
	Exact        Engine = "exact"
	ILP          Engine = "ilp"
	Conservative Engine = "conservative"
)

// Certificate names the proof of a lower bound.
type Certificate string

// The certificates: every server must send to P−1 others; a leaf's transfers must pass its
// living lanes; a linear programme; all transfers from a leaf to a server take one lane,
// because the server has one LID; none.
const (
	ByServers Certificate = "servers"
	ByLeaf    Certificate = "leaf"
	ByLP      Certificate = "lp"
	ByLID     Certificate = "lid"
	ByNothing Certificate = "none"
)

// Pair is an ordered pair of servers.
type Pair struct{ Src, Dst Server }

// Numbers returns pairs as numbers of servers.
func Numbers(pairs []Pair) [][2]int32 {
	out := make([][2]int32, len(pairs))
	for i, p := range pairs {
		out[i] = [2]int32{int32(p.Src), int32(p.Dst)}
	}
	return out
}

// Plan is a schedule with its routing. Row p of To and Lane holds phase p,
// indexed by source server; its length is Servers.
type Plan struct {
	Engine  Engine
	Servers int
	Phases  int
	To      []Server // [phase][source], Idle if the source does not send
	Lane    []Lane   // [phase][source], Local for same-leaf transfers
	Bounds
	// Unreachable lists the pairs whose leaves share no usable lane, in order;
	// they are in no phase.
	Unreachable []Pair
}

// Bounds limits the number of phases of a tree for any plan.
type Bounds struct {
	// Reduction is f: the largest shortage of living lanes at a leaf, max(0, n_A − living
	// lanes).
	Reduction int
	// Affected is m: the number of lanes that are down at one or more leaves with servers.
	Affected    int
	LowerBound  int // phases
	Certificate Certificate
}

// NewPlan returns a plan of the given size in which every server idles.
func NewPlan(engine Engine, servers, phases int) *Plan {
	p := newPlan(engine, servers, phases)
	p.idle()
	return p
}

// newPlan returns a plan with uninitialized rows.
func newPlan(engine Engine, servers, phases int) *Plan {
	return &Plan{Engine: engine, Servers: servers, Phases: phases,
		To: make([]Server, servers*phases), Lane: make([]Lane, servers*phases)}
}

// idle makes all servers of a plan idle.
func (p *Plan) idle() {
	for i := range p.To {
		p.To[i] = Idle
	}
	for i := range p.Lane {
		p.Lane[i] = Local
	}
}

// Row returns the destinations and lanes of phase ph, indexed by source.
func (p *Plan) Row(ph Phase) ([]Server, []Lane) {
	from, to := int(ph)*p.Servers, (int(ph)+1)*p.Servers
	return p.To[from:to], p.Lane[from:to]
}

// dropEmpty removes the phases without transfers.
func (p *Plan) dropEmpty() {
	kept := 0
	for ph := range p.Phases {
		to, lane := p.Row(Phase(ph))
		if allIdle(to) {
			continue
		}
		if kept != ph {
			keptTo, keptLane := p.Row(Phase(kept))
			copy(keptTo, to)
			copy(keptLane, lane)
		}
		kept++
	}
	p.Phases = kept
	p.To, p.Lane = p.To[:kept*p.Servers], p.Lane[:kept*p.Servers]
}

func allIdle(to []Server) bool {
	for _, d := range to {
		if d != Idle {
			return false
		}
	}
	return true
}

// addPhase appends a phase in which every server idles.
func (p *Plan) addPhase() {
	for range p.Servers {
		p.To, p.Lane = append(p.To, Idle), append(p.Lane, Local)
	}
	p.Phases++
}

// Gap returns the number of phases over the lower bound.
func (p *Plan) Gap() int { return p.Phases - p.LowerBound }

// Servers returns the number of servers of the tree.
func (t *Tree) Servers() int {
	n := 0
	for _, s := range t.Slots {
		n += len(s)
	}
	return n
}
