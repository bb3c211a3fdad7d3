package linkstate

import (
	"fmt"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// Event is an input of the link state.
type Event interface{ event() }

// Tick reports that time has passed; see Links.Wake.
type Tick struct{}

// SweepBegan reports that the manager has begun a sweep.
type SweepBegan struct{ At time.Time }

// SweepsUntold reports that the beginnings of sweeps are no longer announced, or are
// announced by another source. The link state forgets earlier ones.
type SweepsUntold struct{}

// Shown reports the fabric of a sweep: at its end, or during it if Swept is false. Seen is
// the time of its first sign, zero if that is the reported trap or the beginning of the
// sweep. The response is always a Believe.
type Shown struct {
	Fabric *topology.Fabric
	Swept  bool
	Seen   time.Time
}

// Trap reports that a switch has sent the manager a trap about one of its links.
type Trap struct {
	LID ib.LID
	At  time.Time
}

// TrapLogged reports a line of the manager's log about a trap of a switch: that it was
// received, or that it is forwarded.
type TrapLogged struct {
	LID  ib.LID
	Told bool
}

// HeldBack lists the switches at cables that are held back because they keep bouncing.
// The traps of these switches may be ignored soon.
type HeldBack struct{ Switches []ib.GUID }

// Noticed reports that something else has changed, or may have been missed.
type Noticed struct{}

// PortsRead is the response to Reads. It contains all answers that have arrived.
type PortsRead struct{ Answers []Answer }

// Answer is a switch's report on the requested ports. It is empty if the switch could not
// be read.
type Answer struct {
	Switch  ib.GUID
	Ports   []Port
	Manager ib.LID // of the master subnet manager; 0 if the switch has not reported it
}

// Port is a switch's report on one of its ports.
type Port struct {
	Number uint8
	State  topology.PortState
	Rate   ib.Rate // in use
}

// SweepOrdered reports that a manager on another host has been given tables, and is about
// to sweep.
type SweepOrdered struct{}

// Looked is the response to Discover: the discovery is over, and its result was shown.
type Looked struct {
	Unfinished bool // it has found a fabric that the manager has not brought up yet
}

func (Tick) event()         {}
func (SweepBegan) event()   {}
func (SweepsUntold) event() {}
func (Shown) event()        {}
func (Trap) event()         {}
func (TrapLogged) event()   {}
func (HeldBack) event()     {}
func (Noticed) event()      {}
func (PortsRead) event()    {}
func (SweepOrdered) event() {}
func (Looked) event()       {}

// Action is an output of the link state; its String is its form in the log.
type Action interface{ String() string }

// Believe sets the fabric to act on, with the time of its first sign. It has no response.
type Believe struct {
	Fabric *topology.Fabric
	Seen   time.Time
}

// Read asks a switch for the states and rates of ports. Port 0 is the switch's own and
// reports the master's LID.
type Read struct {
	Switch ib.GUID
	LID    ib.LID
	Ports  []uint8 // ascending
}

// Discover requests a discovery of the fabric. Swept means that the manager has swept, or
// had the time for it, since something changed.
type Discover struct{ Swept bool }

func (a Believe) String() string { return "believe " + a.Fabric.Hash()[:16] }
func (a Read) String() string    { return fmt.Sprintf("read %s ports %d", a.Switch, a.Ports) }

func (a Discover) String() string {
	if a.Swept {
		return "discover after a sweep"
	}
	return "discover"
}
