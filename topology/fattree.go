package topology

import (
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/health"
)

// CableState is the state of a lane at a leaf.
type CableState uint8

// The states. Degraded cables run below the baseline's rate, or are held because they keep
// bouncing: no schedule uses them; other traffic may if nothing better is left.
const (
	NoCable  CableState = iota // the leaf never had a cable for this lane
	Missing                    // in the baseline, but not in the fabric
	Degraded                   // present, but excluded from schedules
	Full                       // up at full width and speed
)

// Cable is a leaf's cable of a lane or, on three levels, a leaf's or a mid's: its ports on the
// lower and the upper switch, zero unless it is Degraded or Full.
type Cable struct {
	LeafPort  uint8
	SpinePort uint8
	State     CableState
}

// Usable reports whether traffic of any kind can take the cable.
func (c Cable) Usable() bool { return c.State >= Degraded }

// Leaf is a leaf switch of the baseline.
type Leaf struct {
	Node   int32 // None while it is absent
	GUID   ib.GUID
	Name   string
	Cables []Cable // [lane]
}

// Spine is a spine switch of the baseline.
type Spine struct {
	Node   int32 // None while it is absent
	GUID   ib.GUID
	Name   string
	First  int // its first lane
	Cables int // the number of its lanes
}

// Host is an end port of an adapter or router that is attached to the tree.
type Host struct {
	EndPort
	Name  string
	Role  Role
	At    PortRef // the switch port that its cable is plugged into
	Leaf  int     // index of its leaf, −1 for a host on a spine
	Spine int     // index of its spine, −1 for a host on a leaf
	Alpha int     // α, its index on the leaf; 0 on a spine
	// First is the lane of the base LID of index 0 on its leaf, BaselineLeaf.First; on three levels
	// First + Alpha is the host's place where servers are lined up, see PodTree.Turn.
	First  int
	Server bool // takes part in the exchange; a bystander otherwise
	// Exchange is the index of the exchange in which a server takes part, of
	// Common.Exchanges; see ExchangeOf.
	Exchange int
	Out      bool // its leaf is drained: no plan has it, and it is routed as a bystander
	Moved    bool // some leaves send to its base LID over other lanes than LIDLane: DLID avoids it
}

// Finding is a deviation of the fabric from its baseline.
type Finding = health.Finding

// The codes of findings.
const (
	CableDown     = "cable-down"
	CableDegraded = "cable-degraded"
	CableMoved    = "cable-moved"
	CableNew      = "cable-new"
	SpineDown     = "spine-down"
	SpineNew      = "spine-new"
	LeafDown      = "leaf-down"
	LeafNew       = "leaf-new"
	HostAbsent    = "host-absent"
	HostMoved     = "host-moved"
	HostNew       = "host-new"
	HostReplaced  = "host-replaced"
	PartlyCovered = "partly-covered"
	// LeafBinds: a leaf with few cables makes every exchange longer than the others need.
	LeafBinds = "leaf-binds"
	// FewSpineCables: most leaves have many hosts for each cable, as rails without spines.
	FewSpineCables = "few-spine-cables"
	// ExchangeDiffers: servers that the settings put into groups are not as these say.
	ExchangeDiffers = "exchange-differs"
)

// FatTree is a fabric seen through its baseline. Leaves, spines and lanes are numbered as
// in the baseline, whether present or not.
type FatTree struct {
	Common
	Baseline  *Baseline // with the newcomers of this fabric
	Lanes     int       // K
	LaneOf    []int     // [lane] index of its spine
	Spines    []Spine
	Leaves    []Leaf
	NewSpines []int32  // nodes of switches that join leaves and wait for the baseline to be accepted
	Pods      *PodTree // the tree of three levels of which this is PodTree.Exchange, nil otherwise
}

// Common is what trees of two and of three levels have.
type Common struct {
	Fabric *Fabric
	// Hosts are those on leaves by (leaf, α), then those on other switches by node GUID and port.
	Hosts   []Host
	Servers []int // indices into Hosts, ascending: the servers of the exchange
	// Exchanges names those that are planned together, nil for one of all servers.
	Exchanges []string
	// Routed are the end ports on the tree's switches that are routed but neither servers nor
	// bystanders: aggregation nodes, and ports that cannot be told apart. They have no
	// index of their own; Alpha spreads them over the lanes.
	Routed []Host
	// Rank is the order of the switches, [node]: paths that go up by rank first and then
	// down cannot deadlock; see rank.go. 0 for other nodes.
	Rank     []int32
	Findings []Finding
	// Uncovered is the part of the fabric outside the tree.
	Uncovered Uncovered
}

// LaneUp reports whether schedules may use the lane at the leaf.
func (t *FatTree) LaneUp(leaf, lane int) bool { return t.Leaves[leaf].Cables[lane].State == Full }

// Hold takes a cable that is Full out of schedules: it becomes Degraded.
func (t *FatTree) Hold(leaf, lane int) { t.Leaves[leaf].Cables[lane].hold() }

func (c *Cable) hold() {
	if c.State == Full {
		c.State = Degraded
	}
}

// LIDLane returns the lane that LID base+j of the host travels: (j + α + first) mod K, −1
// in a tree of one leaf, which has no lanes.
func (t *FatTree) LIDLane(h *Host, j int) int {
	if t.Lanes == 0 {
		return -1
	}
	return (j + h.Alpha + h.First) % t.Lanes
}

// DLID returns the destination LID that leads to the host over the lane: base + ((k − α −
// first) mod K), or the next LID after that for the same lane where that is the base LID
// and Host.Moved. It is false where the host's LMC is too small for it.
func (t *FatTree) DLID(h *Host, lane int) (ib.LID, bool) {
	j := (lane - h.Alpha - h.First) % t.Lanes
	if j < 0 {
		j += t.Lanes
	}
	if j == 0 && h.Moved {
		j = t.Lanes
	}
	return h.LID + ib.LID(j), j < 1<<h.LMC
}
