package linkstate

import (
	"fmt"
	"time"

	"github.com/forsd/forsd/topology"
)

// Event is what happened.
type Event interface{ event() }

// Tick says that time has passed; see Links.Wake.
type Tick struct{}

// SweepBegan says that the manager has begun a sweep.
type SweepBegan struct{ At time.Time }

// SweepsUntold says that nobody tells any more when sweeps begin, or that somebody
// else does: what is known of them is forgotten.
type SweepsUntold struct{}

// Shown says what a sweep shows: at its end, or in its middle where Swept is false. Seen
// is its first sign, zero where that is the trap that was told, or the beginning of
// the sweep. It is always answered by a Believe.
type Shown struct {
	Fabric *topology.Fabric
	Swept  bool
	Seen   time.Time
}

// Trap says that a switch has told the manager that a link of it has changed.
type Trap struct {
	LID topology.LID
	At  time.Time
}

// Overheard says that the manager's log tells of a trap of a switch: that it was received,
// or that others are told of it.
type Overheard struct {
	LID  topology.LID
	Told bool
}

// HeldBack says at which switches there are cables that are held back because they keep
// bouncing: their traps may be ignored soon.
type HeldBack struct{ Switches []topology.GUID }

// Noticed says that something else has changed, or may have been missed.
type Noticed struct{}

// Said answers Reads: what switches said, together as they came.
type Said struct{ Answers []Answer }

// Answer is what a switch said of the ports that it was asked for, nothing where it
// could not be read.
type Answer struct {
	Switch  topology.GUID
	Ports   []Port
	Manager topology.LID // the master subnet manager's, 0 where the switch has not said
}

// Port is what a switch said of one of its ports.
type Port struct {
	Number uint8
	State  topology.PortState
	Rate   topology.Rate // in use
}

// SweepOrdered says that a manager on another host has been given tables, and is about
// to sweep.
type SweepOrdered struct{}

// Looked answers Discover: the discovery is over, and what it has found was shown.
type Looked struct {
	Unfinished bool // it has found a fabric that the manager has not brought up yet
}

func (Tick) event()         {}
func (SweepBegan) event()   {}
func (SweepsUntold) event() {}
func (Shown) event()        {}
func (Trap) event()         {}
func (Overheard) event()    {}
func (HeldBack) event()     {}
func (Noticed) event()      {}
func (Said) event()         {}
func (SweepOrdered) event() {}
func (Looked) event()       {}

// Action is what is to be done.
type Action interface{ String() string }

// Believe says what the fabric is, from the first sign of it on. It has no answer.
type Believe struct {
	Fabric *topology.Fabric
	Seen   time.Time
}

// Read asks a switch for the states and rates of ports. Port 0 is its own, which tells
// the master's LID.
type Read struct {
	Switch topology.GUID
	LID    topology.LID
	Ports  []uint8 // ascending
}

// Discover has the fabric discovered. Swept tells whether the manager has swept, or
// had the time for it, since something changed.
type Discover struct{ Swept bool }

// String prints the action for the log.
func (a Believe) String() string { return "believe " + a.Fabric.Hash()[:16] }

// String prints the action for the log.
func (a Read) String() string { return fmt.Sprintf("read %s ports %d", a.Switch, a.Ports) }

// String prints the action for the log.
func (a Discover) String() string {
	if a.Swept {
		return "discover after a sweep"
	}
	return "discover"
}
