package api

import (
	"context"
	"net/http"
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

// Cabling is the answer of /v1/fabric: every cable that is up, whether the tree covers it
// or not.
type Cabling struct {
	SeenAt time.Time `json:"seen_at"`
	Links  []Link    `json:"links"` // by the GUID and port of the first end
}

// Link is a cable that is up at both ends.
type Link struct {
	A    LinkEnd `json:"a"` // the node with the lower GUID
	B    LinkEnd `json:"b"`
	Rate string  `json:"rate"` // such as 4xHDR, 0x? when unknown
}

// LinkEnd is where a cable is plugged in.
type LinkEnd struct {
	GUID ib.GUID `json:"guid"` // of the node
	Name string  `json:"name"`
	Port uint8   `json:"port"`
	Host ib.GUID `json:"port_guid,omitempty"` // of a host's port
}

// Cabling asks for every cable.
func (c *Client) Cabling(ctx context.Context) (*Cabling, error) {
	out := &Cabling{}
	return out, c.Call(ctx, http.MethodGet, "/v1/fabric", nil, out)
}

// HostPorts is the answer of /v1/hosts: the host ports that take part in exchanges, leaf by
// leaf, with those that are down.
type HostPorts struct {
	// Lanes are those of a fat tree of two levels; 0 for any other fabric, where /v1/gpu/lanes
	// has no answer.
	Lanes int        `json:"lanes"`
	Hosts []HostPort `json:"hosts"`
}

// HostPort is a port that the fabric has or, by its baseline, is meant to have.
type HostPort struct {
	GUID    ib.GUID `json:"guid"`
	Name    string  `json:"name"`
	Percent int     `json:"percent"` // of the rate of the fastest of them; 0 for one that is down
}

// HostPorts asks for the host ports.
func (c *Client) HostPorts(ctx context.Context) (*HostPorts, error) {
	return ask[HostPorts](ctx, c, http.MethodGet, "/v1/hosts", nil)
}
