package api

import (
	"time"

	"github.com/forsd/forsd/topology"
)

// Topology is the answer of /v1/topology: the fat tree as forsd sees it.
type Topology struct {
	Hash       string             `json:"topology_hash"`
	SeenAt     time.Time          `json:"seen_at,omitzero"`
	Lanes      int                `json:"lanes"`
	Leaves     []Leaf             `json:"leaves"`
	Spines     []Spine            `json:"spines"`
	Hosts      []Host             `json:"hosts"`
	Servers    int                `json:"servers"`
	Bystanders int                `json:"bystanders"`
	Findings   []topology.Finding `json:"findings"` // how it deviates from its baseline
}

// Leaf is a leaf switch of the baseline.
type Leaf struct {
	GUID    topology.GUID `json:"guid"`
	Name    string        `json:"name"`
	Present bool          `json:"present"`
	LID     topology.LID  `json:"lid,omitempty"`
	Servers int           `json:"servers"`
	LanesUp int           `json:"lanes_up"`
	Cables  []string      `json:"cables"` // [lane] full, degraded, missing or none
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

// Host is a host port that is attached to the tree.
type Host struct {
	GUID   topology.GUID `json:"guid"`
	Name   string        `json:"name"`
	LID    topology.LID  `json:"lid"`
	LMC    uint8         `json:"lmc"`
	Leaf   string        `json:"leaf,omitempty"`  // its leaf's name or GUID
	Spine  string        `json:"spine,omitempty"` // its spine's, where it is on one
	Alpha  int           `json:"alpha"`           // its index on the leaf
	Server bool          `json:"server"`          // takes part in the exchange
}

var cableStates = map[topology.CableState]string{
	topology.NoCable: "none", topology.Missing: "missing", topology.Degraded: "degraded", topology.Full: "full"}

// NewTopology describes a fat tree.
func NewTopology(t *topology.FatTree, seenAt time.Time) *Topology {
	out := &Topology{Hash: t.Fabric.Hash(), SeenAt: seenAt, Lanes: t.Lanes, Servers: len(t.Servers),
		Bystanders: len(t.Hosts) - len(t.Servers), Findings: append([]topology.Finding{}, t.Findings...),
		Leaves: make([]Leaf, len(t.Leaves)), Spines: make([]Spine, len(t.Spines)), Hosts: make([]Host, len(t.Hosts))}
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
	for i := range t.Hosts {
		h := &t.Hosts[i]
		out.Hosts[i] = Host{GUID: h.GUID, Name: h.Name, LID: h.LID, LMC: h.LMC, Alpha: h.Alpha, Server: h.Server}
		if h.Leaf >= 0 {
			out.Hosts[i].Leaf = label(t.Leaves[h.Leaf].Name, t.Leaves[h.Leaf].GUID)
		} else {
			out.Hosts[i].Spine = label(t.Spines[h.Spine].Name, t.Spines[h.Spine].GUID)
		}
		if h.Server {
			out.Leaves[h.Leaf].Servers++
		}
	}
	return out
}

// switchLID is the switch's own LID, 0 while it is absent.
func switchLID(t *topology.FatTree, node int32) topology.LID {
	if node == topology.None {
		return 0
	}
	return t.Fabric.Nodes[node].LID()
}

// label is the name, or the GUID of what has none.
func label(name string, g topology.GUID) string {
	if name == "" {
		return g.String()
	}
	return name
}
