package photonic

// Whole stands in Hop.Chunk for all chunks of a message, one after another.
const Whole = -1

// Wait stands in Path.Switches for a hop in which nothing moves.
const Wait = -1

// Topology is a setting of the switches: a permutation of the GPUs for each.
type Topology struct {
	// Offsets has, for each switch, the a by which it joins position p to p+a mod n.
	Offsets []int `json:"offsets,omitempty"`
	// Next is the GPU to which each is joined, [switch][GPU], if Offsets is nil.
	Next [][]int32 `json:"next,omitempty"`
}

// Path is how the messages of one class move in a round. The class x are the
// messages from every position p to p+x mod n; all move alike. They go over the
// switch Switches[t] in hop t of the round, or Wait.
type Path struct {
	Class    int    `json:"class"`
	Switches []int8 `json:"switches"`
}

// Round is a number of hops on one topology. Each hop takes as long as the
// largest message that moves in the round.
type Round struct {
	Topology int    `json:"topology"`
	Hops     int    `json:"hops"`
	Paths    []Path `json:"paths"`
}

// Hop is a chunk, or a whole message, on its way over one link, of a plan without
// rounds.
type Hop struct {
	Start    Time  `json:"start_us"` // since the reconfiguration before
	Flow     int32 `json:"flow"`     // source·n + destination
	Chunk    int32 `json:"chunk"`    // of the message, from 0, or Whole
	Topology int16 `json:"topology"` // the number of the topology
	Switch   int16 `json:"switch"`   // over which the chunk leaves its current GPU
}

// Plan is a planned exchange. It has Rounds or Hops, not both.
type Plan struct {
	GPUs       int        `json:"gpus"`
	Degree     int        `json:"degree"`
	Family     string     `json:"family"` // of the topologies, see docs/optical.md
	Topologies []Topology `json:"topologies"`
	Label      []int32    `json:"label,omitempty"` // the GPU at each position; nil means the identity
	Rounds     []Round    `json:"rounds,omitempty"`
	Hops       []Hop      `json:"hops,omitempty"`
	Spans      []Time     `json:"spans_us,omitempty"` // of Hops: how long each topology is kept

	Sum        Time    `json:"transfer_us"`    // of all topologies, without reconfigurations
	Cost       Time    `json:"cost_us"`        // with them
	HopSum     float64 `json:"hop_sum"`        // Sum in units of T
	LowerBound Time    `json:"lower_bound_us"` // see Instance.Bound
}

// at is the GPU at a position.
func (p *Plan) at(position int) int {
	if p.Label == nil {
		return position
	}
	return int(p.Label[position])
}

// finish sets the costs of a plan from its rounds or spans.
func (p *Plan) finish(in *Instance) *Plan {
	p.Sum = 0
	for _, keep := range p.Keeps(in) {
		p.Sum += keep
	}
	p.Cost = p.Sum + Time(len(p.Topologies))*in.Reconfig
	p.HopSum = float64(p.Sum) / float64(in.T())
	return p
}

// hopTime is the time of one hop of a round: of the largest message in it.
func (p *Plan) hopTime(in *Instance, r *Round) Time {
	if in.Sizes == nil {
		return in.T()
	}
	largest := int64(0)
	for _, path := range r.Paths {
		for at := range p.GPUs {
			largest = max(largest, in.size(p.at(at), p.at((at+path.Class)%p.GPUs)))
		}
	}
	return in.Link.Time(largest)
}
