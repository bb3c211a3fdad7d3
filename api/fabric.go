package api

import (
	"context"
	"net/http"
	"time"

	"github.com/forsd/forsd/topology"
)

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
	GUID topology.GUID `json:"guid"` // of the node
	Name string        `json:"name"`
	Port uint8         `json:"port"`
	Host topology.GUID `json:"port_guid,omitempty"` // of a host's port
}

// NewCabling lists the cables of a fabric.
func NewCabling(f *topology.Fabric, seenAt time.Time) *Cabling {
	out := &Cabling{SeenAt: seenAt, Links: []Link{}}
	end := func(node int32, port uint8) LinkEnd {
		n := &f.Nodes[node]
		e := LinkEnd{GUID: n.GUID, Name: n.Name, Port: port}
		if n.Kind != topology.Switch {
			e.Host = n.Ports[port].GUID
		}
		return e
	}
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if !port.Up() || !f.Nodes[port.Peer].Ports[port.PeerPort].Up() || port.Peer < int32(i) || port.Peer == int32(i) && int(port.PeerPort) < p {
				continue
			}
			out.Links = append(out.Links, Link{A: end(int32(i), uint8(p)), B: end(port.Peer, port.PeerPort), Rate: port.Rate.String()})
		}
	}
	return out
}

// Cabling asks for every cable.
func (c *Client) Cabling(ctx context.Context) (*Cabling, error) {
	out := &Cabling{}
	return out, c.Call(ctx, http.MethodGet, "/v1/fabric", nil, out)
}
