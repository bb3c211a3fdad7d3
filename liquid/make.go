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
	MethodRoundRobin Method = "round-robin" // knows nothing of the network
	MethodRandom     Method = "random"      // knows nothing of the network

	// MethodFirstFit is what is left when the time is up before anything else has
	// an answer: each transfer in turn takes the first step with room.
	MethodFirstFit Method = "first-fit"
)

// Methods lists the methods that Make takes.
var Methods = []Method{MethodAuto, MethodSearch, MethodColouring, MethodDsatur, MethodRoundRobin, MethodRandom, MethodFirstFit}

// Options say how much Make may try, by flags and in requests. The time is that of its
// context.
type Options struct {
	Method Method `json:"method"`       // empty for MethodAuto
	Nodes  int64  `json:"search_nodes"` // of the search; 0 for DefaultNodes
	Moves  int64  `json:"moves"`        // of the colouring without progress, for each number of steps; 0 for DefaultMoves
	Seed   uint64 `json:"seed"`         // of everything random
}

// Defaults of Options.
const (
	DefaultNodes = 5_000_000
	DefaultMoves = 200_000
)

// maxPlaces bounds links times steps, of which the colouring keeps who has each:
// a gigabyte.
const maxPlaces = 1 << 28

// Result is a schedule and what is known of it.
type Result struct {
	Schedule Schedule
	Method   Method // that made the schedule; a search that only proves is in Proof
	// Liquid tells that the schedule has Λ steps and, where transfers take
	// different times, takes no longer than TimeBound.
	Liquid bool
	// NoLiquid tells that the search has ended without a liquid schedule: there is
	// none.
	NoLiquid bool
	// Bound is the number of steps that no schedule is below: Λ, or more where NoLiquid.
	Bound int
	// Orbits is of how many orbits of transfers the schedule was made, 0 where no
	// symmetry was used.
	Orbits int
	Nodes  int64 // transfers that the search has tried
	Moves  int64 // transfers that the colouring has moved
}

// Optimal tells whether the schedule is known to be the shortest there is: liquid, or as
// long as the bound where no liquid one exists.
func (r *Result) Optimal() bool { return r.Liquid || r.NoLiquid && len(r.Schedule) == r.Bound }

// Make schedules the traffic, and verifies what it returns. When the context's
// deadline passes, it returns the best schedule found until then; there always is one.
// It keeps the time back that the verification takes. When the context is cancelled,
// it fails with ctx.Err(), and returns the best schedule beside it if there is one.
// What was found before the context's end depends on nothing but the traffic and the
// options.
func Make(ctx context.Context, t *Traffic, o Options) (*Result, error) {
	o.Method = cmp.Or(o.Method, MethodAuto)
	if !slices.Contains(Methods, o.Method) {
		return nil, fmt.Errorf("make a schedule: there is no method %q: want %s", o.Method, methodNames())
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
		return nil, fmt.Errorf("the schedule by %s is wrong: %w", m.r.Method, err)
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
