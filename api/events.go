package api

import (
	"encoding/json"
)

// Event is something that happened.
type Event struct {
	ID   string          `json:"id"` // opaque
	Kind string          `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// The kinds of events. KindMissed means that the subscriber has lost events (it was away
// too long, or the daemon was restarted) and must read the status.
const (
	KindEpoch   = "epoch"
	KindBase    = "base"
	KindDrain   = "drain" // see DrainEvent
	KindJob     = "job"
	KindLink    = "link"
	KindOrder   = "order" // an operator's: see Order
	KindCable   = "cable" // a decision about one: see CableEvent
	KindWarning = "warning"
	KindStart   = "start"    // forsd was started: see Start
	KindLead    = "takeover" // forsd leads, or follows another one: see Takeover
	KindMissed  = "missed"
)

// Order is the data of an event of the kind KindOrder: an order and its result. Before and
// After are the epochs in force.
type Order struct {
	What   string  `json:"what"`
	By     *Caller `json:"by"`
	Result string  `json:"result"`
	Before uint64  `json:"before"`
	After  uint64  `json:"after"`
}

// Start is the data of an event of the kind KindStart.
type Start struct {
	Version string `json:"release"`
}

// Takeover is the data of an event of the kind KindLead.
type Takeover struct {
	Leads bool   `json:"leads"`
	Why   string `json:"why,omitempty"`
	Epoch uint64 `json:"epoch"`
}
