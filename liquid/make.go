package liquid

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Method is a way to make a schedule.
type Method string

// The methods. Auto tries the search, then the colouring, then Dsatur, and keeps
// the best.
const (
	MethodAuto       Method = "auto"
	MethodSearch     Method = "search"      // full teams, depth first
	MethodColouring  Method = "colouring"   // moves transfers between a fixed number of steps
	MethodDsatur     Method = "dsatur"      // greedy
	MethodRoundRobin Method = "round-robin" // ignores the network
	MethodRandom     Method = "random"      // ignores the network

	// MethodFirstFit is the fallback if time is up before any other method has a
	// schedule: each transfer in turn takes the first step with room.
	MethodFirstFit Method = "first-fit"
)

// Methods lists the methods of Make.
var Methods = []Method{MethodAuto, MethodSearch, MethodColouring, MethodDsatur, MethodRoundRobin, MethodRandom, MethodFirstFit}

// Options limit the effort of Make, in flags and in requests. Its context limits the time.
type Options struct {
	Method Method `json:"method"`       // MethodAuto if empty
	Nodes  int64  `json:"search_nodes"` // of the search; 0 means DefaultNodes
	Moves  int64  `json:"moves"`        // of the colouring without progress, for each number of steps; 0 means DefaultMoves
	Seed   uint64 `json:"seed"`         // of all random choices
}

// Defaults of Options.
const (
	DefaultNodes = 5_000_000
	DefaultMoves = 200_000
)

// maxPlaces bounds links times steps, for which the colouring stores the owners: a
// gigabyte.
const maxPlaces = 1 << 28

// Result is a schedule and its known properties.
type Result struct {
	Schedule Schedule
	Method   Method // that made the schedule
	// Liquid reports whether the schedule has Λ steps and, if transfers take different
	// times, takes no longer than TimeBound.
	Liquid bool
	// NoLiquid reports whether it is proven that no liquid schedule exists.
	NoLiquid bool
	// Bound is a lower bound on the steps of any schedule: Λ, or more if NoLiquid.
	Bound int
	// Orbits is the number of orbits of transfers that were scheduled, or 0 if no
	// symmetry was used.
	Orbits int
	Nodes  int64 // transfers that the search has tried
	Moves  int64 // transfers that the colouring has moved
}

// Optimal reports whether the schedule is known to be shortest: liquid, or as long as
// the bound if no liquid one exists.
func (r *Result) Optimal() bool { return r.Liquid || r.NoLiquid && len(r.Schedule) == r.Bound }

// Make schedules the traffic and verifies the result. If the context's deadline passes,
// it returns the best schedule so far; there always is one. It reserves the time for the
// verification. If the context is cancelled, it fails with ctx.Err() and returns the best
// schedule so far, if any. Until the context ends, the result depends only on the traffic
// and the options.
func Make(ctx context.Context, t *Traffic, o Options) (*Result, error) {
	o.Method = cmp.Or(o.Method, MethodAuto)
	if !slices.Contains(Methods, o.Method) {
		return nil, fmt.Errorf("make a schedule: unknown method %q: want %s", o.Method, methodNames())
	}
	if places := t.Links() * t.Duration(); places > maxPlaces {
		return nil, fmt.Errorf("make a schedule: %d links times %d steps are more than the %d that fit into memory: schedule fewer transfers at once",
			t.Links(), t.Duration(), maxPlaces)
	}
	o.Nodes = cmp.Or(o.Nodes, DefaultNodes)
	if o.Moves == 0 {
		o.Moves = DefaultMoves
	}
	m := &maker{t: t, o: o, r: &Result{Bound: t.Duration()}}
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	check := Verify
	if m.r.Liquid {
		check = VerifyLiquid
	}
	if err := check(t, m.r.Schedule); err != nil {
		return nil, fmt.Errorf("the schedule by %s is invalid: %w", m.r.Method, err)
	}
	if cancelled(ctx) {
		return m.r, ctx.Err()
	}
	return m.r, nil
}

func methodNames() string {
	names := make([]string, len(Methods))
	for i, m := range Methods {
		names[i] = string(m)
	}
	return strings.Join(names, ", ")
}
