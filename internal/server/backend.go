// Package server serves forsd's HTTP interface, whose types are those of package api, to ranks,
// operators and monitoring. It knows no planner: a Backend answers for the fabric, and package
// published has the plans in force and the events.
package server

import (
	"context"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
)

// Backend is what the daemon answers and does. Its methods are called from many
// goroutines. An *api.Error decides the status that a caller sees; any other error
// is an internal one.
type Backend interface {
	// Status is the daemon's state now.
	Status() api.Status
	// Topology is the fabric as last seen, nil before the first.
	Topology() *api.Topology
	// Epochs lists the epochs that are kept, ascending.
	Epochs() ([]api.Epoch, error)
	// Reroute plans afresh and publishes what comes out of it.
	Reroute(ctx context.Context) (api.Change, error)
	// WhatIf plans the fabric as it would be, and changes nothing.
	WhatIf(ctx context.Context, q api.WhatIf) (*api.Forecast, error)
	// Rollback publishes the plan of an older epoch as a new one, once it has
	// been verified on the fabric as it is.
	Rollback(ctx context.Context, epoch uint64) (api.Change, error)
	// Measure finds slow parts of the fabric by the times of an exchange by a plan, an
	// api.ExchangeTimes in JSON.
	Measure(ctx context.Context, plan *phasetable.View, times []byte) (*api.Measured, error)
}
