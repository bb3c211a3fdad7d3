package api

import (
	"context"
	"net/http"
	"time"

	"github.com/forsd/forsd/ib"
)

// ExchangeTimes is the body of POST /v1/plan/times: when the servers of an exchange by the plan
// sent and received.
type ExchangeTimes struct {
	Bytes   int64         `json:"bytes"`  // of a transfer, from one server to another
	Phases  []uint32      `json:"phases"` // of the plan, ascending; all, or some of them
	Servers []ServerTimes `json:"servers"`
}

// ServerTimes has the times of a server by its own clock, in nanoseconds since any moment that
// is the same for all servers; 0: nothing.
type ServerTimes struct {
	GUID     ib.GUID `json:"guid"`     // of its port
	Sent     []int64 `json:"sent"`     // [ExchangeTimes.Phases] it began to send
	Received []int64 `json:"received"` // [ExchangeTimes.Phases] all had arrived
}

// MeasuredList is the answer of GET /v1/measured.
type MeasuredList struct {
	Exchanges []Measured `json:"exchanges"` // of the fabric and of each job the last one, the oldest first
}

// Measured is what the times of an exchange tell of the fabric.
type Measured struct {
	At        time.Time       `json:"measured_at,omitzero"`
	Epoch     uint64          `json:"epoch,omitempty"`
	Job       uint64          `json:"job,omitempty"` // 0: the fabric's exchange
	Transfers int             `json:"transfers"`
	Noise     float64         `json:"noise"`     // the standard deviation of a transfer's time, as a part of it
	Threshold float64         `json:"threshold"` // the least score of a slow part
	Slow      []SlowPart      `json:"slow"`      // those with the most evidence first
	Cables    []MeasuredCable `json:"cables"`    // those that transfers passed
}

// SlowPart is a link, a cable or a switch that is slower than others.
type SlowPart struct {
	Name      string  `json:"part"`
	Slowdown  float64 `json:"slowdown"` // 0.15: its transfers take 15 % longer
	Error     float64 `json:"error"`    // half the width of the interval that has the slowdown with 95 %
	Score     float64 `json:"score"`    // in standard deviations of the noise
	Transfers int     `json:"transfers"`
	// Or are parts that explain the same nearly as well: these measurements do not tell them apart.
	Or []string `json:"or,omitempty"`
}

// MeasuredCable is a cable with the transfers that passed it and that no other part slowed.
type MeasuredCable struct {
	A         LinkEnd `json:"a"`
	B         LinkEnd `json:"b"`
	Gbps      float64 `json:"gbps,omitempty"` // median throughput of a transfer; 0: sizes are not known
	Slowdown  float64 `json:"slowdown"`       // median
	Error     float64 `json:"error"`          // as in SlowPart
	Transfers int     `json:"transfers"`
	Slow      bool    `json:"slow"` // it is a slow part, and told apart from others
}

// Measured asks for what exchanges have told.
func (c *Client) Measured(ctx context.Context) (*MeasuredList, error) {
	out := &MeasuredList{}
	return out, c.Call(ctx, http.MethodGet, "/v1/measured", nil, out)
}
