package topology

import (
	"fmt"
	"regexp"

	"github.com/forsd/forsd/ib"
)

// fitter carries the work of Fit.
type fitter struct {
	*FatTree
	near            []neighbours
	leafAt, spineAt []int  // [node] index, −1
	newSpine        []bool // [node]
	rate            ib.Rate
}

// Fit matches fabric f with baseline b and adds new parts to a copy of b without
// renumbering anything: new leaves, new cables between known switches, new host ports. Host
// ports whose node description matches exclude (if not nil) are bystanders. New spines and
// surplus cables are not added until the baseline is accepted again, and are reported like
// every other deviation.
//
// It returns *NotYet if the subnet manager has not brought the fabric up, and *NotFatTree
// if it was rewired into something else.
func Fit(f *Fabric, b *Baseline, exclude *regexp.Regexp) (*FatTree, error) {
	if err := f.BroughtUp(); err != nil {
		return nil, err
	}
	t := fit(f, b, exclude)
	if t.strange() {
		if _, err := findCore(f); err != nil {
			return nil, err
		}
	}
	return t.FatTree, nil
}

func fit(f *Fabric, b *Baseline, exclude *regexp.Regexp) *fitter {
	b = b.clone()
	t := &fitter{FatTree: &FatTree{Common: Common{Fabric: f}, Baseline: b, Lanes: b.Lanes()}, near: f.neighbours(), rate: ib.ParseRate(b.Rate)}
	t.placeSwitches()
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		t.placeCables(leaf.Name, leaf.Node, leaf.Cables, b.Leaves[l].Uplinks, t.lanesTo)
	}
	t.findings()
	t.placeHosts(exclude)
	t.rank()
	t.uncovered()
	t.Findings = append(t.Findings, tight(loads(t.Hosts, t.Servers, len(t.Leaves), func(l int) (string, int) {
		return t.Leaves[l].Name, meant(b.Leaves[l].Uplinks)
	}))...)
	return t
}

// meant counts the uplinks of a baseline.
func meant(uplinks []Uplink) (n int) {
	for _, u := range uplinks {
		if u != (Uplink{}) {
			n++
		}
	}
	return n
}

// strange reports whether the fabric may have become a different one: most of its cables
// are not in the baseline, and the tree holds or joins too few of the hosts.
func (t *fitter) strange() bool {
	cables, known := 0, 0
	for i := range t.near {
		cables += len(t.near[i].switches)
	}
	for l := range t.Leaves {
		for k, c := range t.Leaves[l].Cables {
			if u := t.Baseline.Leaves[l].Uplinks[k]; c.Usable() && u == (Uplink{c.LeafPort, c.SpinePort}) {
				known += 2 // ends
			}
		}
	}
	if 2*known >= cables {
		return false
	}
	held, all := 0, 0
	for i := range t.near {
		all += t.near[i].hosts
		if t.leafAt[i] >= 0 {
			held += t.near[i].hosts
		}
	}
	if _, most := largestPart(t.near, make([]bool, len(t.near))); 2*most <= all {
		return false // partly discovered, or damaged
	}
	return 2*held <= all || unmetShare*t.unmet(t.leafNodes()) > held*(held-1)
}

// find returns the node of the switch with GUID g, or None.
func (t *fitter) find(g ib.GUID) int32 {
	if i := t.Fabric.Find(g); i != None && t.Fabric.Nodes[i].Kind == Switch {
		return i
	}
	return None
}

func (t *fitter) report(code, format string, args ...any) {
	t.Findings = append(t.Findings, Finding{Code: code, Text: fmt.Sprintf(format, args...)})
}

// reportAt reports a deviation at a switch, or at one of its ports.
func (t *fitter) reportAt(node ib.GUID, port uint8, code, format string, args ...any) {
	t.Findings = append(t.Findings, Finding{Code: code, Text: fmt.Sprintf(format, args...), Node: uint64(node), Port: port})
}

// placeSwitches finds the baseline's switches in the fabric, appends new leaves, and
// notes new spines.
func (t *fitter) placeSwitches() {
	f, b := t.Fabric, t.Baseline
	t.leafAt, t.spineAt, t.newSpine = make([]int, len(f.Nodes)), make([]int, len(f.Nodes)), make([]bool, len(f.Nodes))
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
	t.placeNewcomers()
	for l := range b.Leaves {
		leaf := Leaf{Node: t.find(b.Leaves[l].GUID), GUID: b.Leaves[l].GUID, Name: b.Leaves[l].Name, Cables: make([]Cable, t.Lanes)}
		if leaf.Node != None {
			leaf.Name = f.Nodes[leaf.Node].Label()
			b.Leaves[l].Name = f.Nodes[leaf.Node].Name
		}
		t.Leaves = append(t.Leaves, leaf)
	}
}

// placeNewcomers finds new leaves and then new spines among the switches that the baseline
// does not know. A leaf has most of its cables to spines, and joins if few pairs of hosts
// fail to meet; without hosts, all its cables lead to spines. A spine has all its cables to
// leaves, at least two of them if there are two, and if it has hosts, to most leaves.
func (t *fitter) placeNewcomers() {
	var unknown []int32
	for i := range t.Fabric.Nodes {
		if t.Fabric.Nodes[i].Kind == Switch && t.leafAt[i] < 0 && t.spineAt[i] < 0 && len(t.near[i].switches) > 0 {
			unknown = append(unknown, int32(i))
		}
	}
	if len(unknown) == 0 {
		return
	}
	for _, i := range unknown {
		spines, leaves, others, _ := t.around(i)
		if spines > leaves && (t.near[i].hosts > 0 || leaves+others == 0) && t.joins(i) {
			n := &t.Fabric.Nodes[i]
			t.leafAt[i] = len(t.Baseline.Leaves)
			t.Baseline.Leaves = append(t.Baseline.Leaves, BaselineLeaf{GUID: n.GUID, Name: n.Name, Uplinks: make([]Uplink, t.Lanes)})
			t.report(LeafNew, "leaf %s is new: it has index %d", n, t.leafAt[i])
		}
	}
	present := len(t.leafNodes())
	for _, i := range unknown {
		spines, leaves, others, distinct := t.around(i)
		if t.leafAt[i] >= 0 || leaves == 0 || spines+others > 0 || distinct < min(2, present) || t.near[i].hosts > 0 && 2*distinct <= present {
			continue
		}
		t.newSpine[i] = true
		t.report(SpineNew, "spine %s is new: its lanes are used after forsctl baseline accept", &t.Fabric.Nodes[i])
	}
	for i, is := range t.newSpine {
		if is {
			t.NewSpines = append(t.NewSpines, int32(i))
		}
	}
}

// around counts the cables of a switch to spines, to leaves and to others, and the
// different leaves.
func (t *fitter) around(i int32) (spines, leaves, others, distinct int) {
	seen := map[int32]bool{}
	for _, j := range t.near[i].switches {
		switch {
		case t.spineAt[j] >= 0:
			spines++
		case t.leafAt[j] >= 0:
			if leaves++; !seen[j] {
				seen[j] = true
				distinct++
			}
		default:
			others++
		}
	}
	return spines, leaves, others, distinct
}

// leafNodes lists the leaves that are present.
func (t *fitter) leafNodes() []int32 {
	var nodes []int32
	for i := range t.leafAt {
		if t.leafAt[i] >= 0 {
			nodes = append(nodes, int32(i))
		}
	}
	return nodes
}

// joins reports whether a switch belongs to the tree as a leaf: it meets all leaves with
// hosts at spines, or most of them, and few pairs of hosts fail to meet.
func (t *fitter) joins(i int32) bool {
	leaves := t.leafNodes()
	before, after := t.unmet(leaves), t.unmet(append(leaves, i))
	own, others := t.near[i].hosts, 0
	for _, j := range leaves {
		others += t.near[j].hosts
	}
	hosts := own + others
	return after == before || unmetShare*after <= hosts*(hosts-1) && after-before <= own*others
}

// unmet counts the ordered pairs of hosts on leaves that meet at no spine.
func (t *fitter) unmet(leaves []int32) int {
	uppers := append([]int32(nil), t.NewSpines...)
	for s := range t.Spines {
		if t.Spines[s].Node != None {
			uppers = append(uppers, t.Spines[s].Node)
		}
	}
	m := newMeetings(t.Fabric, leaves, uppers)
	pairs := 0
	for a := range leaves {
		for b := range a {
			if !m.meet(a, b) {
				pairs += 2 * t.near[leaves[a]].hosts * t.near[leaves[b]].hosts
			}
		}
	}
	return pairs
}

// lanesTo lists the lanes of a spine.
func (t *fitter) lanesTo(peer int32) (lanes []int, name string) {
	s := t.spineAt[peer]
	if s < 0 {
		return nil, ""
	}
	for i := range t.Spines[s].Cables {
		lanes = append(lanes, t.Spines[s].First+i)
	}
	return lanes, t.Spines[s].Name
}

// placeCables matches the cables of a switch with its places: those in the baseline's
// ports first, then moved ones in order of ports, then new ones. Ways lists the places
// that a cable to a peer may have, none where the peer is not of the next level.
func (t *fitter) placeCables(name string, node int32, cables []Cable, want []Uplink, ways func(peer int32) ([]int, string)) {
	for k, u := range want {
		if u != (Uplink{}) {
			cables[k].State = Missing
		}
	}
	if node == None {
		return
	}
	ports := t.Fabric.Nodes[node].Ports
	var rest []int
	for p := range ports {
		if !ports[p].Up() || t.spineAt[ports[p].Peer] < 0 {
			continue
		}
		found := -1
		places, _ := ways(ports[p].Peer)
		for _, k := range places {
			if want[k] == (Uplink{uint8(p), ports[p].PeerPort}) {
				found = k
			}
		}
		if found >= 0 {
			t.plug(node, p, &cables[found])
		} else if len(places) > 0 {
			rest = append(rest, p)
		}
	}
	for _, p := range rest {
		t.placeStray(name, node, p, cables, want, ways)
	}
}

func (t *fitter) placeStray(name string, node int32, p int, cables []Cable, want []Uplink, ways func(peer int32) ([]int, string)) {
	port := &t.Fabric.Nodes[node].Ports[p]
	places, peer := ways(port.Peer)
	for _, state := range []CableState{Missing, NoCable} {
		for _, k := range places {
			if cables[k].State != state {
				continue
			}
			if state == Missing {
				t.report(CableMoved, "the cable %s – %s is in ports %d and %d: the baseline has it in %d and %d", name, peer, p, port.PeerPort, want[k].LeafPort, want[k].SpinePort)
			} else {
				want[k] = Uplink{uint8(p), port.PeerPort}
			}
			t.plug(node, p, &cables[k])
			return
		}
	}
	t.report(CableNew, "the cable %s has no lane: it is used after forsctl baseline accept", t.Fabric.CableLabel(PortRef{node, uint8(p)}))
}

func (t *fitter) plug(node int32, p int, c *Cable) {
	port := &t.Fabric.Nodes[node].Ports[p]
	back := &t.Fabric.Nodes[port.Peer].Ports[port.PeerPort]
	*c = Cable{LeafPort: uint8(p), SpinePort: port.PeerPort, State: Full}
	for _, rate := range []ib.Rate{port.Rate, back.Rate} {
		if rate.Below(t.rate) {
			c.State = Degraded
			t.reportAt(t.Fabric.Nodes[node].GUID, uint8(p), CableDegraded, "the cable %s runs at %s instead of %s: no schedule uses it", t.Fabric.CableLabel(PortRef{node, uint8(p)}), rate, t.rate)
			return
		}
	}
}

// findings reports absent switches and cables; a switch that is absent speaks
// for its cables.
func (t *fitter) findings() {
	for s := range t.Spines {
		if t.Spines[s].Node == None {
			t.reportAt(t.Spines[s].GUID, 0, SpineDown, "spine %s (%s) is absent", t.Spines[s].Name, t.Spines[s].GUID)
		}
	}
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		if leaf.Node == None {
			t.reportAt(leaf.GUID, 0, LeafDown, "leaf %s (%s) is absent", leaf.Name, leaf.GUID)
			continue
		}
		for k, c := range leaf.Cables {
			spine := &t.Spines[t.LaneOf[k]]
			if c.State == Missing && spine.Node != None {
				t.cableDown(leaf.GUID, leaf.Name, spine.Name, t.Baseline.Leaves[l].Uplinks[k])
			}
		}
	}
}

func (t *fitter) cableDown(lower ib.GUID, name, upper string, u Uplink) {
	t.reportAt(lower, u.LeafPort, CableDown, "the cable %s port %d – %s port %d is down", name, u.LeafPort, upper, u.SpinePort)
}
