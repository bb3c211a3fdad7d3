// Package api is the HTTP interface of forsd, version 1: its types, and the client that forsctl
// uses. docs/api.md describes every endpoint.
package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/forsd/forsd/phasetable"
)

// Status is the answer of /v1/status.
type Status struct {
	Version      string    `json:"release"`
	Fabric       string    `json:"fabric,omitempty"` // its name in the configuration
	Started      time.Time `json:"started_at"`
	State        string    `json:"state"` // what the controller waits for
	Ready        bool      `json:"ready"` // a verified epoch is in force
	Epoch        uint64    `json:"epoch"` // 0 before the first
	PublishedAt  time.Time `json:"published_at,omitzero"`
	PairsChanged int       `json:"pairs_changed"` // see Epoch
	TopologyHash string    `json:"topology_hash"`
	FabricKind   string    `json:"fabric_kind,omitempty"` // of the fabric seen last: fat-tree, partly-covered, three-levels or own-routes
	phasetable.Summary
	phasetable.Size
	Base            *Epoch     `json:"base,omitempty"` // the plan for base LIDs in force, nil if there is none
	phasetable.Load            // of the tables read back last, 0 before that
	OpenSM          OpenSM     `json:"opensm"`
	LastEvent       *LastEvent `json:"last_event,omitempty"`
	Warnings        []Warning  `json:"warnings"`
	Baseline        []string   `json:"baseline"`          // how the fabric deviates from its baseline
	Drains          []Drain    `json:"drains,omitempty"`  // parts that are taken out to be worked on
	Watched         *Watched   `json:"watched,omitempty"` // the last fabric seen by a forsd that only watches; nil before the first fabric and in other modes
	Watches         bool       `json:"watches,omitempty"` // forsd only watches (mode: watch): it writes nothing and sends no signals
}

// Warning is a warning in force.
type Warning struct {
	Code     string    `json:"code"`
	Severity string    `json:"severity"` // info, degraded or critical
	Title    string    `json:"title"`
	Text     string    `json:"text"`
	Since    time.Time `json:"raised_at"`
	Advice   string    `json:"advice,omitempty"`
	Runbook  string    `json:"runbook_url,omitempty"` // the page about the code
}

// Preview is the answer of /v1/baseline/preview: what accepting the fabric as the baseline
// would change, and how the fabric deviates from the baseline now.
type Preview struct {
	Changes    []string `json:"changes"`
	Deviations []string `json:"deviations"`
}

// Watched is what a forsd that only watches has planned and counted.
type Watched struct {
	At    time.Time `json:"seen_at"`
	Plan  *Outlook  `json:"plan,omitempty"`  // that it would publish
	Shift *Exchange `json:"shift,omitempty"` // a linear shift on the tables that the switches hold
	Error string    `json:"error,omitempty"` // why one of them is missing
}

// Outlook is a plan that is not published, in figures.
type Outlook struct {
	phasetable.Summary
	phasetable.Size
	phasetable.Proof
}

// Exchange is what an exchange meets on tables: transfers on the busiest link of a phase on
// average, the share of phases in which two share one, the throughput relative to none
// that do, and transfers that do not arrive.
type Exchange struct {
	Phases     int     `json:"phases"`
	Mean       float64 `json:"mean"`
	Conflicts  float64 `json:"conflicts"`
	Throughput float64 `json:"relative_throughput"`
	Lost       int     `json:"lost"`
}

// OpenSM is what is known of the subnet manager.
type OpenSM struct {
	Running       bool      `json:"running"`
	PID           int       `json:"pid,omitempty"`
	RoutingEngine string    `json:"routing_engine,omitempty"`
	TablesFile    string    `json:"tables_file,omitempty"` // the file that it reads its tables from
	Source        string    `json:"source"`                // where the fabric and its changes are read from; see the constants
	Plugin        *Plugin   `json:"plugin,omitempty"`      // nil while it is not connected
	Standby       bool      `json:"standby,omitempty"`     // another manager is the master: nothing is published or written
	DumpedAt      time.Time `json:"dumped_at,omitzero"`    // when it last showed the fabric
	ReadBackAt    time.Time `json:"read_back_at,omitzero"` // its tables were last read back
	TablesMatch   bool      `json:"tables_match"`          // they were the tables planned
}

// The sources of forsd's view of the fabric: OpenSM's plugin; its dumps, with or without
// traps by a subscription; or a discovery of forsd's own.
const (
	SourcePlugin       = "plugin"
	SourceSubscription = "subscription"
	SourceFiles        = "files"
	SourceDiscovery    = "discovery"
)

// Plugin is the plugin in OpenSM that is connected.
type Plugin struct {
	Since           time.Time `json:"connected_at"`
	Version         string    `json:"version"`          // of OpenSM
	State           string    `json:"state"`            // of OpenSM: not active, discovering, standby, master
	DeadlineSeconds float64   `json:"deadline_seconds"` // what a sweep waits for tables
}

// LastEvent is how long the last change took. The times are seconds after SeenAt, 0 if
// not reached yet.
type LastEvent struct {
	What              []string  `json:"what"`
	SeenAt            time.Time `json:"seen_at"`
	PlannedSeconds    float64   `json:"planned_seconds"`
	VerifiedSeconds   float64   `json:"verified_seconds"`
	PublishedSeconds  float64   `json:"published_seconds"`
	ProgrammedSeconds float64   `json:"programmed_seconds"`
	ReadBackSeconds   float64   `json:"read_back_seconds"`
}

// EpochList is the answer to GET /v1/epochs: those that are kept, ascending.
type EpochList struct {
	Epochs []Epoch `json:"epochs"`
}

// Epoch is an epoch that is kept.
type Epoch struct {
	Epoch       uint64    `json:"epoch"`
	PublishedAt time.Time `json:"published_at"`
	phasetable.Length
	TopologyHash string   `json:"topology_hash"`
	What         []string `json:"what,omitempty"`        // why it was planned
	RollbackOf   uint64   `json:"rollback_of,omitempty"` // the epoch that it repeats
	// PairsChanged counts the ordered pairs of servers that it gives another destination
	// LID than the epoch before; PlanChanges lists them.
	PairsChanged int `json:"pairs_changed"`
}

// WhatIf asks for a plan of the fabric without some parts, and with Done for the rest of an
// exchange.
type WhatIf struct {
	Fail  []string  `json:"fail"`            // a node, or node/port
	AsIs  bool      `json:"as_is,omitempty"` // nothing fails: the plan that a reroute would make
	Done  *Progress `json:"done,omitempty"`  // how far an exchange has come
	Epoch uint64    `json:"epoch,omitempty"` // the plan that the exchange runs, 0 for the one in force
	Job   string    `json:"job,omitempty"`   // the job whose exchange it is, by number or name
}

// Forecast is the answer to a WhatIf.
type Forecast struct {
	What      []string        `json:"what"` // the difference to the fabric now, in words
	Plan      json.RawMessage `json:"plan"` // of the complete exchange, as in plan.json
	Remaining *Remaining      `json:"remaining,omitempty"`

	// Table is the plan as a phase table: of the rest of an exchange if that was asked for,
	// otherwise of the complete exchange. It has the epoch of the plan that the exchange
	// runs, or the epoch in force.
	Table *phasetable.View `json:"-"`
}

// Remaining is a plan of the pairs of servers that an exchange lacks.
type Remaining struct {
	Epoch              uint64 `json:"epoch"` // of the plan that the exchange runs
	Done               int    `json:"done"`  // phases of it
	phasetable.Summary        // of the remaining phases
	phasetable.Proof
	Kept        int     `json:"kept"`  // transfers in their phase and on their lane
	Moved       int     `json:"moved"` // in their phase, on another lane
	Shed        int     `json:"shed"`  // in another phase
	Anew        bool    `json:"anew"`  // planning from nothing took fewer phases than repair
	PlanSeconds float64 `json:"plan_seconds"`
}

// Change is the result of a request.
type Change struct {
	Epoch   uint64 `json:"epoch"`   // in force afterwards
	Changed bool   `json:"changed"` // whether it is a new one
	Text    string `json:"text"`
}

// Reload is the answer to POST /v1/reload: the keys of forsd.yaml whose changed values are
// or would be in force now, and those that need a restart of forsd.
type Reload struct {
	File    string   `json:"file"`
	Changed []string `json:"changed"`
	Restart []string `json:"restart"`
}

// ReloadRequest is the body of POST /v1/reload.
type ReloadRequest struct {
	DryRun bool `json:"dry_run,omitempty"` // check the file, and change nothing
}

// Reload makes the daemon read its configuration again.
func (c *Client) Reload(ctx context.Context, q ReloadRequest) (*Reload, error) {
	return ask[Reload](ctx, c, http.MethodPost, "/v1/reload", q)
}
