package controller

import (
	"slices"
)

// Snapshot is the controller's form of a fabric.
type Snapshot struct {
	ID   string  // digest of fabric and baseline: equal IDs need equal plans and tables
	Kind Kind    // determines how it is handled
	Why  string  // why it is not a fat tree; "" if it is one
	Down []Lane  // lanes that no schedule can use, ascending
	Lost float64 // share of the servers in force that it lacks
	View any     // the daemon's form of the fabric, returned in actions
	// Withheld are the lanes that must stay out of the plan by decision: cables that are in
	// maintenance, or faulty. They only carry traffic without another path. The plan in force
	// does not use them once Held lists them and the controller is Idle.
	Withheld []Lane
}

// String returns the fabric's ID, with its kind unless that is FatTree.
func (s *Snapshot) String() string {
	if s.Kind == FatTree {
		return s.ID
	}
	return s.ID + " (" + s.Kind.String() + ")"
}

// fabrics has the last fabric seen, the one worked on, and the cables' transitions between
// them.
type fabrics struct {
	maxLoss float64
	latest  *Snapshot // the last fabric seen, accepted or not
	swept   bool      // latest was seen at the end of a sweep, which has routed it
	work    *Snapshot // the fabric being worked on, or in force when Idle
	done    bool      // plan and tables in force fit work
	flaps   flaps
	// lanes that must stay out of the plan by decision, ascending
	withheld []Lane
	held     []Lane // lanes held back in the work in progress, ascending
}

// Held lists the lanes held back because they are unstable or by decision.
func (f *fabrics) Held() []Lane { return slices.Clone(f.held) }

// Bouncing lists the lanes held back because they are unstable.
func (f *fabrics) Bouncing() []Lane { return minus(f.flaps.held(), f.withheld) }

// LossUnconfirmed reports whether the latest fabric lacks so much that it is not accepted yet.
func (f *fabrics) LossUnconfirmed() bool {
	return f.latest != nil && f.latest.Lost > f.maxLoss && (f.work == nil || f.work.ID != f.latest.ID)
}

// holding lists the lanes to hold back in a fabric. A fabric that is not a tree has none.
func (f *fabrics) holding(s *Snapshot) []Lane {
	if s.Kind == OwnRoutes {
		return nil
	}
	return union(f.flaps.held(), minus(f.withheld, s.Down))
}

// settled reports whether the tables and the plan in force fit the last fabric seen.
func (f *fabrics) settled() bool {
	return f.done && f.work.ID == f.latest.ID && slices.Equal(f.held, f.holding(f.latest))
}

// Kind is the kind of a fabric, which determines how it is handled.
type Kind uint8

// The kinds. forsd makes the tables of a fat tree, even if part of the fabric is outside the
// tree. In other fabrics the manager makes the routes: forsd reads them and plans on them, but
// does not write or signal. ThreeLevels is handled like FatTree; its lanes name cables of
// leaves and of mids.
const (
	FatTree       Kind = iota
	PartlyCovered      // a fat tree with hosts or switches outside it
	OwnRoutes          // not a fat tree
	ThreeLevels        // a fat tree of three levels
)

var kindNames = [...]string{"fat-tree", "partly-covered", "own-routes", "three-levels"}

// String returns the kind's name in the API.
func (k Kind) String() string { return kindNames[k] }
