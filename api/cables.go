package api

import (
	"context"
	"net/http"
	"time"

	"github.com/forsd/forsd/ib"
)

// Cables is the answer of /v1/cables: the cables between leaves and spines, by leaf and
// lane, and how well they are.
type Cables struct {
	Mode        string    `json:"mode"`             // off, report or isolate
	ReadAt      time.Time `json:"read_at,omitzero"` // the last round over the counters ended
	BusySeconds float64   `json:"busy_seconds"`     // what it spent on reading
	Unread      string    `json:"unread,omitempty"` // why it has read no counters
	Failed      []string  `json:"failed"`           // switches that it could not read, and why
	Cables      []Cable   `json:"cables"`           // of the baseline
}

// Cable is a cable and how well it is.
type Cable struct {
	Leaf    CableEnd     `json:"leaf"`
	Spine   CableEnd     `json:"spine"`
	Lane    int          `json:"lane"`
	Link    string       `json:"link"`  // full, degraded or missing
	Held    bool         `json:"held"`  // kept out of the plan, by whomever
	State   string       `json:"state"` // good, suspect, isolated or probation
	Since   time.Time    `json:"changed_at,omitzero"`
	Why     []string     `json:"why"`               // what is beyond a threshold now, or was when it was isolated
	Refused string       `json:"refused,omitempty"` // why it is not isolated
	Returns []time.Time  `json:"returned_at"`       // when it came back, within a week
	History []CableEvent `json:"history"`           // the last decisions, oldest first
	Timed   *CableTimes  `json:"timed,omitempty"`   // by the last measured exchange since it came up
}

// CableTimes is what the transfers of a cable in a measured exchange tell; see MeasuredCable.
type CableTimes struct {
	At        time.Time `json:"measured_at"`
	Gbps      float64   `json:"gbps,omitempty"`
	Slowdown  float64   `json:"slowdown"`
	Error     float64   `json:"error"`
	Transfers int       `json:"transfers"`
	Slow      bool      `json:"slow"`
}

// CableEnd is one end of a cable and its counters within cables.short.
type CableEnd struct {
	GUID    ib.GUID     `json:"guid"`
	Name    string      `json:"name"`
	Port    uint8       `json:"port"`
	Counted CableCounts `json:"counted"`
}

// CableCounts is what an end has counted, and over how long that was seen.
type CableCounts struct {
	ib.Counters
	OverSeconds float64 `json:"over_seconds"`
}

// CableEvent is a decision about a cable; the data of an event of the kind KindCable.
type CableEvent struct {
	At     time.Time `json:"decided_at"`
	What   string    `json:"what"` // suspect, isolated, not-isolated, probation or good
	Leaf   ib.GUID   `json:"leaf"`
	Port   uint8     `json:"port"`   // of the leaf
	Phases int       `json:"phases"` // that the isolation costs
	Text   string    `json:"text"`   // the decision in words, with its figures
}

// ReleaseRequest is the body of POST /v1/cables/release.
type ReleaseRequest struct {
	Cable string `json:"cable"` // NODE/PORT, either end
}

// Cables asks how well the cables are.
func (c *Client) Cables(ctx context.Context) (*Cables, error) {
	out := &Cables{}
	return out, c.Call(ctx, http.MethodGet, "/v1/cables", nil, out)
}

// ReleaseCable puts an isolated cable on probation after its repair.
func (c *Client) ReleaseCable(ctx context.Context, cable string) (*Change, error) {
	out := &Change{}
	return out, c.Call(ctx, http.MethodPost, "/v1/cables/release", ReleaseRequest{cable}, out)
}
