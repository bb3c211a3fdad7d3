package controller

import "fmt"

// Event is an input of the controller.
type Event interface{ event() }

// Text returns the form of an error in events; "" if err is nil.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Tick reports that time has passed; see Controller.Wake.
type Tick struct{}

// Found reports the fabric before the manager has routed it: during or before a sweep.
type Found struct{ Snapshot }

// Seen reports the fabric from the manager's complete dump at the end of a sweep. The manager
// has loaded the tables by then.
type Seen struct{ Snapshot }

// Mastership reports whether the local manager is the subnet's master. Before the first such
// event, the controller assumes that it is.
type Mastership struct{ Master bool }

// Refused reports that the manager's dump cannot be used: it cannot be parsed, or the fabric
// must not be acted on.
type Refused struct{ Reason string }

// Reroute is an operator's order to repeat every step.
type Reroute struct{}

// TablesDoubted reports that the manager may have programmed other tables: its process is
// new, or it reports that it routed by itself.
type TablesDoubted struct{}

// Configured changes the controller's times and limits. Deadlines already set do not change.
type Configured struct{ Settings Settings }

// Planned is the response to Plan. Same means that the plan in force is already this one.
// Refused means that no plan is in force, and that the fabric is not planned. GivenUp means that
// the planning ended early because of a newer fabric, which may have gone by now.
type Planned struct {
	Same    bool
	Err     string
	Refused bool
	GivenUp bool
}

// Published answers Publish.
type Published struct{ Err string }

// Written is the response to Write. Changed means that the table file differs now.
type Written struct {
	Changed bool
	Err     string
}

// Signalled answers Signal.
type Signalled struct{ Err string }

// ReadBackDone answers ReadBack. Either the switches hold the planned tables, or Difference
// describes how they differ, or Err is why they could not be read.
type ReadBackDone struct {
	Match      bool
	Difference string
	Err        string
	// Unwritten is why the table file, which may be written after the manager has received the
	// tables, does not hold them.
	Unwritten string
}

func (Configured) event()    {}
func (Tick) event()          {}
func (Found) event()         {}
func (Seen) event()          {}
func (Mastership) event()    {}
func (Refused) event()       {}
func (Reroute) event()       {}
func (TablesDoubted) event() {}
func (Planned) event()       {}
func (Published) event()     {}
func (Written) event()       {}
func (Signalled) event()     {}
func (ReadBackDone) event()  {}

// Action is an output of the controller; its String is its form in transcripts.
type Action interface{ String() string }

// Plan requests a verified plan of the fabric on its living lanes except those to avoid.
// Final means that the tables read back are those of this fabric; otherwise the plan must
// hold on the tables in force with the ports now down, and on the tables about to be
// written, which leave the lanes of Hold to fallback traffic. Ahead means that the plan is
// not published: the tables in force are unknown. Anew means that an operator asked for it,
// and that a rollback's choice gives way.
type Plan struct {
	Fabric *Snapshot
	Avoid  []Lane
	Hold   []Lane
	Final  bool
	Ahead  bool
	Anew   bool
}

// Publish makes the last plan the one in force, under a new epoch.
type Publish struct{ Fabric *Snapshot }

// Write builds, verifies and writes the tables of the fabric, which leave the lanes of Hold to
// fallback traffic.
type Write struct {
	Fabric *Snapshot
	Hold   []Lane
}

// Signal makes the manager sweep and load the table file.
type Signal struct{}

// ReadBack reads the tables out of the switches and compares them with those of the fabric. If
// the manager makes the routes, any tables match: the next plan is made for them.
type ReadBack struct {
	Fabric *Snapshot
	Hold   []Lane
}

// Settled reports that the tables in force fit the fabric, and the plan in force too,
// unless Planless is set because none could be made. It has no response.
type Settled struct {
	Fabric   *Snapshot
	Planless bool
}

// Warn raises or renews a health warning. It has no answer.
type Warn struct{ Code, Text string }

// Clear clears a health warning, if it is raised. It has no answer.
type Clear struct{ Code string }

// outbox has the controller's response to an event, and the warnings in force.
type outbox struct {
	raised  map[string]bool // by code
	actions []Action
}

func (o *outbox) do(a Action) { o.actions = append(o.actions, a) }

func (o *outbox) warn(code, text string) {
	o.raised[code] = true
	o.do(Warn{code, text})
}

func (o *outbox) clear(codes ...string) {
	for _, code := range codes {
		if o.raised[code] {
			delete(o.raised, code)
			o.do(Clear{code})
		}
	}
}

// tellHeld reports the lanes that are held because they are unstable.
func (o *outbox) tellHeld(lanes []Lane) {
	if len(lanes) > 0 {
		o.warn(CableHeld, fmt.Sprintf("cables that keep bouncing are not used for now, as leaf/lane: %v", lanes))
	} else {
		o.clear(CableHeld)
	}
}

// The codes of the controller's warnings.
const (
	FabricRefused    = "fabric-refused"
	FabricIncomplete = "fabric-incomplete"
	NotFatTree       = "not-a-fat-tree"
	CableHeld        = "cable-held"
	PlanFailed       = "plan-failed"
	LiquidFailed     = "liquid-plan-failed"
	PublishFailed    = "publish-failed"
	TablesFailed     = "tables-failed"
	SignalFailed     = "signal-failed"
	SweepTimeout     = "sweep-timeout"
	ReadBackFailed   = "read-back-failed"
	TablesStale      = "tables-stale"
)

func (a Plan) String() string {
	s := "plan " + a.Fabric.String()
	if a.Final {
		s += " final"
	}
	if a.Ahead {
		s += " ahead"
	}
	if a.Anew {
		s += " anew"
	}
	if len(a.Avoid) > 0 {
		s += fmt.Sprintf(" avoiding %v", a.Avoid)
	}
	return s
}

func (a Publish) String() string  { return "publish " + a.Fabric.String() }
func (a Write) String() string    { return "write " + a.Fabric.String() + holding(a.Hold) }
func (a Signal) String() string   { return "signal" }
func (a ReadBack) String() string { return "read-back " + a.Fabric.String() + holding(a.Hold) }

func (a Settled) String() string {
	if a.Planless {
		return "settled " + a.Fabric.ID + " without a plan"
	}
	return "settled " + a.Fabric.ID
}

func (a Warn) String() string  { return "warn " + a.Code + ": " + a.Text }
func (a Clear) String() string { return "clear " + a.Code }

func holding(lanes []Lane) string {
	if len(lanes) == 0 {
		return ""
	}
	return fmt.Sprintf(" holding %v", lanes)
}
