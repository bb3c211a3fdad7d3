package topology

import (
	"fmt"
	"regexp"
)

// CableState tells what a lane is at a leaf.
type CableState uint8

// The states. Degraded is for cables that run below the baseline's rate, and
// for those held back because they keep bouncing: no schedule uses them, other
// traffic may when nothing better is left.
const (
	NoCable  CableState = iota // the leaf never had a cable for this lane
	Missing                    // the baseline has it, the fabric has not
	Degraded                   // there, but not for schedules
	Full                       // up at full width and speed
)

// Cable is the lane of a leaf: where it is plugged in now, zero ports unless it
// is Degraded or Full.
type Cable struct {
	LeafPort  uint8
	SpinePort uint8
	State     CableState
}

// Usable tells whether traffic of any kind can take the cable.
func (c Cable) Usable() bool { return c.State >= Degraded }

// Leaf is a leaf switch of the baseline.
type Leaf struct {
	Node   int32 // None while it is absent
	GUID   GUID
	Name   string
	Cables []Cable // [lane]
}

// Spine is a spine switch of the baseline.
type Spine struct {
	Node   int32 // None while it is absent
	GUID   GUID
	Name   string
	First  int // its first lane
	Cables int // the number of its lanes
}

// Host is an end port of an adapter or router that is attached to the tree.
type Host struct {
	EndPort
	Name   string
	At     PortRef // the switch port that its cable is plugged into
	Leaf   int     // index of its leaf, −1 for a host on a spine
	Spine  int     // index of its spine, −1 for a host on a leaf
	Alpha  int     // α, its index on the leaf; 0 on a spine
	Server bool    // takes part in the exchange; a bystander otherwise
}

// Finding is a deviation of the fabric from its baseline.
type Finding struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// The codes of findings.
const (
	CableDown     = "cable-down"
	CableDegraded = "cable-degraded"
	CableMoved    = "cable-moved"
	CableNew      = "cable-new"
	Miswired      = "miswired-cable"
	SpineDown     = "spine-down"
	SpineNew      = "spine-new"
	LeafDown      = "leaf-down"
	LeafNew       = "leaf-new"
	HostAbsent    = "host-absent"
	HostMoved     = "host-moved"
	HostNew       = "host-new"
	HostReplaced  = "host-replaced"
	HostOnSpine   = "host-on-spine"
	SwitchUnknown = "switch-unknown"
)

// FatTree is a fabric seen through its baseline. Leaves, spines and lanes are
// numbered as in the baseline, whether present or not.
type FatTree struct {
	Fabric   *Fabric
	Baseline *Baseline // with the newcomers of this fabric
	Lanes    int       // K
	LaneOf   []int     // [lane] index of its spine
	Spines   []Spine
	Leaves   []Leaf
	Hosts    []Host // those on leaves by (leaf, α), then those on spines by node GUID and port
	Servers  []int  // indices into Hosts, ascending: the servers of the exchange
	Findings []Finding
	// Uncovered is what the tree does not cover.
	Uncovered Uncovered
}

// LaneUp tells whether schedules may use the lane at the leaf.
func (t *FatTree) LaneUp(leaf, lane int) bool { return t.Leaves[leaf].Cables[lane].State == Full }

// Hold takes a cable that is Full out of schedules: it becomes Degraded.
func (t *FatTree) Hold(leaf, lane int) {
	if c := &t.Leaves[leaf].Cables[lane]; c.State == Full {
		c.State = Degraded
	}
}

// LIDLane is the lane that LID base+j of the host travels: (j + α) mod K, −1 in
// a tree of one leaf, which has no lanes.
func (t *FatTree) LIDLane(h *Host, j int) int {
	if t.Lanes == 0 {
		return -1
	}
	return (j + h.Alpha) % t.Lanes
}

// DLID is the destination LID that leads to the host over the lane:
// base + ((k − α) mod K). It is false where the host's LMC is too small for it.
func (t *FatTree) DLID(h *Host, lane int) (LID, bool) {
	j := (lane - h.Alpha) % t.Lanes
	if j < 0 {
		j += t.Lanes
	}
	return h.LID + LID(j), j < 1<<h.LMC
}

// fitter carries the work of Fit.
type fitter struct {
	*FatTree
	leafAt, spineAt []int // [node] index, −1
	rate            Rate
}

// Fit sees fabric f through baseline b and grows a copy of it by what is new
// without renumbering anything: new leaves, new cables between known switches,
// new host ports. Host ports whose node description matches exclude (when not
// nil) are bystanders. New spines and surplus cables wait for the baseline to be
// accepted anew, and are reported like every other deviation.
func Fit(f *Fabric, b *Baseline, exclude *regexp.Regexp) (*FatTree, error) {
	b = b.clone()
	t := &fitter{FatTree: &FatTree{Fabric: f, Baseline: b, Lanes: b.Lanes()}, rate: ParseRate(b.Rate)}
	t.placeSwitches()
	for l := range t.Leaves {
		t.placeCables(l)
	}
	t.findings()
	if err := t.placeHosts(exclude); err != nil {
		return nil, err
	}
	return t.FatTree, nil
}

// find returns the node of the switch with GUID g, or None.
func (t *fitter) find(g GUID) int32 {
	if i := t.Fabric.Find(g); i != None && t.Fabric.Nodes[i].Kind == Switch {
		return i
	}
	return None
}

func (t *fitter) report(code, format string, args ...any) {
	t.Findings = append(t.Findings, Finding{code, fmt.Sprintf(format, args...)})
}

// placeSwitches finds the baseline's switches in the fabric, and appends new
// leaves: unknown switches whose cables to known switches all lead to spines.
func (t *fitter) placeSwitches() {
	f, b := t.Fabric, t.Baseline
	t.leafAt, t.spineAt = make([]int, len(f.Nodes)), make([]int, len(f.Nodes))
	for i := range f.Nodes {
		t.leafAt[i], t.spineAt[i] = -1, -1
	}
	for s := range b.Spines {
		spine := Spine{Node: t.find(b.Spines[s].GUID), GUID: b.Spines[s].GUID, Name: b.Spines[s].Name, First: len(t.LaneOf), Cables: b.Spines[s].Cables}
		if spine.Node != None {
			t.spineAt[spine.Node] = s
			spine.Name = f.Nodes[spine.Node].Label()
			b.Spines[s].Name = f.Nodes[spine.Node].Name
		}
		t.Spines = append(t.Spines, spine)
		for range spine.Cables {
			t.LaneOf = append(t.LaneOf, s)
		}
	}
	for l := range b.Leaves {
		if node := t.find(b.Leaves[l].GUID); node != None {
			t.leafAt[node] = l
		}
	}
	for i := range f.Nodes {
		if f.Nodes[i].Kind == Switch && t.leafAt[i] < 0 && t.spineAt[i] < 0 {
			t.placeUnknown(int32(i))
		}
	}
	for l := range b.Leaves {
		leaf := Leaf{Node: t.find(b.Leaves[l].GUID), GUID: b.Leaves[l].GUID, Name: b.Leaves[l].Name, Cables: make([]Cable, t.Lanes)}
		if leaf.Node != None {
			leaf.Name = f.Nodes[leaf.Node].Label()
			b.Leaves[l].Name = f.Nodes[leaf.Node].Name
		}
		t.Leaves = append(t.Leaves, leaf)
	}
}

func (t *fitter) placeUnknown(i int32) {
	n := &t.Fabric.Nodes[i]
	toSpines, toLeaves, others := 0, 0, 0
	for p := range n.Ports {
		port := &n.Ports[p]
		switch {
		case !port.Up() || t.Fabric.Nodes[port.Peer].Kind != Switch:
		case t.spineAt[port.Peer] >= 0:
			toSpines++
		case t.leafAt[port.Peer] >= 0:
			toLeaves++
		default:
			others++
		}
	}
	switch {
	case toSpines > 0 && toLeaves == 0:
		t.leafAt[i] = len(t.Baseline.Leaves)
		t.Baseline.Leaves = append(t.Baseline.Leaves, BaselineLeaf{GUID: n.GUID, Name: n.Name, Uplinks: make([]Uplink, t.Lanes)})
		t.report(LeafNew, "leaf %s is new: it has index %d", n, t.leafAt[i])
	case toLeaves > 0 && toSpines == 0:
		t.report(SpineNew, "spine %s is new: its lanes are used after forsctl baseline accept", n)
	default:
		t.report(SwitchUnknown, "switch %s is new and is neither a leaf nor a spine: %d cables to spines, %d to leaves, %d to other new switches", n, toSpines, toLeaves, others)
	}
}

// placeCables matches the leaf's cables with its lanes: those in the baseline's
// ports first, then moved ones in leaf-port order, then new ones.
func (t *fitter) placeCables(l int) {
	leaf, want := &t.Leaves[l], t.Baseline.Leaves[l].Uplinks
	for k, u := range want {
		if u != (Uplink{}) {
			leaf.Cables[k].State = Missing
		}
	}
	if leaf.Node == None {
		return
	}
	ports := t.Fabric.Nodes[leaf.Node].Ports
	var rest []int
	for p := range ports {
		if !ports[p].Up() || t.Fabric.Nodes[ports[p].Peer].Kind != Switch {
			continue
		}
		s := t.spineAt[ports[p].Peer]
		if s < 0 {
			if t.leafAt[ports[p].Peer] > l || t.leafAt[ports[p].Peer] == l && int(ports[p].PeerPort) >= p {
				t.report(Miswired, "cable %s joins two leaves: it is not used", t.Fabric.CableLabel(PortRef{leaf.Node, uint8(p)}))
			}
			continue
		}
		if k := t.laneAt(want, s, Uplink{uint8(p), ports[p].PeerPort}); k >= 0 {
			t.plug(l, k, p)
		} else {
			rest = append(rest, p)
		}
	}
	for _, p := range rest {
		t.placeStray(l, p)
	}
}

// laneAt is the lane of spine s whose uplink is u, or −1.
func (t *fitter) laneAt(want []Uplink, s int, u Uplink) int {
	for k := t.Spines[s].First; k < t.Spines[s].First+t.Spines[s].Cables; k++ {
		if want[k] == u {
			return k
		}
	}
	return -1
}

func (t *fitter) placeStray(l, p int) {
	leaf, want := &t.Leaves[l], t.Baseline.Leaves[l].Uplinks
	port := &t.Fabric.Nodes[leaf.Node].Ports[p]
	spine := &t.Spines[t.spineAt[port.Peer]]
	for _, state := range []CableState{Missing, NoCable} {
		for k := spine.First; k < spine.First+spine.Cables; k++ {
			if leaf.Cables[k].State != state {
				continue
			}
			if state == Missing {
				t.report(CableMoved, "the cable %s – %s is in ports %d and %d: the baseline has it in %d and %d", leaf.Name, spine.Name,
					p, port.PeerPort, want[k].LeafPort, want[k].SpinePort)
			} else {
				want[k] = Uplink{uint8(p), port.PeerPort}
			}
			t.plug(l, k, p)
			return
		}
	}
	t.report(CableNew, "the cable %s has no lane: it is used after forsctl baseline accept", t.Fabric.CableLabel(PortRef{leaf.Node, uint8(p)}))
}

func (t *fitter) plug(l, k, p int) {
	leaf := &t.Leaves[l]
	port := &t.Fabric.Nodes[leaf.Node].Ports[p]
	back := &t.Fabric.Nodes[port.Peer].Ports[port.PeerPort]
	leaf.Cables[k] = Cable{LeafPort: uint8(p), SpinePort: port.PeerPort, State: Full}
	for _, rate := range []Rate{port.Rate, back.Rate} {
		if rate.Below(t.rate) {
			leaf.Cables[k].State = Degraded
			t.report(CableDegraded, "the cable %s runs at %s instead of %s: no schedule uses it", t.Fabric.CableLabel(PortRef{leaf.Node, uint8(p)}), rate, t.rate)
			return
		}
	}
}

// findings reports absent switches and cables; a switch that is absent speaks
// for its cables.
func (t *fitter) findings() {
	for s := range t.Spines {
		if t.Spines[s].Node == None {
			t.report(SpineDown, "spine %s (%s) is absent", t.Spines[s].Name, t.Spines[s].GUID)
		}
	}
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		if leaf.Node == None {
			t.report(LeafDown, "leaf %s (%s) is absent", leaf.Name, leaf.GUID)
			continue
		}
		for k, c := range leaf.Cables {
			spine := &t.Spines[t.LaneOf[k]]
			if c.State == Missing && spine.Node != None {
				u := t.Baseline.Leaves[l].Uplinks[k]
				t.report(CableDown, "the cable %s port %d – %s port %d is down", leaf.Name, u.LeafPort, spine.Name, u.SpinePort)
			}
		}
	}
}
