package api

import (
	"context"
	"net/http"
	"time"

	"github.com/forsd/forsd/ib"
)

// DrainRequest asks for parts of the fabric to be taken out of the plan, to be worked on.
type DrainRequest struct {
	// Parts are spines and leaves by description or GUID, and cables between them as
	// SWITCH/PORT.
	Parts  []string  `json:"parts"`
	At     time.Time `json:"begins_at,omitzero"` // when it begins; left out: at once
	Until  time.Time `json:"ends_at,omitzero"`   // when it ends by itself; left out: never
	Reason string    `json:"reason,omitempty"`
	DryRun bool      `json:"dry_run,omitempty"` // say what it costs, and do nothing
}

// Undrain gives parts back.
type Undrain struct {
	Parts  []string `json:"parts"`             // as in DrainRequest, or "all"
	DryRun bool     `json:"dry_run,omitempty"` // say what plan there would be, and do nothing
}

// Drain is a part of the fabric that is taken out of the plan.
type Drain struct {
	Kind   string    `json:"kind"` // cable, leaf or spine; on three levels cable, leaf, mid or top
	Name   string    `json:"name"`
	GUID   ib.GUID   `json:"guid"`           // of the switch; of a cable, its lower end
	Port   uint8     `json:"port,omitempty"` // of a cable, at its lower end
	State  string    `json:"state"`          // scheduled, draining, or safe: it may be pulled
	Since  time.Time `json:"changed_at"`     // of the state
	At     time.Time `json:"begins_at,omitzero"`
	Until  time.Time `json:"ends_at,omitzero"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"` // who ordered it
	Uses   []string  `json:"uses"`         // what still leads over it, while it is draining
	// Cables are those that are withheld for it, by their leaves' ends.
	Cables []DrainedCable `json:"cables,omitempty"`
}

// DrainedCable is the leaf's end of a cable.
type DrainedCable struct {
	Leaf ib.GUID `json:"leaf"`
	Port uint8   `json:"port"`
}

// DrainCost is the cost of an order about drains for the exchange, in addition to the
// present drains.
type DrainCost struct {
	Phases           int      `json:"phases"` // with it
	PhasesNow        int      `json:"phases_now"`
	LowerBound       int      `json:"lower_bound"`       // with it
	UnreachablePairs int      `json:"unreachable_pairs"` // that no plan has a way for then
	Hosts            []string `json:"hosts"`             // that leave all plans: those of leaves
	Jobs             []string `json:"jobs"`              // that lose hosts
}

// Drained is the answer to a DrainRequest and an Undrain.
type Drained struct {
	Drains []Drain    `json:"drains"`         // that the request names
	Cost   *DrainCost `json:"cost,omitempty"` // nil where parts were given back
}

// DrainEvent is the data of an event of the kind KindDrain.
type DrainEvent struct {
	What  string `json:"what"`
	Drain Drain  `json:"drain"`
}

// Drains asks for all drains, in the order in which they were ordered.
func (c *Client) Drains(ctx context.Context) ([]Drain, error) {
	var out Drained
	err := c.call(ctx, http.MethodGet, "/v1/drains", nil, &out, maxDocument)
	return out.Drains, err
}

// Drain takes parts out of the plan.
func (c *Client) Drain(ctx context.Context, q DrainRequest) (*Drained, error) {
	return ask[Drained](ctx, c, http.MethodPost, "/v1/drains", q)
}

// Undrain gives parts back.
func (c *Client) Undrain(ctx context.Context, parts ...string) (*Drained, error) {
	return ask[Drained](ctx, c, http.MethodPost, "/v1/undrain", Undrain{Parts: parts})
}
