package api

import (
	"cmp"
	"time"

	"github.com/forsd/forsd/topology"
)

// Topology is the answer of /v1/topology: the fat tree as forsd sees it.
type Topology struct {
	Hash       string             `json:"topology_hash"`
	SeenAt     time.Time          `json:"seen_at,omitzero"`
	Kind       string             `json:"kind,omitempty"`   // what the fabric is: fat-tree, partly-covered, three-levels or own-routes
	Why        string             `json:"why,omitempty"`    // why it is not a fat tree
	Pods       int                `json:"pods,omitempty"`   // of a fat tree of three levels
	Planes     int                `json:"planes,omitempty"` // of the same: cables of a leaf upwards
	Lanes      int                `json:"lanes"`
	Leaves     []Leaf             `json:"leaves"`
	Mids       []Mid              `json:"mids,omitempty"` // the switches between leaves and spines, of three levels
	Spines     []Spine            `json:"spines"`
	Hosts      []Host             `json:"hosts"`
	Servers    int                `json:"servers"`
	Bystanders int                `json:"bystanders"`
	Roles      map[string]int     `json:"roles"`     // the host ports of each role, inside and outside the tree
	Uncovered  []Uncovered        `json:"uncovered"` // parts outside the tree
	Findings   []topology.Finding `json:"findings"`  // how it deviates from its baseline
}

// Leaf is a leaf switch of the baseline.
type Leaf struct {
	GUID    topology.GUID `json:"guid"`
	Name    string        `json:"name"`
	Present bool          `json:"present"`
	LID     topology.LID  `json:"lid,omitempty"`
	Servers int           `json:"servers"`
	Pod     int           `json:"pod,omitempty"` // of three levels
	LanesUp int           `json:"lanes_up"`      // of three levels: planes
	Cables  []string      `json:"cables"`        // [lane] full, degraded, missing or none; of three levels [plane]
}

// Mid is a switch of the middle level of the baseline, of a fat tree of three levels.
type Mid struct {
	GUID      topology.GUID `json:"guid"`
	Name      string        `json:"name"`
	Present   bool          `json:"present"`
	LID       topology.LID  `json:"lid,omitempty"`
	Pod       int           `json:"pod"`
	FirstLane int           `json:"first_lane"`
	LanesUp   int           `json:"lanes_up"`
	Cables    []string      `json:"cables"` // as those of a leaf, from the first lane on
}

// Spine is a spine switch of the baseline.
type Spine struct {
	GUID      topology.GUID `json:"guid"`
	Name      string        `json:"name"`
	Present   bool          `json:"present"`
	LID       topology.LID  `json:"lid,omitempty"`
	FirstLane int           `json:"first_lane"`
	Lanes     int           `json:"lanes"`
}

// Host is a host port that is attached to the tree, aggregation nodes among them.
type Host struct {
	GUID   topology.GUID `json:"guid"`
	Name   string        `json:"name"`
	LID    topology.LID  `json:"lid"`
	LMC    uint8         `json:"lmc"`
	Leaf   string        `json:"leaf,omitempty"`  // its leaf's name or GUID
	Spine  string        `json:"spine,omitempty"` // its spine's, if it is on one
	Alpha  int           `json:"alpha"`           // its index on the leaf; 0 for an aggregation node
	Server bool          `json:"server"`          // takes part in the exchange
	Role   topology.Role `json:"role"`
}

// Uncovered is a switch, a host port or a cable that the tree does not cover.
type Uncovered struct {
	Kind string        `json:"kind"`          // switch, host or cable
	GUID topology.GUID `json:"guid"`          // of the switch, the host's port, or the switch at one end of the cable
	Name string        `json:"name"`          // what it is called, of a cable both ends
	Why  string        `json:"why,omitempty"` // of a host
}

var cableStates = map[topology.CableState]string{
	topology.NoCable: "none", topology.Missing: "missing", topology.Degraded: "degraded", topology.Full: "full"}

// NewTopology describes a fat tree.
func NewTopology(t *topology.FatTree, seenAt time.Time) *Topology {
	if t.Pods != nil {
		return newPodTopology(t.Pods, seenAt)
	}
	out := &Topology{Hash: t.Fabric.Hash(), SeenAt: seenAt, Lanes: t.Lanes, Servers: len(t.Servers),
		Bystanders: len(t.Hosts) - len(t.Servers), Findings: append([]topology.Finding{}, t.Findings...),
		Leaves: make([]Leaf, len(t.Leaves)), Spines: make([]Spine, len(t.Spines)), Hosts: []Host{},
		Roles: roles(t.Fabric), Uncovered: uncovered(t)}
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		out.Leaves[l] = Leaf{GUID: leaf.GUID, Name: leaf.Name, Present: leaf.Node != topology.None, LID: switchLID(t, leaf.Node)}
		for k, c := range leaf.Cables {
			out.Leaves[l].Cables = append(out.Leaves[l].Cables, cableStates[c.State])
			if t.LaneUp(l, k) {
				out.Leaves[l].LanesUp++
			}
		}
	}
	for i := range t.Spines {
		s := &t.Spines[i]
		out.Spines[i] = Spine{s.GUID, s.Name, s.Node != topology.None, switchLID(t, s.Node), s.First, s.Cables}
	}
	out.hosts(t.Hosts, t.Routed, func(h *topology.Host) string { return cmp.Or(t.Spines[h.Spine].Name, t.Spines[h.Spine].GUID.String()) })
	return out
}

// newPodTopology describes a fat tree of three levels; its spines are the tops.
func newPodTopology(t *topology.PodTree, seenAt time.Time) *Topology {
	two := t.Exchange()
	out := &Topology{Hash: t.Fabric.Hash(), SeenAt: seenAt, Pods: t.Pods, Planes: t.Planes, Lanes: len(t.Lanes), Servers: len(t.Servers),
		Bystanders: len(t.Hosts) - len(t.Servers), Findings: append([]topology.Finding{}, t.Findings...),
		Leaves: make([]Leaf, len(t.Leaves)), Spines: make([]Spine, len(t.Tops)), Hosts: []Host{}, Roles: roles(t.Fabric), Uncovered: uncovered(two)}
	states := func(cables []topology.UpCable) (words []string, up int) {
		for _, c := range cables {
			words = append(words, cableStates[c.State])
			if c.State == topology.Full {
				up++
			}
		}
		return words, up
	}
	for l := range t.Leaves {
		leaf := &t.Leaves[l]
		out.Leaves[l] = Leaf{GUID: leaf.GUID, Name: leaf.Name, Present: leaf.Node != topology.None, LID: switchLID(two, leaf.Node), Pod: leaf.Pod}
		out.Leaves[l].Cables, out.Leaves[l].LanesUp = states(leaf.Cables)
	}
	for i := range t.Mids {
		m := &t.Mids[i]
		if m.GUID == 0 {
			continue // its pod never had it
		}
		first, end := t.LanesOf(i)
		mid := Mid{GUID: m.GUID, Name: m.Name, Present: m.Node != topology.None, LID: switchLID(two, m.Node), Pod: m.Pod, FirstLane: first}
		mid.Cables, mid.LanesUp = states(m.Cables[first:end])
		out.Mids = append(out.Mids, mid)
	}
	for k := range t.Tops {
		out.Spines[k] = Spine{GUID: t.Tops[k].GUID, Name: t.Tops[k].Name, Present: t.Tops[k].Node != topology.None, LID: switchLID(two, t.Tops[k].Node)}
	}
	for k := len(t.Lanes) - 1; k >= 0; k-- {
		s := &out.Spines[t.Lanes[k].Top]
		s.FirstLane = k
		s.Lanes++
	}
	out.hosts(t.Hosts, t.Routed, func(h *topology.Host) string { return t.Fabric.Nodes[h.Spine].Label() })
	return out
}

// hosts adds the host ports, those that are routed and nothing else at the end. upper
// names the switch of one that is not on a leaf.
func (out *Topology) hosts(attached, routed []topology.Host, upper func(*topology.Host) string) {
	for i := range attached {
		h := &attached[i]
		out.Hosts = append(out.Hosts, out.newHost(h, upper))
		if h.Server {
			out.Leaves[h.Leaf].Servers++
		}
	}
	for i := range routed {
		h := out.newHost(&routed[i], upper)
		h.Alpha = 0
		out.Hosts = append(out.Hosts, h)
	}
}

func (out *Topology) newHost(h *topology.Host, upper func(*topology.Host) string) Host {
	x := Host{GUID: h.GUID, Name: h.Name, LID: h.LID, LMC: h.LMC, Alpha: h.Alpha, Server: h.Server, Role: h.Role}
	if h.Leaf >= 0 {
		x.Leaf = cmp.Or(out.Leaves[h.Leaf].Name, out.Leaves[h.Leaf].GUID.String())
	} else if h.Spine >= 0 {
		x.Spine = upper(h)
	}
	return x
}

// roles counts the host ports with a cable by role.
func roles(f *topology.Fabric) map[string]int {
	out := map[string]int{}
	for _, e := range f.EndPorts() {
		if n := &f.Nodes[e.Node]; n.Kind != topology.Switch && f.At(e.PortRef).Up() {
			out[n.Role.String()]++
		}
	}
	return out
}

// uncovered lists what the tree does not cover.
func uncovered(t *topology.FatTree) []Uncovered {
	out := []Uncovered{}
	f := t.Fabric
	for _, i := range t.Uncovered.Switches {
		out = append(out, Uncovered{Kind: "switch", GUID: f.Nodes[i].GUID, Name: f.Nodes[i].Name})
	}
	for _, h := range t.Uncovered.Hosts {
		out = append(out, Uncovered{"host", f.At(h.PortRef).GUID, f.PortLabel(h.PortRef), h.Why})
	}
	for _, r := range t.Uncovered.Cables {
		out = append(out, Uncovered{Kind: "cable", GUID: f.Nodes[r.Node].GUID, Name: f.CableLabel(r)})
	}
	return out
}

// switchLID returns the switch's own LID, 0 while it is absent.
func switchLID(t *topology.FatTree, node int32) topology.LID {
	if node == topology.None {
		return 0
	}
	return t.Fabric.Nodes[node].LID()
}
