package api

import (
	"context"
	"net/http"
	"time"

	"github.com/forsd/forsd/ib"
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
