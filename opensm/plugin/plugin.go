// Package plugin is forsd's end of the socket on which libforsosm, the plugin
// in OpenSM's process, reports what the subnet manager sees and asks for
// forwarding tables in the middle of a sweep. docs/opensm-plugin.md describes
// the protocol byte by byte; the C side is in src.
package plugin

import (
	"fmt"
	"time"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/topology"
)

// State is what a subnet manager is at the moment (SMState of the InfiniBand
// architecture).
type State uint8

// The states of a subnet manager.
const (
	NotActive State = iota
	Discovering
	Standby
	Master
)

var stateNames = [...]string{"not active", "discovering", "standby", "master"}

// String returns the state in words.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// TrapLinkState is the number of the trap of a switch, with its LID and the GUID of
// its port 0, whose links have changed.
const TrapLinkState = 128

// Peer is the OpenSM at the other end.
type Peer struct {
	UID      uint32 // of its process, as the kernel says
	PID      int    // of its process, as the plugin says
	Version  string // such as "OpenSM 3.3.23"
	Port     ib.GUID
	Deadline time.Duration // what a sweep waits for tables
}

// Sight is the fabric as the manager has it in memory. Between discovery and the
// end of a sweep the ports of new links are Init, and newcomers may have no LID,
// or one left from another time: see Settled.
type Sight struct {
	// Generation grows with every change on one connection.
	Generation uint64
	Fabric     *topology.Fabric // shared by all that are told of it: read only
	Err        error            // why there is no Fabric
}

// Event is one of Connected, Disconnected, Mastership, Trap, SweepStart,
// Discovered, Outcome, RoutingDone and SubnetUp. At is when it happened in
// OpenSM's process, by the monotonic clock of this one.
type Event interface{ event() }

type (
	// Connected is the first event of a connection.
	Connected struct {
		At   time.Time
		Peer Peer
	}
	// Disconnected is the last event of a connection.
	Disconnected struct {
		At  time.Time
		Err error // why; io.EOF where the plugin went
	}
	// Mastership tells the manager's state, after Connected and at every change.
	Mastership struct {
		At    time.Time
		State State
	}
	// Trap is a notice that OpenSM received. Unknown fields are 0.
	Trap struct {
		At     time.Time
		Number uint16
		GUID   ib.GUID // of the port concerned; of a switch, that of port 0
		LID    ib.LID
		Port   uint8
	}
	// SweepStart means that a heavy sweep starts.
	SweepStart struct{ At time.Time }
	// Discovered means that discovery is complete.
	Discovered struct {
		At time.Time
		Sight
	}
	// Outcome tells what became of an answer to a request for tables.
	Outcome struct {
		At      time.Time
		Request uint64
		Result  Result
		Text    string // what was wrong
	}
	// RoutingDone means that the switches have confirmed their tables.
	RoutingDone struct {
		At      time.Time
		Reroute bool   // without discovery
		Own     bool   // the tables are those of the last Outcome with Installed
		Engine  string // the routing engine used
	}
	// SubnetUp ends a sweep that succeeded: new links carry traffic. It comes on a
	// new connection as well, with a master whose last sweep succeeded.
	SubnetUp struct {
		At time.Time
		Sight
	}
)

func (Connected) event()    {}
func (Disconnected) event() {}
func (Mastership) event()   {}
func (Trap) event()         {}
func (SweepStart) event()   {}
func (Discovered) event()   {}
func (Outcome) event()      {}
func (RoutingDone) event()  {}
func (SubnetUp) event()     {}

// Result is what became of an answer.
type Result uint8

// The results of a request for tables. But for Installed, the plugin mended the tables that
// it held, or OpenSM went on to its next routing engine.
const (
	Installed Result = iota
	Late             // no answer before the deadline
	Declined         // forsd had no tables
	Wrong            // the tables do not fit the fabric in OpenSM's memory
)

var resultNames = [...]string{"installed", "late", "declined", "wrong"}

// String returns the result in a word.
func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("result %d", uint8(r))
}

// Request asks for tables for a fabric during a sweep. OpenSM holds its lock until the
// answer, so the fabric cannot change.
type Request struct {
	At     time.Time
	Number uint64
	MaxLID ib.LID // no table may have an entry beyond
	Sight         // without Err
}

// Resweep is what forsd can have OpenSM do.
type Resweep uint8

// The ways of sweeping.
const (
	HeavySweep Resweep = iota + 1 // as by SIGHUP
	Reroute                       // ask for tables again, without discovery
)

// AfterSweep returns f as the current sweep will leave it: links that are Init or Armed at
// both ends are Active. f is not changed, and is returned itself if it has no such links.
func AfterSweep(f *topology.Fabric) *topology.Fabric {
	var c *topology.Fabric
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			port := &f.Nodes[i].Ports[p]
			if port.Peer == topology.None || port.State != topology.Init && port.State != topology.Armed {
				continue
			}
			if back := &f.Nodes[port.Peer].Ports[port.PeerPort]; back.State == topology.Down {
				continue
			}
			if c == nil {
				c = f.Clone()
			}
			c.Nodes[i].Ports[p].State = topology.Active
		}
	}
	if c == nil {
		return f
	}
	return c
}
