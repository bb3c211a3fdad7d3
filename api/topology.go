package api

import (
	"time"

	"github.com/forsd/forsd/ib"
)

// Topology is the answer of /v1/topology: the fat tree as forsd sees it.
type Topology struct {
	Hash       string         `json:"topology_hash"`
	SeenAt     time.Time      `json:"seen_at,omitzero"`
	Kind       string         `json:"kind,omitempty"`   // what the fabric is: fat-tree, partly-covered, three-levels or own-routes
	Why        string         `json:"why,omitempty"`    // why it is not a fat tree
	Pods       int            `json:"pods,omitempty"`   // of a fat tree of three levels
	Planes     int            `json:"planes,omitempty"` // of the same: cables of a leaf upwards
	Lanes      int            `json:"lanes"`
	Leaves     []Leaf         `json:"leaves"`
	Mids       []Mid          `json:"mids,omitempty"` // the switches between leaves and spines, of three levels
	Spines     []Spine        `json:"spines"`
	Hosts      []Host         `json:"hosts"`
	Servers    int            `json:"servers"`
	Bystanders int            `json:"bystanders"`
	Roles      map[string]int `json:"roles"`     // the host ports of each role, inside and outside the tree
	Uncovered  []Uncovered    `json:"uncovered"` // parts outside the tree
	Findings   []Finding      `json:"findings"`  // how it deviates from its baseline
}

// Finding is a deviation: a stable code, and a description.
type Finding struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Leaf is a leaf switch of the baseline.
type Leaf struct {
	GUID    ib.GUID  `json:"guid"`
	Name    string   `json:"name"`
	Present bool     `json:"present"`
	LID     ib.LID   `json:"lid,omitempty"`
	Servers int      `json:"servers"`
	Pod     int      `json:"pod,omitempty"` // of three levels
	LanesUp int      `json:"lanes_up"`      // of three levels: planes
	Cables  []string `json:"cables"`        // [lane] full, degraded, missing or none; of three levels [plane]
}

// Mid is a switch of the middle level of the baseline, of a fat tree of three levels.
type Mid struct {
	GUID      ib.GUID  `json:"guid"`
	Name      string   `json:"name"`
	Present   bool     `json:"present"`
	LID       ib.LID   `json:"lid,omitempty"`
	Pod       int      `json:"pod"`
	FirstLane int      `json:"first_lane"`
	LanesUp   int      `json:"lanes_up"`
	Cables    []string `json:"cables"` // as those of a leaf, from the first lane on
}

// Spine is a spine switch of the baseline.
type Spine struct {
	GUID      ib.GUID `json:"guid"`
	Name      string  `json:"name"`
	Present   bool    `json:"present"`
	LID       ib.LID  `json:"lid,omitempty"`
	FirstLane int     `json:"first_lane"`
	Lanes     int     `json:"lanes"`
}

// Host is a host port that is attached to the tree, aggregation nodes among them.
type Host struct {
	GUID   ib.GUID `json:"guid"`
	Name   string  `json:"name"`
	LID    ib.LID  `json:"lid"`
	LMC    uint8   `json:"lmc"`
	Leaf   string  `json:"leaf,omitempty"`  // its leaf's name or GUID
	Spine  string  `json:"spine,omitempty"` // its spine's, if it is on one
	Alpha  int     `json:"alpha"`           // its index on the leaf; 0 for an aggregation node
	Server bool    `json:"server"`          // takes part in the exchange
	Role   string  `json:"role"`
}

// Uncovered is a switch, a host port or a cable that the tree does not cover.
type Uncovered struct {
	Kind string  `json:"kind"`          // switch, host or cable
	GUID ib.GUID `json:"guid"`          // of the switch, the host's port, or the switch at one end of the cable
	Name string  `json:"name"`          // what it is called, of a cable both ends
	Why  string  `json:"why,omitempty"` // of a host
}
