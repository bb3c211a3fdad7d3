package controller

import "slices"

// Snapshot is a fabric as the controller sees it.
type Snapshot struct {
	ID   string  // digest of fabric and baseline: equal IDs need equal plans and tables
	Kind Kind    // what is to be done about it
	Why  string  // why it is not a fat tree, "" if it is one
	Down []Lane  // lanes that no schedule can use, ascending
	Lost float64 // share of the servers in force that are missing from it
	View any     // what the daemon knows it by; actions hand it back
	// Withheld are the lanes that are to stay out of the plan by decision: cables that are
	// to be maintained, or that are not well. They carry what has no other way, and the
	// plan in force is without them once Held lists them and the controller is Idle.
	Withheld []Lane
}

// String returns the fabric's ID, with its kind where that is not the common one.
func (s *Snapshot) String() string {
	if s.Kind == FatTree {
		return s.ID
	}
	return s.ID + " (" + s.Kind.String() + ")"
}

// fabrics are the fabric seen last, the one worked on, and the cables' transitions between
// them.
type fabrics struct {
	maxLoss float64
	latest  *Snapshot // the last fabric seen, whether believed or not
	swept   bool      // latest was seen at the end of a sweep, which has routed it
	work    *Snapshot // the fabric being worked on, or in force when Idle
	done    bool      // plan and tables in force fit work
	flaps   flaps
	// withheld are the lanes that are to stay out of the plan by decision, ascending.
	withheld []Lane
	held     []Lane // lanes held back in the work in progress, ascending
}

// Held lists the lanes that are held back, because they keep bouncing or by decision.
func (f *fabrics) Held() []Lane { return slices.Clone(f.held) }

// Bouncing lists the lanes that are held back because they keep bouncing.
func (f *fabrics) Bouncing() []Lane { return minus(f.flaps.held(), f.withheld) }

// Doubts reports whether the latest fabric lacks so much that it is not believed.
func (f *fabrics) Doubts() bool {
	return f.latest != nil && f.latest.Lost > f.maxLoss && (f.work == nil || f.work.ID != f.latest.ID)
}

// holding lists the lanes to hold back in a fabric: one that is not a tree has none.
func (f *fabrics) holding(s *Snapshot) []Lane {
	if s.Kind == OwnRoutes {
		return nil
	}
	return union(f.flaps.held(), minus(f.withheld, s.Down))
}

// settled reports whether tables and plan in force fit the fabric seen last.
func (f *fabrics) settled() bool {
	return f.done && f.work.ID == f.latest.ID && slices.Equal(f.held, f.holding(f.latest))
}
