package api

import (
	"context"
	"net/http"

	"github.com/forsd/forsd/ib"
)

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
