package controller

import "fmt"

// Event is what happened.
type Event interface{ event() }

// Text is an error as events carry it, "" for none.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Tick says that time has passed; see Controller.Wake.
type Tick struct{}

// Found says what the fabric is, where the manager has yet to route it: it is in
// the middle of a sweep, or has not begun.
type Found struct{ Snapshot }

// Seen says what the fabric is at the end of a sweep of the manager, which has
// loaded what tables there were: its complete dump.
type Seen struct{ Snapshot }

// Mastership says whether the manager next door is the subnet's master. Until the
// first it is taken for that.
type Mastership struct{ Master bool }

// Refused says that the manager's dump cannot be used: it does not parse, or
// the fabric is one that nothing is done about.
type Refused struct{ Reason string }

// Reroute is an operator's order to do everything anew.
type Reroute struct{}

// TablesDoubted says that the manager may have programmed other tables: its
// process is a new one, or it says that it routed by itself.
type TablesDoubted struct{}

// Configured gives the controller other times and limits. What waits already, waits as
// before.
type Configured struct{ Settings Settings }

// Planned answers Plan. Same says that the plan in force is already this one.
// Refused says that there is no plan in force, and that the fabric is not one to plan.
type Planned struct {
	Same    bool
	Err     string
	Refused bool
}

// Published answers Publish.
type Published struct{ Err string }

// Written answers Write. Changed says that the table file differs now.
type Written struct {
	Changed bool
	Err     string
}

// Signalled answers Signal.
type Signalled struct{ Err string }

// ReadBackDone answers ReadBack: the switches hold the planned tables, or they
// differ and Difference says where, or Err says why they could not be read.
type ReadBackDone struct {
	Match      bool
	Difference string
	Err        string
	// Unwritten says why the table file, which may be written while the manager
	// has the tables already, does not hold them.
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

// Action is what is to be done.
type Action interface{ String() string }

// Plan asks for a verified plan of the fabric on its living lanes but those to
// avoid. Final says that the tables read back are those of this fabric; else
// the plan must hold on the tables in force with the ports now down, and on the
// tables about to be written, which leave the lanes of Hold to fallback traffic.
// Ahead says that nobody will get the plan: tables in force are not known. Anew says
// that an operator asked for it, and that what a rollback chose gives way.
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

// Write builds, verifies and writes the tables of the fabric, with the lanes of
// Hold left to fallback traffic.
type Write struct {
	Fabric *Snapshot
	Hold   []Lane
}

// Signal has the manager sweep and load the table file.
type Signal struct{}

// ReadBack reads the tables out of the switches and compares them with those of
// the fabric. Where its routes are the manager's, any tables match: the plan that
// follows is for them.
type ReadBack struct {
	Fabric *Snapshot
	Hold   []Lane
}

// Settled says that the tables in force fit the fabric, and the plan in force,
// too, unless Planless says that none could be made. It has no answer.
type Settled struct {
	Fabric   *Snapshot
	Planless bool
}

// Warn raises or renews a health warning. It has no answer.
type Warn struct{ Code, Text string }

// Clear takes a health warning back, if it is raised. It has no answer.
type Clear struct{ Code string }

// outbox is what the controller answers to an event, and the warnings in force.
type outbox struct {
	raised map[string]bool // by code
	out    []Action
}

func (o *outbox) do(a Action) { o.out = append(o.out, a) }

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

// tellHeld tells which lanes are held back because they keep bouncing.
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

// String prints the action as the transcripts show it.
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

// String prints the action as the transcripts show it.
func (a Publish) String() string { return "publish " + a.Fabric.String() }

// String prints the action as the transcripts show it.
func (a Write) String() string { return "write " + a.Fabric.String() + holding(a.Hold) }

// String prints the action as the transcripts show it.
func (a Signal) String() string { return "signal" }

// String prints the action as the transcripts show it.
func (a ReadBack) String() string { return "read-back " + a.Fabric.String() + holding(a.Hold) }

// String prints the action as the transcripts show it.
func (a Settled) String() string {
	if a.Planless {
		return "settled " + a.Fabric.ID + " without a plan"
	}
	return "settled " + a.Fabric.ID
}

// String prints the action as the transcripts show it.
func (a Warn) String() string { return "warn " + a.Code + ": " + a.Text }

// String prints the action as the transcripts show it.
func (a Clear) String() string { return "clear " + a.Code }

func holding(lanes []Lane) string {
	if len(lanes) == 0 {
		return ""
	}
	return fmt.Sprintf(" holding %v", lanes)
}
